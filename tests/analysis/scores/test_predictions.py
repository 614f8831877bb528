"""What kept predictions add up to, by hand."""

import numpy as np
import pytest
from studies import prepared, study_of, trained
from toys import DIVERGED, predictions, write_partition

from fedgrid.analysis.pages.build import write
from fedgrid.analysis.scores.predictions import at_point, class_names, pooled, tallies, tally, weighted_columns
from fedgrid.analysis.scores.summary import cell_scores
from fedgrid.grid.plan import manifest

ROWS = [
    ("received", 0, 0, 0, 0.9),
    ("received", 0, 0, 2, 0.89),
    ("received", 1, 2, 2, 0.5),
    ("received", 1, 2, 2, 0.95),
]
"""Three classes, of which one has no image: bins 13, 13, 7 and 14 of confidence, counted from 0."""


def test_counts_and_the_error_by_hand():
    actual = tally(predictions(ROWS))
    assert actual.confusion.tolist() == [[1, 0, 1], [0, 0, 0], [0, 0, 2]]
    assert actual.images_of_class.tolist() == [2, 0, 2]
    assert actual.class_accuracy == pytest.approx([0.5, np.nan, 1], nan_ok=True)
    assert {i: n for i, n in enumerate(actual.images.tolist()) if n} == {7: 1, 13: 2, 14: 1}
    assert {i: n for i, n in enumerate(actual.correct.tolist()) if n} == {7: 1, 13: 1, 14: 1}
    assert actual.confidence[[7, 13, 14]] == pytest.approx([0.5, 1.79, 0.95])
    # bins: |1 − 0.5| · 1/4 + |1/2 − 0.895| · 2/4 + |1 − 0.95| · 1/4
    assert actual.calibration_error == pytest.approx(0.125 + 0.1975 + 0.0125)


def test_a_model_that_is_as_often_right_as_it_believes_has_no_error():
    rows = [("received", 0, 0, int(i >= 3), 0.75) for i in range(4)]
    assert tally(predictions(rows)).calibration_error == 0
    sure = [("received", 0, 0, 1, 1.0)]
    assert tally(predictions(sure)).calibration_error == 1 and tally(predictions(sure)).images[-1] == 1


@pytest.mark.parametrize(("probability", "number"), [(1 / 15, 0), (0.067, 1), (1 / 3, 4), (14 / 15, 13), (0.934, 14)])
def test_a_confidence_on_an_edge_is_in_the_lower_bin(probability, number):
    (actual,) = np.flatnonzero(tally(predictions([("received", 0, 0, 0, probability)])).images)
    assert actual == number


def test_seeds_with_different_classes_are_pooled():
    one, two = tally(predictions(ROWS)), tally(predictions([("received", 0, 1, 0, 0.9)]))
    for both in (pooled([one, two]), pooled([two, one])):
        assert both.confusion.tolist() == [[1, 0, 1], [1, 0, 0], [0, 0, 2]]
        assert both.images.sum() == 5 and both.correct.sum() == 3
        assert both.confidence.sum() == pytest.approx(4.14)


def test_idle_clients_count_as_trained_as_they_are():
    both = [("received", 0, 0, 1, 0.5), ("received", 1, 0, 1, 0.5), ("trained", 1, 0, 0, 0.6), ("global", 0, 0, 2, 0.5)]
    table = predictions(both)
    assert sorted(zip(*at_point(table, "trained").select([1, 4]).to_pydict().values(), strict=True)) == [(0, 1), (1, 0)]
    assert at_point(table, "received")["predicted"].to_pylist() == [1, 1]
    assert at_point(table, "global")["predicted"].to_pylist() == [2]
    assert not len(at_point(table, "adapted"))
    assert not len(at_point(predictions(both[:2]), "trained"))  # nobody was trained: there is no such point


def test_every_cell_is_at_the_point_that_scores_it_or_has_a_reason(make_study):
    study = make_study(seeds=[0])
    for label in ("own", "by row", "validated", "adapted", "bare", "gone", "bad", "late"):
        study.method(label)
    for label, score in (("by row", "trained"), ("validated", "validated"), ("adapted", "adapted")):
        study.study["methods"][label]["score"] = score
    rows = [("received", 0, 0, 0, 0.9), ("trained", 0, 0, 1, 0.9)]
    for label in list(study.study["methods"])[:-1]:
        study.cell(label, "dir", 0, {1: [0.5]}, **(DIVERGED if label == "bad" else {}))
        if label != "bare":
            study.keep("predictions", predictions(rows))
    (study.folder / "cells" / "6.predictions.parquet").unlink()
    study.without("late", "dir", 0, "no data")
    actual = tallies(study.load())
    assert {cell.label: parts.correct.sum() for cell, parts in actual.by_cell} == {"own": 1, "by row": 0}
    assert {why: [cell.label for cell in cells] for why, cells in actual.absent.items()} == {
        "Without predictions of the model that validation images choose": ["validated"],
        "Without predictions after adaptation": ["adapted"],
        "Without kept predictions": ["bare", "gone"],
        "Diverged": ["bad"],
        "Without results": ["late"],
    }
    assert not tallies(study.load(), "emnist").by_cell


def test_classes_have_the_names_of_the_partition(make_study):
    study = make_study(seeds=[0])
    for heterogeneity in ("dir", "hom"):
        study.cell("m", heterogeneity, 0, {1: [0.5]})
    assert class_names(study.load(), "digits", 3) == ["0", "1", "2"]  # there is no partition
    study.cells[1]["partition"] = str(study.folder / "official.parquet")
    rows = [(0, "train", 0, None), (-1, "test", 1, None)]
    write_partition(study.folder / "official.parquet", rows, classes=["cat", "dog", "eel"], test="weighted")
    results = study.load()
    assert class_names(results, "digits", 2) == ["cat", "dog", "eel"]
    assert class_names(results, "digits", 4) == ["0", "1", "2", "3"]
    assert weighted_columns(results, results.cells) == [("digits", "hom")]
    write_partition(study.folder / "official.parquet", rows, test="official")
    assert weighted_columns(results, results.cells) == []


@pytest.mark.full
def test_predictions_of_real_cells_agree_with_their_accuracies(tmp_path):
    show = [{"table": "classes"}, {"figure": "confusion"}, {"figure": "calibration"}]
    study = prepared(
        study_of(
            results=str(tmp_path),
            methods=["fedavg", "fedper"],
            seeds=[0],
            training={"rounds": 2, "participation": 0.5},
            report={"score": "trained"},
            artifacts=["predictions"],
            show=show,
        )
    )
    (experiment,) = study.experiments
    for cell in experiment.cells:
        trained(cell, study)
    results = write(manifest.content(study, experiment), tmp_path, "s.yaml")
    shares = {cell.label: parts.correct.sum() / parts.images.sum() for cell, parts in tallies(results).by_cell}
    expected = cell_scores(results).set_index("label")["accuracy_weighted"]
    assert shares == pytest.approx(expected.to_dict()) and set(shares) == {"fedavg", "fedper"}
    assert {file.name for file in (tmp_path / "figures").glob("*.svg")} == {
        "calibration-digits.svg",
        "confusion-digits.svg",
    }
    assert (tmp_path / "tables/classes.md").read_text().count("\n| ") == 13  # header, rule, ten digits, ECE
