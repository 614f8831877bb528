"""Bars of clients, representations, cooperation and distributions, by hand."""

from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tiers import every_third
from toys import DIVERGED, draw_figure, write_partition

from fedgrid.analysis import kinds
from fedgrid.analysis.figures.common.style import Undrawn
from fedgrid.analysis.figures.tsne import embedded
from fedgrid.analysis.pages.figure_set import draw
from fedgrid.analysis.scores.results import load
from fedgrid.errors import UserError

bars = partial(draw_figure, "bars")
distribution = partial(draw_figure, "distribution")
heatmap = partial(draw_figure, "heatmap")
sweep = partial(draw_figure, "sweep")
tsne = partial(draw_figure, "tsne")


def representations(points, shift=0.0):
    """Two clients and three classes, each class around a corner of its own."""
    rng = np.random.default_rng(0)
    label = np.arange(points) % 3
    z = 5 * np.eye(3)[label] + rng.normal(size=(points, 3)) + shift
    columns = {"client": pa.array(np.arange(points) % 2, pa.int32()), "label": pa.array(label, pa.int16())}
    return pa.table(columns | {"representation": pa.array(list(z), pa.list_(pa.float32()))})


def cooperation(**matrices):
    """Matrices [2, 2] of rounds 2 and 4; those of round 4 are ten times as large."""
    rows = [
        (round_, name, i, j, float(values[i][j]) * (10 if round_ == 4 else 1))
        for round_ in (2, 4)
        for name, values in matrices.items()
        for i in (0, 1)
        for j in (0, 1)
    ]
    kinds = {
        "round": pa.int32(),
        "matrix": pa.string(),
        "client": pa.int32(),
        "other": pa.int32(),
        "value": pa.float64(),
    }
    return pa.table(
        [pa.array([row[i] for row in rows], kind) for i, kind in enumerate(kinds.values())], names=list(kinds)
    )


def partition(study):
    """Who holds what in column "dir" with seed 0: class 0 at client 0, both classes at client 1."""
    rows = [(0, "train", 0, None), (0, "test", 1, None), (1, "train", 0, None), (1, "validation", 1, None)]
    return write_partition(study.folder / "dirichlet-1/seed=0.parquet", rows, classes=("one", "two", "three"))


@pytest.fixture
def pictured(make_study):
    study = make_study(seeds=[0, 1])
    partition(study)
    for label in ("one", "two", "three"):
        study.cell(label, "dir", 0, {2: [0.5, 0.7]}, **(DIVERGED if label == "three" else {}))
        if label != "three":
            study.keep("representations", representations(60, shift=label == "two"))
        if label == "one":
            weights, alike = [[0.75, 0.25], [0.5, 0.5]], [[1, -0.5], [-0.5, 1]]
            study.keep("cooperation", cooperation(graph=weights, similarity=alike, complementarity=np.zeros((2, 2))))
        if label == "two":
            study.keep("cooperation", cooperation())
        study.cell(label, "dir", 1, {2: [0.7, 0.9]})
    return study


@pytest.fixture
def apart(make_study):
    """Two rows that cooperate by themselves, and one that does not, in three columns that differ in β."""
    study = make_study(seeds=[0, 1], heterogeneity={name: f"Dirichlet {name}" for name in ("1", "2", "4")})
    study.study["partitions"] = {"digits": {name: {"beta": float(name)} for name in ("1", "2", "4")}}
    for label in ("one", "two"):
        for number in (1, 2, 4):
            study.cell(label, str(number), 0, {2: [0.5, 0.7]})
            alike = [[1, number / 100], [-number / 50, 1]]
            study.keep("cooperation", cooperation(similarity=alike) if label == "one" else cooperation())
    return study


def test_a_matrix_between_clients_is_swept_by_its_mean_of_two_different_ones(apart):
    figure, title, caption = sweep(apart.load(), "digits", over="beta", names={"beta": "β"}, matrix="similarity")
    (ax,) = figure.axes
    (line,) = [line for line in ax.lines if len(line.get_xdata())]
    assert line.get_xdata().tolist() == [1, 2, 4]
    assert line.get_ydata() == pytest.approx([-0.05, -0.1, -0.2])  # of round 4, the last
    assert title == "Similarity of models over β on Digits" and figure.get_supylabel() == "Similarity of models"
    assert "mean similarity of models of two different clients in the last round, over β on Digits, seed 0." in caption
    assert caption.endswith("Without similarity of models: two.")
    with pytest.raises(Undrawn, match="no cell has kept a matrix 'graph'"):
        sweep(apart.load(), "digits", over="beta", matrix="graph")


def test_nothing_is_drawn_of_a_cell_without_results(pictured):
    pictured.without("four", "dir", 0, "no data")
    assert "Without results, so not drawn: four (" in tsne(pictured.load(), "digits", points=9)[2]


def test_bars_are_means_over_seeds_with_what_is_printed(pictured):
    scarce = {"partition": "dirichlet", "clients": 2, "scarce": 1, "keep_fraction": 0.1}
    pictured.study["partitions"] = {"digits": {"dir": scarce}}
    pictured.prints("two", "81.00")
    pictured.prints("two", "7.5", metric="std_clients")
    figure, title, caption = bars(pictured.load(), "digits")
    first, second, third = figure.axes
    assert {round(bar.get_x() + 0.4): bar.get_height() for bar in first.patches} == pytest.approx({0: 60, 1: 80})
    assert [bool(bar.get_hatch()) for bar in first.patches] == [False, True]
    assert first.get_title(loc="left") == "one: 70.00 ± 10.00"
    assert second.get_title(loc="left") == "two: 70.00 ± 10.00 (printed: 81.00 ± 7.5)"
    assert not third.patches and [text.get_text() for text in third.texts] == ["diverged"]
    assert (
        title == "Accuracy of each client on Digits" and "Hatched: client 1, counted from 0, which keeps 10%" in caption
    )
    assert "whiskers: from the lowest to the highest seed" in caption


