"""Printed numbers beside ours, joined by words; by hand."""

import math

import numpy as np
import pandas as pd
import pytest
from toys import texts

from fedgrid.analysis.pages.table_set import write_tables
from fedgrid.analysis.papers.agreement import agreement, between_papers, between_seeds, interval, tau
from fedgrid.analysis.papers.published import join_printed_numbers, printed_table, text


def table_of(study):
    results = study.load()
    table = join_printed_numbers(results)
    written, grid = printed_table(results, table)
    return results, table, written, grid


@pytest.fixture
def paper(toy):
    """The toy study beside four printed rows; ours are 55.50, 46.00 and 85.75 on "dir", 70.00 (FedAvg) on "hom"."""
    toy.prints("Local", "50.00", rank="2")
    toy.prints("FedAvg", "40.00", corrected="47.00", note="misread")
    toy.prints("Ditto", "90.00", rank="1")
    toy.prints("Averaged", "60.00")
    toy.prints("Local", "6.00", metric="std_clients")
    toy.prints("FedAvg", "69.00", heterogeneity="hom")
    toy.prints("Ditto", "71.00", heterogeneity="hom")
    return toy


def test_printed_beside_ours(paper):
    _, table, written, grid = table_of(paper)
    assert texts(grid) == {
        "Local": ["50.00", "55.50 ± 0.50", "+5.50", "6.00", "5.50 ± 0.50", "−0.50", "–", "–", "–"],
        "FedAvg": ["47.00", "46.00 ± 1.00", "−1.00", "–", "–", "–", "69.00", "70.00 ± 0.00", "+1.00"],
        "Ditto": ["90.00", "85.75 ± 0.75", "−4.25", "–", "–", "–", "71.00", "diverged", "–"],
        "Averaged": ["60.00", "62.42", "+2.42", "–", "–", "–", "–", "–", "–"],
    }
    assert [entry.raised for entry in dict(grid.rows)["Ditto"]] == ["①", "", "", "", "", "", "", "b", ""]
    assert dict(grid.rows)["FedAvg"][0].notes == "a"
    assert grid.notes[0] == "Printed as 40.00." and grid.notes[1].startswith("seed 2 diverged")
    assert [text for text, _ in grid.header[2]] == ["Acc. (%)", "Std. over clients (%)", "Acc. (%)"]
    assert written["difference"].tolist()[:3] == pytest.approx([5.5, -1.0, -4.25])
    assert "data_key" not in written and (table["unjoined"] == "").all() and "counterpart" not in grid.caption


def test_what_cannot_be_joined_is_listed(paper):
    for row, value, more in (
        ("FedProx", "1.0", {}),
        ("Local", "2.0", {"data": "EMNIST"}),
        ("Local", "3.0", {"heterogeneity": "Dirichlet 9"}),
        ("Local", "4.0", {"domain": "Clipart"}),
        ("Local", "5.0", {"metric": "crossover_round"}),
        ("Local", "lost", {}),
    ):
        paper.prints(row, value, **more)
    _, table, _, grid = table_of(paper)
    assert table["unjoined"].tolist()[7:] == [
        "there is no row 'FedProx' here",
        "there is no data 'EMNIST' here",
        "there is no heterogeneity 'Dirichlet 9' here",
        "Digits has no domain 'Clipart' here",
        "crossover_round is not measured here",
        "'lost' is no number",
    ]
    assert len(grid.rows) == 3  # nothing of these is in the table itself, nor a mean that lacks a row
    assert "there is no row 'FedProx' here: 1.0 (FedProx, Digits, Dirichlet β=0.1, 2 clients, accuracy)" in grid.caption


def test_missing_results_leave_a_dash_beside_the_printed_number(make_study):
    study = make_study(seeds=[0], data={"digits": "Digits", "net": "DomainNet"})
    study.method("m", title="M")
    study.without("m", "dir", 0, "DomainNet is not at hand", data="net")
    study.cell("m", "dir", 0, {1: [0.5]})
    study.prints("M", "30.0", data="DomainNet", domain="Clipart")
    study.prints("M", "30.0", heterogeneity="hom")
    _, table, _, grid = table_of(study)
    assert texts(grid) == {"M": ["30.0", "–", "–"]} and grid.notes == ["unavailable: DomainNet is not at hand."]
    assert table["unjoined"].tolist() == ["", "Digits was not run with hom"]


def test_an_experiment_without_any_data(make_study):
    study = make_study(seeds=[0])
    study.method("m", title="M")
    study.without("m", "dir", 0, "CIFAR is not at hand")
    study.prints("M", "30.0")
    results, table, _, grid = table_of(study)
    assert texts(grid) == {"M": ["30.0", "–", "–"]}
    assert agreement(results, table)[1].rows == []


