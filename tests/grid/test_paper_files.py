"""The files of the five papers: every experiment with its output, every printed number with its place in the plan."""

import csv
import shutil
from functools import cache
from itertools import combinations
from pathlib import Path

import pytest

from fedgrid.errors import UserError
from fedgrid.grid.plan import manifest
from fedgrid.grid.plan.instances import info_of
from fedgrid.grid.plan.product import planned_study
from fedgrid.grid.study.printed import printed_file
from fedgrid.grid.study.yaml_file import read

EXPERIMENTS = {"fedcosr": 17, "fedcrl": 11, "fedccl": 13, "fedssc": 5, "fedsac": 13}
"By paper, its tables and figures, and the numbers that only its text has."
OF_CELLS = ("accuracy", "std_clients", "rounds")
"Metrics of a row and a column; others are differences and margins, which follow from them, or settings."
NO_ROW = ("Averaged", "most methods")
"Printed rows that are no method."


@pytest.fixture(params=EXPERIMENTS)
def paper(request, monkeypatch):
    """A paper's name, its text and its study at full scale, on a machine without any data."""
    monkeypatch.chdir(request.config.rootpath)
    return request.param, *planned(request.param)


@cache
def planned(name):
    """Planning takes seconds, so it is done once for all tests, which leave text and study as they are."""
    text = read(Path(f"config/papers/{name}.yaml"))
    return text, planned_study(text)


def listed(study):
    return {one.id: manifest.content(study, one) for one in study.experiments}


def printed(text):
    with open(printed_file(text), encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def folded(name: str) -> str:
    """A domain's name as papers and data sets both write it."""
    return name.lower().replace("-", "")


def test_every_experiment_is_there_and_has_an_output_a_caption_and_a_source(paper):
    name, text, study = paper
    assert len(study.experiments) == EXPERIMENTS[name] and len(text["experiments"]) == EXPERIMENTS[name]
    for one in text["experiments"].values():
        assert one.get("show") or one.get("lacks")
        assert one["title"].endswith(".") and one["source"]


def test_every_printed_number_has_its_place(paper):
    _, text, study = paper
    actual, lost = listed(study), []
    for row in printed(text):
        content = actual[row["experiment"]]
        about = content.study
        if about.lacks or row["metric"] not in OF_CELLS or row["row"] in NO_ROW:
            continue
        places = {
            (
                about.methods[c.label].title,
                about.data[c.data],
                about.heterogeneity[c.heterogeneity],
            )
            for c in content.cells
        }
        if (row["row"], row["data"], row["heterogeneity"]) not in places:
            lost.append(row)
    assert lost == []


def test_every_printed_domain_is_one_of_the_data_set(paper):
    _, text, study = paper
    kinds = {one.title: info_of(_images(one).component, None) for one in _data(study)}
    domains = {title: {folded(name) for name in kind.domains or kind.modalities} for title, kind in kinds.items()}
    for row in printed(text):
        if row["domain"] not in ("", "avg") and row["data"] in domains:
            assert folded(row["domain"]) in domains[row["data"]], row


def _data(study):
    return [cell.partition.data for cell in study.cells]


def _images(data):
    return data.images or data


def test_a_claim_that_can_be_checked_names_rows_and_columns_of_its_table(paper):
    _, text, study = paper
    domains = {row["domain"] for row in printed(text)} | {"avg"}
    for name, content in listed(study).items():
        described = content.study
        titles = {row.title for row in described.methods.values()}
        columns = {
            ", ".join(some)
            for cell in content.cells
            for domain in domains
            for number in (1, 2, 3)
            for some in combinations(
                (described.data[cell.data], described.heterogeneity[cell.heterogeneity], domain), number
            )
        }
        for claim in described.claims if content.cells else []:
            assert "seconds" in claim.metric or {*claim.named_rows, *claim.rows} <= titles, (name, claim)
            assert set(claim.columns) <= columns, (name, claim)


def test_scale_small_keeps_every_experiment_its_rows_and_its_columns(paper):
    _, text, study = paper
    small = planned_study(text | {"scale": "small"})
    assert len(small.by_key) < len(study.by_key)
    swept = 0
    for one, other in zip(study.experiments, small.experiments, strict=True):
        assert bool(one.cells) == bool(other.cells)
        left_out = {cell.table_position[:3] for cell in one.cells} - {cell.table_position[:3] for cell in other.cells}
        assert {cell.table_position[:3] for cell in other.cells} <= {cell.table_position[:3] for cell in one.cells}
        swept += bool(left_out)
    assert swept <= 6  # sweeps are thinned, tables are whole


def test_papers_share_what_they_have_in_common(monkeypatch, request):
    monkeypatch.chdir(request.config.rootpath)
    cosr, crl = (
        planned_study(read(Path(f"config/papers/{name}.yaml")) | {"only": "table2"}) for name in ("fedcosr", "fedcrl")
    )
    baselines = {cell.key for cell in cosr.cells if cell.row.label != "fedcosr"}
    assert len(baselines) == 15 * 6 * 5 and baselines < crl.by_key.keys()


def test_a_paper_without_its_numbers_beside_it_says_so(tmp_path, request):
    shutil.copy(request.config.rootpath / "config/papers/fedssc.yaml", tmp_path)
    with pytest.raises(UserError, match=r"fedssc\.yaml:\d+: published: .*/fedssc\.csv cannot be read"):
        planned_study(read(tmp_path / "fedssc.yaml"))
