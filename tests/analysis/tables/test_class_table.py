"""The table of classes, by hand."""

from functools import partial

import pytest
from toys import DIVERGED, make_table, predictions, texts, write_partition

from fedgrid.analysis.pages.table_set import write_tables

classes = partial(make_table, "classes")

CAT, CAT_AS_DOG, DOG = (0, 0, 0, 0.75), (0, 0, 1, 0.75), (1, 1, 1, 0.5)


@pytest.fixture
def predicted(make_study):
    """Two seeds: "one" with both, "two" with the first alone, "bad" with one that diverged; "bare" kept nothing."""
    study = make_study(seeds=[0, 1])
    partition = [(0, "train", 0, None), (0, "test", 1, None)]
    write_partition(study.folder / "dirichlet-1/seed=0.parquet", partition, classes=("cat", "dog", "eel"))
    for label in ("one", "two", "bad", "bare"):
        for seed in (0, 1):
            diverged = DIVERGED if label == "bad" and seed else {}
            study.cell(label, "dir", seed, {2: [0.5, 0.7]}, **diverged)
            if label == "one" or (label == "two" and not seed):
                rows = [CAT, CAT, CAT, CAT_AS_DOG, DOG] if not seed else [CAT, CAT_AS_DOG]
                study.keep("predictions", predictions([("received", *row) for row in rows]))
    return study


def test_classes_and_errors_over_seeds(predicted):
    table, grid = classes(predicted.load(), {})
    assert texts(grid) == {
        "cat": ["62.50 ± 17.68", "75.00 ± –", "–", "–"],  # 3/4 and 1/2
        "dog": ["100.00 ± –", "100.00 ± –", "–", "–"],  # the second seed tests none
        "eel": ["–", "–", "–", "–"],
        "ECE": ["17.50 ± 10.61", "10.00 ± –", "diverged", "–"],  # (4·0 + 1·0.5) / 5 and |1/2 − 3/4|
    }
    assert grid.header == [
        [("Digits", 4)],
        [("Dirichlet β=0.1, 2 clients", 4)],
        [(n, 1) for n in predicted.load().names],
    ]
    assert [entry.notes for entry in grid.rows[-1][1]] == ["", "a", "b", ""]
    assert grid.notes == ["over 1 of 2 seeds.", "seed 1 diverged: a loss is not finite."]
    numbers = table.set_index(["label", "quantity", "class"])
    assert numbers.loc[("one", "accuracy", "cat"), ["mean", "seeds", "images"]].tolist() == [0.625, 2, 6]
    assert numbers.loc[("one", "calibration_error", ""), ["mean", "seeds", "images"]].tolist() == [
        pytest.approx(0.175),
        2,
        7,
    ]
    for sentence in (
        "accuracy of each class after the last round, over 2 seeds (0, 1).",
        "An image counts once for each client that is tested on it.",
        "Every method is scored as received.",
        "Without kept predictions, so not counted: two (Dirichlet β=0.1, 2 clients, seed 1), bad (Dirichlet β=0.1, 2 ",
        "Diverged, so not counted: bad (Dirichlet β=0.1, 2 clients, seed 1).",
    ):
        assert sentence in grid.caption


def test_data_sets_have_classes_of_their_own(make_study):
    study = make_study(seeds=[0], data={"digits": "Digits", "pets": "Pets"})
    for data, names in (("digits", ["0", "1"]), ("pets", ["cat", "1"])):
        study.cell("m", "dir", 0, {2: [0.5, 0.7]}, data=data)
        study.keep("predictions", predictions([("received", *row) for row in (CAT, DOG)]))
        file = write_partition(study.folder / f"{data}.parquet", [(0, "train", 0, None)], classes=names)
        study.cells[-1]["partition"] = str(file)
    _, grid = classes(study.load(), {})
    assert texts(grid) == {
        "0": ["100.00", "–"],
        "1": ["100.00", "100.00"],
        "cat": ["–", "100.00"],
        "ECE": ["37.50", "37.50"],
    }
    assert grid.header[0] == [("Digits", 1), ("Pets", 1)]


def test_without_predictions_the_caption_says_why(common_toy, predicted):
    _, grid = classes(common_toy.load(), {})
    assert texts(grid) == {"ECE": ["–", "–", "–", "–", "diverged"]}
    assert grid.caption == (
        "Toy study: no accuracy of classes, because no cell has kept its predictions (artifacts: [predictions])."
    )
    _, grid = classes(predicted.load().rescored("validated"), {})
    assert "because no cell has predictions of the model that scores it; report.score can be" in grid.caption


def test_a_study_may_show_it(predicted):
    predicted.study["show"] = [{"table": "classes"}]
    write_tables(predicted.load(), predicted.folder / "tables")
    assert {file.name for file in (predicted.folder / "tables").iterdir()} == {
        f"classes.{form}" for form in ("csv", "md", "tex", "html")
    }