def test_representations_are_the_same_images_in_every_panel(pictured):
    pictured.cell("four", "dir", 0, {2: [0.5, 0.7]})
    figure, title, caption = tsne(pictured.load(), "digits", points=40, perplexity=5)
    assert [ax.get_title() for ax in figure.axes] == ["one", "two"]
    counts = [[len(group.get_offsets()) for group in ax.collections] for ax in figure.axes]
    assert counts[0] == counts[1] and sum(counts[0]) == 40
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["one", "two", "three"]
    assert (
        title == "Representations on Digits"
        and "of 40 images" in caption
        and "(perplexity 5, random state 0)" in caption
    )
    assert "Diverged, so not drawn: three (Dirichlet β=0.1, 2 clients)." in caption
    assert "Without kept representations, so not drawn: four (" in caption
    figure, _, _ = tsne(pictured.load(), "digits", colour="client", perplexity=5)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["0", "1"]


def test_an_embedding_fills_its_panel_and_few_points_are_no_error():
    actual = embedded(representations(30), 30)
    assert np.abs(actual.mean(axis=0)).max() < 1e-9 and np.linalg.norm(actual, axis=1).max() == pytest.approx(1)
    for points in (1, 4, 5):
        assert np.isfinite(embedded(representations(points), 30)).all()


def test_matrices_of_the_rounds_that_are_asked_for(pictured):
    results = pictured.load()
    figure, title, caption = heatmap(results, "digits")
    shown = {ax.get_title().replace("\n", " "): ax.images[0] for ax in figure.axes if ax.images}
    assert list(shown) == [
        "Similarity of local data",
        "one, round 4: cooperation weights",
        "one, round 4: similarity of models",
    ]
    data, weights, alike = shown.values()
    assert data.get_array().tolist() == pytest.approx(np.array([[1, 0.5**0.5], [0.5**0.5, 1]]))
    assert weights.get_array().tolist() == [[7.5, 2.5], [5, 5]] and weights.get_clim() == (0, 7.5)
    assert alike.get_clim() == (-5, 1)  # a cosine ends at 1
    assert (
        title == "Cooperation on Digits"
        and "Zero everywhere, so not drawn: one, round 4: overlap of features" in caption
    )
    assert "Mean weight of a client's own model: one, round 4 6.25." in caption
    assert "Without matrices between clients: two" in caption and "Diverged, so not drawn: three" in caption
    figure, _, _ = heatmap(results, "digits", rounds=[2, "last"])
    assert sum(bool(ax.images) for ax in figure.axes) == 5
    with pytest.raises(Undrawn, match=r"No matrices of round 3 are kept; rounds: 2, 4\."):
        heatmap(results, "digits", rounds=[3])


def test_missing_artifacts_are_one_sentence(common_toy):
    results = common_toy.load()
    for kind, word in ((tsne, "representations"), (heatmap, "cooperation")):
        with pytest.raises(Undrawn, match=f"no cell of seed 0 has kept its {word}"):
            kind(results, "digits")
    with pytest.raises(Undrawn, match="None of the partitions of seed 0 exists"):
        distribution(results)


def test_a_distribution_has_a_panel_for_every_column(pictured):
    pictured.cell("one", "hom", 0, {2: [0.5, 0.7]})
    pictured.cells[-1]["partition"] = str(pictured.folder / "gone.parquet")
    figure, _, caption = distribution(pictured.load())
    (ax,) = figure.axes
    assert ax.get_title() == "Digits: Dirichlet β=0.1, 2 clients\nlargest bubble: 1 image"
    assert sorted(ax.collections[0].get_offsets().tolist()) == [[0, 0], [1, 0], [1, 1]]
    assert "Not drawn, because the partition is not there: Digits, homogeneous, 2 clients." in caption


OPTIONS = {"tsne": {"perplexity": 5}, "curves": {"window": 2}, "heatmap": {"rounds": [2]}}


@pytest.mark.parametrize("kind", every_third(["loss", "traffic", "bars", "tsne", "heatmap", "distribution"]))
def test_the_same_bytes_twice(pictured, tmp_path, kind):
    results = pictured.load()
    place = {} if kinds.options("figures", kind).subject == "study" else {"data": "digits"}
    made = []
    for name in ("a", "b"):
        draw(kind, results, tmp_path / name / "x", place, OPTIONS.get(kind, {}))
        made.append({file.name: file.read_bytes() for file in (tmp_path / name).iterdir()})
    assert made[0] == made[1] and {"x.svg", "x.pdf", "x.txt"} <= made[0].keys()


def test_an_unknown_data_set_is_one_sentence(pictured):
    results = pictured.load()
    for kind in kinds.names("figures"):
        if kinds.options("figures", kind).subject == "data":
            with pytest.raises(UserError, match="no data set 'digit'; did you mean 'digits'"):
                draw_figure(kind, results, "digit")
    with pytest.raises(UserError, match="no colour 'clas'; did you mean 'class'"):
        tsne(results, "digits", colour="clas")


def test_results_name_the_files_of_artifacts(pictured):
    first = load(pictured.results()).cells[0]
    assert set(first.kept) == {"representations", "cooperation"} and all(map(Path.is_file, first.kept.values()))
