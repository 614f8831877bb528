"""docs/reproduction.md says what the kept tables say."""

import re
from pathlib import Path

import pandas as pd
import pytest

from benchmarks import long_runs, papers, reproduction
from benchmarks import reproduction_pictures as pictures


@pytest.fixture(autouse=True)
def in_repository(monkeypatch, request):
    monkeypatch.chdir(request.config.rootpath)


def test_the_page_is_what_the_tables_say():
    assert Path("docs/reproduction.md").read_text() == reproduction.page(reproduction.RUN)


def test_the_first_screen_has_a_claim_of_each_paper_and_what_became_of_it():
    lines = reproduction.answers(reproduction.claims_of(reproduction.RUN)).splitlines()[2:]
    assert len(lines) == len(reproduction.TITLES)
    for line in lines:
        *_, at_length, small, left, _ = (part.strip() for part in line.split("|"))
        assert small.startswith(("**open**", "**refuted**", "**confirmed**")) and left
        assert " points " in small and (" to " in small) == ("(1 seed)" not in small)
        assert at_length == "–" or (" points " in at_length and " to " in at_length)


def test_an_answer_says_where_print_contradicts_itself_too():
    claim = {
        "verdict": "refuted",
        "columns": 1,
        "columns_alike": 1,
        "contradicted": "MNIST, Dirichlet 0.1; CIFAR-10, iid",
    }
    numbers = "MNIST, Dirichlet 0.1: FedSaC 88.20, pFedGraph 88.08: +0.12 points (95 % CI −0.93 to +1.17, 3 seeds)"
    said = "**refuted**: 0.12 points above pFedGraph (−0.93 to +1.17) on MNIST, Dirichlet 0.1 (3 seeds)"
    of_both = f"{said}, where the paper's own numbers violate the claim, too"
    assert reproduction.answer(pd.DataFrame([{**claim, "numbers": numbers}])) == of_both
    assert reproduction.answer(pd.DataFrame([{**claim, "numbers": numbers, "contradicted": "CIFAR-10, iid"}])) == said
    assert reproduction.answer(pd.DataFrame()) == "–"


def test_pictures_show_the_numbers_of_the_tables():
    """Each holds a digest of them; `python -m benchmarks.reproduction` draws them anew."""
    assert {file.stem for file in pictures.FOLDER.glob("*")} == set(pictures.COLUMNS)
    for paper in pictures.COLUMNS:
        text = (pictures.FOLDER / f"{paper}.svg").read_text(encoding="utf-8")
        assert f"[{pictures.digest(pictures.numbers(paper))}]" in text, paper


def test_a_picture_has_what_is_printed_and_what_each_scale_came_to():
    table = pictures.numbers("fedsac")
    assert table.index[0] == "FedSaC" and table["printed"]["FedSaC"] == 93.14 and "Averaged" not in table.index
    kept = pd.read_csv("benchmarks/results/papers/small/fedsac/printed.csv").query(
        "row == 'FedSaC' and number == 93.14"
    )
    assert table["small"]["FedSaC"] == kept["ours"].item()


def test_the_leader_is_named_with_its_lead_and_the_place_of_the_papers_own_row():
    accuracies = pd.Series({"Local": 70.0, "FedSaC": 71.5, "Ditto": 73.25})
    leads = "Ditto is first of 3 with 73.25 %, 1.75 points above FedSaC"
    assert reproduction.lead(accuracies, "FedSaC") == f"{leads}; FedSaC is number 2 with 71.50 %"
    assert reproduction.lead(accuracies, "Ditto", " (significant)") == f"{leads} (significant)"
    assert reproduction.lead(accuracies, "Ditto") == reproduction.lead(accuracies, "FedCRL") == leads


def test_distances_are_counted_over_accuracies_that_were_run(tmp_path):
    rows = [("accuracy", -20.0, 1), ("accuracy", -10.0, 3), ("accuracy", 5.0, 1), ("accuracy", None, None)]
    table = pd.DataFrame([*rows, ("std_clients", 3.0, 1)], columns=["metric", "difference", "seeds"])
    table = pd.concat([table.assign(row="Local"), table.assign(row="Averaged")]).assign(folder="table1")
    for paper in ("fedsac", "fedcrl"):  # whose cells are FedCoSR's
        (tmp_path / paper).mkdir()
        table.to_csv(tmp_path / paper / "printed.csv", index=False)
    assert reproduction.distances(tmp_path) == {"compared": 3, "one_seed": 2, "below": 2, "median": 10.0}


def test_the_place_of_a_row_is_counted_in_each_column_of_an_experiment():
    columns = {"a": {"A": 3.0, "B": 2.0, "Averaged": 9.0}, "b": {"A": 1.0, "B": 2.0}, "c": {"A": None, "B": 2.0}}
    entries = [(kind, row, ours) for kind, rows in columns.items() for row, ours in rows.items()]
    table = pd.DataFrame(entries, columns=["heterogeneity", "row", "ours"])
    table = table.assign(folder="table1", data="CIFAR-10", metric="accuracy")
    other = table.assign(folder="table2", ours=0.0)
    assert reproduction.places(pd.concat([table, other]), "table1", "A") == [1, 2]
    assert reproduction.places(table.assign(metric="std_clients"), "table1", "A") == []


def test_agreement_counts_columns_of_accuracies_by_their_pairs(tmp_path):
    """Four rows have six pairs, three rows three, and two rows do not count; one column has several seeds."""
    columns = [("accuracy", 4, 1.0, 0.5), ("accuracy", 3, -1.0, None), ("accuracy", 2, 1.0, None)]
    columns += [("std_clients", 3, 0.0, 0.0)]
    table = pd.DataFrame(columns, columns=["metric", "rows", "tau", "between_seeds"]).assign(folder="table1")
    (tmp_path / "fedsac").mkdir()
    table.to_csv(tmp_path / "fedsac/agreement.csv", index=False)
    expected = {"columns": 2, "tau": 0.33, "columns_of_several": 1, "tau_of_several": 1.0, "between_seeds": 0.5}
    assert papers.agreement(tmp_path).loc["fedsac"].to_dict() == expected


def test_reasons_link_to_pages_that_are_there():
    for paper in reproduction.TITLES:
        links = re.findall(r"\]\(\.\./([^)#]+)", "\n".join(reproduction.differences(paper)))
        assert links and all(Path(link).is_file() for link in links)


def test_tables_of_long_cells_are_what_the_cells_say():
    long = Path("benchmarks/results/papers/README.md").read_text()
    of_local = Path("benchmarks/results/papers/local/README.md").read_text()
    for name, table in long_runs.TABLES.items():
        assert table() in (of_local if name == "local" else long), name


def test_means_are_written_as_tables_print_them():
    rows = pd.DataFrame({"row": ["A", "B", "C"], "ours": [71.4077, 9.0, None], "std": [3.90579, None, None]})
    assert reproduction.with_names(rows, "ours", "std") == "A 71.41 ± 3.91, B 9.00, C –"
    assert reproduction.with_names(rows[:2], "ours") == "A 71.41, B 9.00"