def test_domains_and_differences_join(make_study):
    study = make_study(seeds=[0, 1])
    for label, title, gain in (("fedavg", "FedAvg", 0.0), ("mine", "Mine", 0.1)):
        study.method(label, title=title)
        for seed in (0, 1):
            more = gain * (1 + seed)
            study.cell(label, "dir", seed, {1: [0.2 + more, 0.4 + more, 0.6]}, samples=[1] * 3, domains=["x", "x", "y"])
    for domain, value in (("x", "40"), ("avg", "60"), ("", "50")):
        study.prints("Mine", value, domain=domain)
    study.prints("Mine", "+5.93", metric="accuracy_delta_vs_fedavg", domain="avg")
    study.prints("Mine", "-1", metric="accuracy_delta_vs_moon", domain="avg")
    _, table, _, grid = table_of(study)
    # x: 40 and 50; avg: 50 and 55; of all: (30 + 50 + 60) / 3 and (40 + 60 + 60) / 3; difference on avg: 5 and 10
    assert table["ours"].tolist()[:4] == pytest.approx([45.0, 52.5, 50.0, 7.5])
    assert table["ours_std_seeds"][3] == pytest.approx(5 / 2**0.5)
    assert table["unjoined"][4] == "accuracy_delta_vs_moon is not measured here"
    assert texts(grid)["Mine"][-3:] == ["+5.93", "+7.50 ± 3.54", "+1.57"]
    assert [text for text, _ in grid.header[2]] == ["x", "Avg.", "", "Avg."]
    assert grid.header[3][-1] == ("Δ to FedAvg (points)", 3)


def test_domains_join_whatever_their_case_and_hyphens_and_a_mean_joins_that_over_clients(make_study):
    study = make_study(seeds=[0])
    study.method("m", title="M")
    study.cell("m", "dir", 0, {1: [0.2, 0.6]}, domains=["mnistm", "synth"])
    study.cell("m", "hom", 0, {1: [0.3, 0.5]})
    for domain, value in (("MNIST-M", "21"), ("Synth", "61"), ("avg", "41"), ("MNIST", "9")):
        study.prints("M", value, domain=domain)
    study.prints("M", "42", domain="avg", heterogeneity="hom")  # its clients have no domains
    _, table, written, grid = table_of(study)
    assert table["ours"].tolist()[:3] == pytest.approx([20, 60, 40])
    assert table["unjoined"].tolist() == ["", "", "", "Digits has no domain 'MNIST' here", ""]
    assert table["ours"][4] == pytest.approx(40)
    assert [text for text, _ in grid.header[2]] == ["mnistm", "synth", "Avg.", ""]
    assert written["domain"].tolist() == ["MNIST-M", "Synth", "avg", "MNIST", "avg"]


def test_rounds_and_seconds_join_where_they_are_shown(make_study):
    shown = [{"table": "rounds", "target": 50}, {"table": "phases", "names": {"similarity": "Similarity Metric"}}]
    study = make_study(seeds=[0], show=shown)
    costs = {"seconds": {"train": 8.0, "evaluate": 1.0, "total": 9.0, "phases": {"similarity": 0.5}}}
    study.method("m", title="M")
    study.cell("m", "dir", 0, {1: [0.4], 2: [0.6]}, costs=costs)
    study.method("n", title="N")
    study.cell("n", "dir", 0, {1: [0.4], 2: [0.4]}, status="diverged", reason="no")
    study.prints("M", ">100", metric="rounds")
    study.prints("M: Similarity Metric", "0.05", metric="seconds")
    study.prints("Similarity Metric", "0.05", metric="seconds")
    _, table, _, grid = table_of(study)
    assert table["difference"].tolist()[0] == -98
    assert table["unjoined"].tolist() == ["", "there is no row 'M: Similarity Metric' here", ""]
    assert texts(grid) == {
        "M": [">100", "2.00", "−98.00", *"–––"],
        "Similarity Metric": [*"–––", "0.05", "0.25", "+0.20"],
    }
    study.study["show"] = []
    assert join_printed_numbers(study.load())["unjoined"].tolist()[0] == "rounds is not measured here"


def ordered_study(make_study, by_seed, values):
    """Rows r0, r1, … with our accuracies by seed, and printed values."""
    study = make_study(seeds=list(range(len(by_seed))))
    for i, value in enumerate(values):
        for seed, accuracies in enumerate(by_seed):
            study.cell(f"r{i}", "dir", seed, {1: [accuracies[i]]})
        study.prints(f"r{i}", value)
    return study


