"""What the page says first, with known answers."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from fedgrid.analysis.pages.table_set import write_tables
from fedgrid.analysis.prose import captions
from fedgrid.analysis.prose.findings import findings
from fedgrid.analysis.prose.tested_differences import evidence
from fedgrid.analysis.scores.results import Results
from fedgrid.analysis.scores.summary import summary

FIVE = [0.90, 0.91, 0.90, 0.89, 0.90]
LOWER = [0.70, 0.69, 0.70, 0.70, 0.72]


def sentences(study) -> str:
    results = study.load()
    (_, sentence), *_ = findings(results, summary(results))
    return sentence


def test_a_significant_lead(make_study):
    study = make_study(seeds=list(range(5))).in_column({"local": LOWER, "ditto": FIVE, "fedavg": [0.5] * 5})
    assert sentences(study) == (
        "ditto leads with 90.00 %, significantly: +19.80 points over local with 70.20 % (95 % CI 17.96 to 21.64, "
        "5 seeds, p = 7.5e-06). fedavg has 50.00 %."
    )
    write_tables(study.load(), study.folder)
    assert "**90.00 ± 0.71**" in (study.folder / "accuracy.md").read_text()
    assert r"\textbf{90.00 $\pm$ 0.71}" in (study.folder / "accuracy.tex").read_text()
    assert "<strong>90.00 ± 0.71</strong>" in (study.folder / "accuracy.html").read_text()


def test_three_seeds_are_enough_two_are_not_and_both_baselines_are_quoted(make_study):
    study = make_study().in_column({"fedavg": [0.5] * 3, "local": [0.6] * 3, "a": FIVE[:3], "b": LOWER[:3]})
    sentence = sentences(study)
    assert sentence.startswith("a leads with 90.33 %, significantly: +20.67 points over b with 69.67 % (95 % CI ")
    assert sentence.endswith(", 3 seeds, p = 0.001). local has 60.00 % and fedavg has 50.00 %.")
    study.cells = [cell for cell in study.cells if cell["seed"] < 2]
    expected = (
        "a leads with 90.50 %, but not significantly: +21.00 points over b with 69.50 % (2 seeds; a test needs 3)"
    )
    assert expected in sentences(study)


def test_a_lead_of_one_image_is_none(make_study):
    study = make_study(seeds=list(range(5)))
    study.in_column({"a": FIVE}, samples=[50, 50])
    study.in_column({"b": [value - 0.01 - 0.001 * i for i, value in enumerate(FIVE)]}, samples=[50, 50])
    assert sentences(study) == (
        "a leads with 90.00 %, but not significantly: +1.20 points over b with 88.80 % (95 % CI 1.00 to 1.40, 5 seeds, "
        "no test: 1.2 more test images right per seed)."
    )


def test_a_lead_that_only_means_over_clients_have(make_study):
    study = make_study(seeds=[0])
    for label, clients in (("a", [1.0, 0.5]), ("b", [0.5, 0.9])):  # of 10 and 30 test images
        study.cell(label, "dir", 0, {1: clients})
    assert sentences(study) == (
        "a leads with 75.00 %, but not significantly: +5.00 points over b with 70.00 % (1 seed, "
        "7 fewer test images right, for clients of different sizes count equally; a test needs 3)."
    )


def test_equal_scores_share_the_place(make_study):
    assert sentences(make_study().in_column({"a": [0.9, 0.8], "b": [0.8, 0.9]})).startswith(
        "a and b share the first place with 85.00 %."
    )


def test_seeds_that_do_not_tell(make_study):
    noisy = [0.9, 0.5, 0.9, 0.5, 0.9]
    study = make_study(seeds=list(range(5))).in_column({"a": noisy, "b": [0.6] * 5}, samples=[100, 300])
    assert sentences(study) == (
        "a leads with 74.00 %, but not significantly: +14.00 points over b with 60.00 % (95 % CI −13.20 to 41.20, "
        "5 seeds, p = 0.23)."
    )


def test_what_is_not_compared_is_named(toy):
    results = toy.load()
    named = dict(findings(results, summary(results)))
    sentence = "FedAvg has 70.00 %; no other method has a score of every seed. Not compared: Ditto (diverged)."
    assert named["homogeneous, 2 clients"] == sentence


def test_columns_of_several_data_sets_are_named_by_both(toy):
    toy.study["data"]["letters"] = "Letters"
    toy.cell("local", "dir", 0, {2: [0.5, 0.5]}, data="letters")
    results = toy.load()
    assert findings(results, summary(results))[-1][0] == "Letters, Dirichlet β=0.1, 2 clients"


def with_partitions(results: Results, place: str) -> Results:
    """The results with every cell's partition at a `place` that has fields of the cell in braces."""
    cells = [replace(cell, partition=Path(place.format(**vars(cell)))) for cell in results.cells]
    return replace(results, cells=cells)


