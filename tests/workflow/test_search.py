"""A study that searches settings, run by Snakemake."""

import json
from collections.abc import Iterator

import pandas as pd
import pytest
from forked import Forked

from fedgrid.files import read_table

STUDY = """
name: tiny
data: digits
heterogeneity: [{partition: dirichlet, beta: 0.5, clients: 4, validation: 0.2}]
seeds: [0]
model: {name: mlp, hidden: 16, features: 8}
training: {rounds: 2}
methods:
  fedprox: {search: {training: {lr: [0.01, 0.3]}, mu: [0.1, 1]}}
"""
CELLS = "results/store/cells"


@pytest.fixture(scope="module")
def finished(tmp_path_factory, forker):
    checkout = Forked(tmp_path_factory.mktemp("searched") / "tree", STUDY)
    checkout.snakemake()
    return checkout


def specs(checkout) -> Iterator[tuple[dict, pd.DataFrame]]:
    """Of each finished cell what it was trained with, and its rows."""
    for file in sorted((checkout.path / CELLS).rglob("s*-*.parquet")):
        if file.name.count(".") == 1:
            table, metadata = read_table(file)
            yield metadata["spec"], table.to_pandas()


def by_hand(checkout) -> dict[tuple[float, float], float]:
    """By rate and μ, the mean over seeds and clients of the last round's accuracy of the global model on validation."""
    scores: dict[tuple[float, float], list[float]] = {}
    for spec, rows in specs(checkout):
        if spec["seed"] >= 1000:
            last = rows[(rows["round"] == 2) & (rows["metric"] == "validation_accuracy_global")]
            point = spec["training"]["lr"], spec["method"]["settings"]["mu"]
            scores.setdefault(point, []).append(last["value"].mean())
    assert {len(of_seeds) for of_seeds in scores.values()} == {2}
    return {point: sum(of_seeds) / 2 for point, of_seeds in scores.items()}


def of_table(checkout) -> list[tuple[float, float]]:
    """Rate and μ of the cells of the table's seed."""
    return [(s["training"]["lr"], s["method"]["settings"]["mu"]) for s, _ in specs(checkout) if s["seed"] < 1000]


def test_the_table_has_what_a_calculation_by_hand_chooses(finished):
    scores = by_hand(finished)
    best = max(scores, key=lambda point: scores[point])
    assert len(scores) == 4 and len(set(scores.values())) > 1
    assert of_table(finished) == [best]
    table = pd.read_csv(finished.path / "results/tiny/tables/search.csv")
    assert table["mean"].tolist() == pytest.approx([scores[lr, mu] for lr in (0.01, 0.3) for mu in (0.1, 1)])
    (chosen,) = table.loc[table["outcome"] == "chosen", "settings"]
    assert chosen == f"lr = {best[0]:g}, mu = {best[1]:g}"
    caption = (finished.path / "results/tiny/tables/accuracy.md").read_text()
    assert f"Chosen on validation images of seeds 1000 and 1001, which are not the table's: FedProx {chosen}" in caption
    assert chosen in finished.fedgrid("explain", "fedprox")


def test_budgets_count_tries_and_images(finished):
    (budget,) = pd.read_csv(finished.path / "results/tiny/tables/budgets.csv").to_dict("records")
    images = {
        spec["seed"]: rows.loc[rows["metric"] == "train_samples", "value"].sum() * 2 for spec, rows in specs(finished)
    }
    assert (budget["points"], budget["trials"], budget["cells"]) == (4, 8, 1)
    assert budget["images_search"] == 4 * (images[1000] + images[1001]) and budget["images_table"] == images[0]


def test_a_second_run_does_nothing(checkout):
    assert checkout.planned() == {}


def test_a_point_more_trains_it_alone(checkout):
    checkout.edit("config/study.yaml", "lr: [0.01, 0.3]", "lr: [0.01, 0.3, 0.0001]")
    assert checkout.planned() == {"fedprox": 4, "experiment": 1}


@pytest.mark.full
def test_what_is_planned_for_a_point_more_is_trained(checkout):
    before = set(checkout.cells())
    checkout.edit("config/study.yaml", "lr: [0.01, 0.3]", "lr: [0.01, 0.3, 0.0001]")
    checkout.snakemake()
    added = set(checkout.cells()) - before
    assert {file.name.partition("-")[0] for file in added} == {"s1000", "s1001"} and len(added) == 4
    assert checkout.planned() == {}


@pytest.mark.full
def test_another_study_shares_the_search_and_trains_the_table_alone(checkout):
    checkout.edit("config/study.yaml", "name: tiny\n", "name: other\ntitle: Another study\n")
    checkout.edit("config/study.yaml", "seeds: [0]", "seeds: [3]")
    before = set(checkout.cells())
    checkout.snakemake()
    assert [file.name.partition("-")[0] for file in set(checkout.cells()) - before] == ["s3"]


def test_the_plan_and_the_status_say_what_waits(checkout):
    checkout.edit("config/study.yaml", "mu: [0.1, 1]", "mu: [0.1, 1, 2]")
    plan, status = checkout.fedgrid("plan"), checkout.fedgrid("status")
    for line in (plan, status):
        assert (
            "search: 0 of 1 choice made, 8 of 12 cells to choose by done, 1 cell of the tables waits for them" in line
        )
    assert "13 cells, 8 cached, 5 to run" in plan


def test_nothing_of_a_finished_search_is_pruned(checkout):
    output = checkout.fedgrid("prune")
    assert "cells/" not in output and "choices/" not in output and "partitions/" not in output


@pytest.mark.full
def test_rungs_go_on_from_kept_states_and_leave_the_worse_half_behind(checkout):
    checkout.edit("config/study.yaml", "mu: [0.1, 1]}", "mu: [0.1, 1], rungs: [1, 2]}")
    before = len(checkout.cells())
    checkout.snakemake()
    choices = [json.loads(file.read_text()) for file in (checkout.path / "results/store/choices").glob("*.json")]
    (first,) = [choice for choice in choices if len(choice["kept"]) == 2]
    (last,) = [choice for choice in choices if len(choice["scores"]) == 2]
    assert len(first["scores"]) == 4 and sorted(first["kept"]) == [score["point"] for score in last["scores"]]
    # the cells of two rounds are those of the plain search, so that only the first rung is trained
    assert len(checkout.cells()) == before + 8
    # both rungs are of one round, since those of the second go on from the first
    by_point = {score["point"]: score["images"] for score in first["scores"]}
    assert {score["images"] for score in last["scores"]} == {by_point[score["point"]] for score in last["scores"]}
    assert checkout.planned() == {}


@pytest.mark.full
def test_experiments_are_chosen_by_only_and_end_in_one_page(checkout):
    checkout.edit("config/study.yaml", "methods:", "methods:\n  fedavg:")
    checkout.edit("config/study.yaml", "name: tiny", "name: two\nexperiments: {a: , b: {methods: [fedavg]}}")
    checkout.snakemake("--config", "only=b")
    assert not (checkout.path / "results/two/a").exists()
    checkout.snakemake()
    assert all((checkout.path / f"results/two/{name}report.html").is_file() for name in ("", "a/", "b/"))
    assert (checkout.path / "results/two/a/tables/search.csv").is_file()
    assert checkout.planned() == {}