def agreed(study):
    results = study.load()
    numbers, grid = agreement(results, join_printed_numbers(results))
    return numbers.iloc[0], grid


def test_tau_by_hand(make_study):
    """Means 0.2, 0.3, 0.45, 0.6 against 1, 3, 2, 4: five pairs of six in order; between the seeds all but one, too."""
    study = ordered_study(make_study, [[0.1, 0.3, 0.5, 0.6], [0.3, 0.3, 0.4, 0.6]], ["1", "3", "2", "4"])
    study.prints("Averaged", "9")
    numbers, grid = agreed(study)
    assert (numbers["rows"], numbers["tau"]) == (4, pytest.approx(4 / 6))
    assert numbers["between_seeds"] == pytest.approx(5 / (6 * 5) ** 0.5)  # a tie in one: 5 in order, of 6 and of 5
    name, entries = grid.rows[0]
    assert name == "Digits, Dirichlet β=0.1, 2 clients, Acc. (%)"
    assert [entry.text for entry in entries] == ["4", "0.67", "–", "0.91"]  # too few rows for an interval


def test_each_seed_is_compared_with_the_mean_of_the_others():
    """The third seed turns the order of the first two; their mean with it keeps that of either."""
    scores = pd.DataFrame({0: [0.1, 0.2, 0.3], 1: [0.1, 0.2, 0.3], 2: [0.28, 0.2, 0.15]})
    assert between_seeds(scores) == pytest.approx((1 + 1 - 1) / 3)
    assert math.isnan(between_seeds(scores[[0]]))


def test_one_seed_has_no_ceiling_and_one_row_no_order(make_study):
    numbers, grid = agreed(ordered_study(make_study, [[0.1]], ["1"]))
    assert [entry.text for entry in grid.rows[0][1]] == ["1", "–", "–", "–"] and np.isnan(numbers["tau"])


def test_tau_of_ties_and_of_what_was_not_reached():
    assert tau([1, 2, 3], [3, 2, 1]) == -1 and np.isnan(tau([1, 1, 1], [1, 2, 3]))
    assert tau([1, 2, 2, 4], [1, 2, 3, 4]) == pytest.approx(5 / (5 * 6) ** 0.5)
    assert tau([41, 61, 100], [10, 20, np.inf]) == 1
    assert tau([0.1 + 0.2, 0.3, 1], [1, 1, 2]) == pytest.approx(1)  # a difference in the last digit is a tie


def test_numbers_as_text():
    assert [text(-0.001, signed=True), text(-1.0), text(np.inf), text(np.inf, signed=True)] == [
        "+0.00",
        "−1.00",
        "not reached",
        "–",
    ]


def test_few_rows_have_wide_intervals():
    assert np.isnan(interval(1.0, 4)).all() and np.isnan(interval(float("nan"), 9)).all()
    low, high = interval(1.0, 5)  # arctanh(0.9) ∓ 1.95996 · √0.6
    assert (low, high) == (pytest.approx(np.tanh(1.472219 - 1.518182), abs=1e-5), 1.0)
    assert interval(0.5, 24)[0] > interval(0.5, 12)[0] > interval(0.5, 6)[0]
    assert np.allclose(interval(-0.5, 8), [-value for value in interval(0.5, 8)[::-1]])


def test_agreement_between_papers():
    def numbers(data, **values):
        place = {"data": data, "heterogeneity": "Dirichlet 0.1", "domain": "", "metric": "accuracy", "corrected": ""}
        return [place | {"row": row, "value": value} for row, value in values.items()]

    one = numbers("CIFAR-10", Local="1", FedAvg="2", FedRep="3", Averaged="5", Mine="4") + numbers("EMNIST", Local="1")
    one.append(one[0] | {"value": "9"})  # printed again, with another number: the first counts
    one.append(one[0] | {"metric": "std_clients", "row": "FedRep"})
    other = numbers("CIFAR-10", Local="1", FedAvg="7", FedRep="6", Averaged="5", Theirs="4") + numbers(
        "EMNIST", Local="1"
    )
    actual = between_papers({"one": one, "other": other})
    assert actual[["paper", "other", "data", "rows", "equal"]].values.tolist() == [["one", "other", "CIFAR-10", 3, 1]]
    assert actual["tau"].tolist() == pytest.approx([1 / 3])


def test_printed_numbers_make_two_more_tables(paper):
    write_tables(paper.load(), paper.folder / "tables")
    made = {path.name for path in (paper.folder / "tables").iterdir()}
    assert made == {
        f"{name}.{form}"
        for name in ("accuracy", "costs", "printed", "agreement")
        for form in ("csv", "md", "tex", "html")
    }