PUBLISHED = {"partitions": {"digits": {"dir": {"partition": "file"}}}}


@pytest.mark.parametrize(
    ("place", "study", "words"),
    [
        ("store/dirichlet-0a/seed={seed}.parquet", {}, "partition and training seed"),
        ("store/dirichlet-0a/seed=4.parquet", {"partition_seed": 4}, "training seed only"),
        ("store/dirichlet-0a/seed={seed}.parquet", {"train_seed": 1}, "partition only"),
        ("store/file-0a/seed={seed}.parquet", PUBLISHED, "training seed only"),  # one published file for all seeds
        ("store/file-0a{seed}/seed={seed}.parquet", PUBLISHED, "partition and training seed"),  # one for each
    ],
)
def test_what_the_spread_is_about(make_study, place, study, words):
    results = with_partitions(make_study(seeds=[0, 1], **study).in_column({"a": [0.9, 0.8]}).load(), place)
    assert captions.varied(results) == words
    assert f"over seeds ({words})" in captions.over_seeds(results)


def test_a_column_with_one_published_partition_beside_others(toy):
    for names in toy.cells:
        kind = "file" if names["heterogeneity"] == "hom" else "dirichlet"
        names["partition"] = f"store/{kind}-0a/seed={names['seed']}.parquet"
    toy.study["partitions"] = {"digits": {"hom": {"partition": "file"}, "dir": {"partition": "dirichlet"}}}
    results = toy.load()
    expected = "partition and training seed, but training seed only on homogeneous, 2 clients"
    assert captions.varied(results) == expected


def test_a_column_of_one_seed_says_nothing_of_what_varies(toy):
    toy.study["data"]["letters"] = "Letters"
    toy.cell("local", "dir", 0, {2: [0.5, 0.5]}, data="letters")
    assert captions.varied(toy.load()) == "partition and training seed"


def test_a_figure_without_scores_says_so(make_study):
    study = make_study(score="trained", seeds=[0]).cell("m", "dir", 0, {1: [0.5, 0.7]})
    assert sentences(study) == "No method has a score of every seed yet. Not compared: m (unscored)."
    assert pd.isna(summary(study.load())["rank"]).all()


def test_a_method_of_the_users_own_comes_first_with_its_place(make_study):
    study = make_study(seeds=list(range(5))).in_column(
        {"mine": LOWER, "ditto": FIVE, "fedavg": [0.5, 0.51, 0.5, 0.5, 0.5]}
    )
    study.study["methods"]["mine"]["file"] = "mine.py"
    sentence = sentences(study)
    assert sentence.startswith(
        "mine (own file) is 2nd of 3 with 70.20 %: −19.80 points against ditto (95 % CI −21.64 to −17.96, "
    )
    assert "; +20.00 points against fedavg (95 % CI " in sentence and ". ditto leads with 90.00 %" in sentence
    best = make_study(seeds=list(range(5))).in_column({"fedavg": FIVE, "local": LOWER})
    best.study["methods"]["fedavg"]["file"] = "fedavg.py"
    assert sentences(best).startswith("fedavg (own file) is 1st of 2 with 90.00 %. fedavg (own file) leads")


def test_a_row_far_behind_is_tested():
    against = {"difference": -0.3, "images": -30.0, "common": 5, "low": -0.31, "high": -0.29, "p_value": 0.001}
    assert evidence(against).endswith("5 seeds, p = 0.001)")
    assert evidence(against | {"images": 0.5}).endswith(
        "no test: 0.5 more test images right per seed, for clients of different sizes count equally)"
    )


def test_the_best_of_several_values_was_chosen_by_what_is_scored(make_study):
    scores = {"ditto, lam = 1": FIVE, "ditto, lam = 2": LOWER, "local": [0.6] * 5}
    warning = " It is the best of 2 rows of ditto on the images scored; a search would choose on others. local has"
    assert warning in sentences(make_study(seeds=list(range(5))).in_column(scores))
    one = {"ditto, lam = 1": LOWER, "ditto, lam = 2": [0.5] * 5, "local": FIVE, "ditto without": [0.4] * 5}
    assert "best of" not in sentences(make_study(seeds=list(range(5))).in_column(one))
