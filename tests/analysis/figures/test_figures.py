import re
from functools import partial

import pandas as pd
import pytest
from toys import draw_figure, write_partition

from fedgrid.analysis.figures.ablation import axis_floor
from fedgrid.analysis.pages.figure_set import draw
from fedgrid.errors import UserError

ablation = partial(draw_figure, "ablation")
curves = partial(draw_figure, "curves")
bubbles = partial(draw_figure, "partition")
shares = partial(draw_figure, "shares")

OWN = [(0, "train", 0), (0, "train", 0), (0, "validation", 1), (0, "test", 1), (1, "train", 1)]
OWN = [(*row, None) for row in OWN]


@pytest.fixture
def partition(tmp_path):
    """Two clients and two classes; client 1 has no test images."""
    return write_partition(tmp_path / "partition.parquet", OWN)


def drawn(stem, kind, source, **selection):
    """Draw a figure and return its SVG, PDF and text as bytes."""
    draw(kind, source, stem, selection)
    return [stem.with_suffix(suffix).read_bytes() for suffix in (".svg", ".pdf", ".txt")]


@pytest.mark.full
def test_every_figure_is_reproducible(common_ablated, partition, tmp_path):
    results = common_ablated.load()
    for kind, source, selection in (
        ("curves", results, {"data": "digits"}),
        ("ablation", results, {"method": "ditto", "data": "digits"}),
        ("partition", partition, {"title": "Toy $partition$"}),
        ("shares", partition, {"title": "Toy $partition$"}),
    ):
        svg, pdf, text = drawn(tmp_path / "one", kind, source, **selection)
        assert [svg, pdf, text] == drawn(tmp_path / "two", kind, source, **selection)
        assert text.decode().count("\n\n") == 2  # title, caption, protocol
        assert svg.startswith(b"<?xml") and pdf.startswith(b"%PDF")
        assert not re.search(rb"<dc:date>|CreationDate", svg + pdf)


def test_captions(common_ablated):
    results = common_ablated.load()
    _, title, caption = curves(results, "digits")
    assert title == "Learning curves on Digits"
    assert "bands: from the lowest to the highest seed" in caption
    assert "Not drawn, because a seed diverged or nothing was scored: homogeneous, 2 clients: Ditto." in caption
    _, _, caption = ablation(results, "ditto", "digits")
    assert "whiskers: ± sample standard deviation over seeds" in caption
    assert "The axis starts at 60 %, not at zero." in caption
    assert "FedAvg" not in caption


@pytest.mark.parametrize("picture", [bubbles, shares])
def test_captions_of_a_partition(tmp_path, picture):
    _, title, caption = picture(write_partition(tmp_path / "own.parquet", OWN), "Toy")
    assert title == "Toy" and caption.startswith("Toy: who holds what.")
    assert "A client holds 1 to 3 training images; there are 4 in all, 1 of them for validation." in caption
    assert "Every client has its own test images, 1 in all." in caption
    # (2/3, 1/3) and (0, 1), together (1/2, 1/2): distances 1/3 and 1
    assert "is 0.67 on average." in caption
    apart = [(0, "train", 0, None), (1, "train", 1, None), (-1, "test", 0, None), (-1, "test", 1, None)]
    for test, sentence in (
        ("official", "All clients share 2 official test images."),
        ("weighted", "All clients share 2 official test images, each weighing its classes as"),
    ):
        _, _, caption = picture(write_partition(tmp_path / "shared.parquet", apart, test=test), "Toy")
        assert sentence in caption and "own test images" not in caption
        assert "is 1.00 on average over all pairs" in caption
    _, _, caption = picture(write_partition(tmp_path / "one.parquet", OWN[:3], clients=1), "Toy")
    assert "holds 3 training images" in caption and "Jensen" not in caption


def test_bubbles_have_the_areas_of_the_counts(partition):
    figure, _, _ = bubbles(partition, "Toy")
    training, test = figure.axes[1].collections[:2]
    actual = [
        {(x, y): size for (x, y), size in zip(half.get_offsets().tolist(), half.get_sizes(), strict=True)}
        for half in (training, test)
    ]
    image = actual[1].pop((0, 1))  # one image
    assert actual == [pytest.approx({(0, 0): 2 * image, (0, 1): image, (1, 1): image}), {}]


@pytest.mark.parametrize("picture", [bubbles, shares])
def test_empty_clients_and_absent_classes_keep_their_place(tmp_path, picture):
    file = write_partition(tmp_path / "p.parquet", OWN, clients=7, classes=["a", "b", "c", "d"])
    figure, _, _ = picture(file, "Toy")
    field = figure.axes[1 if picture is bubbles else 0]
    assert field.get_xlim()[0] < 0 and 6 < field.get_xlim()[1] < 7
    if picture is bubbles:
        assert [text.get_text() for text in field.get_yticklabels()] == ["a", "b", "c", "d"]
    else:
        assert {text.get_text() for text in figure.legends[0].get_texts()} == {"a", "b", "c", "d"}


def test_bars_are_as_long_as_a_client_has_images_of_each_class(partition):
    figure, _, _ = shares(partition, "Toy")
    patches = figure.axes[0].patches
    spans = [{(round(x), y) for x, y in patch.get_path().vertices} for patch in patches]
    assert {y for _, y in spans[0]} == {0, 2} and {x for x, _ in spans[0]} == {0}
    assert {(0, 2), (0, 3), (1, 0), (1, 1)} <= spans[1]


def test_domains_are_drawn_and_named(tmp_path):
    rows = [(0, "train", 0, "photo"), (0, "train", 1, "art"), (1, "train", 1, "art")]
    file = write_partition(tmp_path / "p.parquet", rows, domains=["photo", "art", "sketch"])
    figure, _, caption = shares(file, "Toy")
    assert "the strip below has the shares of their domains" in caption
    names = {text.get_text() for ax in figure.axes if ax.get_legend() for text in ax.get_legend().get_texts()}
    assert names == {"photo", "art", "sketch"}
    assert "strip" not in shares(write_partition(file, OWN), "Toy")[2]


@pytest.mark.parametrize(
    ("accuracies", "floor"),
    [([0.1, 0.9], 0), ([0.82, 0.86], 80), ([0.743, 0.751], 73), ([0.8, 0.8], 79), ([0.5, 0.9], 30), ([], 0)],
)
def test_axis_floor(accuracies, floor):
    entries = pd.DataFrame({"accuracy": accuracies, "accuracy_std_seeds": [0.0] * len(accuracies)}, dtype=float)
    assert axis_floor(entries) == floor


def test_many_methods_and_odd_panels(make_study, tmp_path):
    words = {f"h{i}": f"level {i}" for i in range(4)}
    study = make_study(heterogeneity=words, seeds=[0])
    for i in range(20):
        study.method(f"m{i}", method="m")
    for slug in words:
        study.cell("m19", slug, 0, {0: [0.1, 0.1], 2: [0.5, 0.7]})
    text = drawn(tmp_path / "c", "curves", study.load(), data="digits")[2].decode()
    assert "Lines: one seed (0)." in text and "bands" not in text


@pytest.mark.parametrize(
    ("kind", "selection", "message"),
    [
        ("curves", {"data": "digit"}, "no data set 'digit'; did you mean 'digits'"),
        ("ablation", {"data": "digits", "method": "dito"}, "no method 'dito'; did you mean 'ditto'"),
        ("ablation", {"data": "digits", "method": "local"}, "only one variant of “local”"),
    ],
)
def test_mistakes_are_one_sentence(common_toy, tmp_path, kind, selection, message):
    with pytest.raises(UserError, match=message):
        draw(kind, common_toy.load(), tmp_path / "x", selection)
    assert not list(tmp_path.glob("x.*"))


@pytest.mark.parametrize("kind", ["partition", "shares"])
def test_a_file_that_is_no_partition(common_toy, tmp_path, kind):
    for path in (common_toy.results(), tmp_path / "none.parquet"):
        with pytest.raises(UserError):
            draw(kind, path, tmp_path / "x", {"title": "T"})
