"""Many lines within few points: where axes start, what stands out, names at the ends, and the grid of panels."""

from functools import partial
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from matplotlib.text import Text
from toys import draw_figure

from fedgrid.analysis.figures.common.emphasis import has_muted
from fedgrid.analysis.figures.common.ends import label_ends, spread
from fedgrid.analysis.figures.common.limits import limits, rounded, seen, sentences
from fedgrid.analysis.figures.common.lines import panelled
from fedgrid.analysis.figures.common.palette import MUTED
from fedgrid.analysis.figures.common.style import columns_of_panels, drawing
from fedgrid.analysis.pages.figure_set import draw

curves = partial(draw_figure, "curves")
traffic = partial(draw_figure, "traffic")

ELEVEN = [f"m{i}" for i in range(11)]
LAST = np.linspace(0.71, 0.75, 11)
"""Their accuracies at the end."""


def table(last, panel="p", start=10):
    """Curves that begin at `start` and end at `last` percent by label."""
    points = [
        (panel, label, x, start + (value - start) * min(1, x / 4)) for label, value in last.items() for x in range(11)
    ]
    frame = pd.DataFrame(points, columns=["panel", "label", "x", "mean"])
    return frame.assign(low=frame["mean"] - 0.1, high=frame["mean"] + 0.1)


@pytest.fixture
def crowded(make_study):
    """Eleven rows that end between 71 and 75 %, the last one first of them; two columns, the second 30 points lower."""
    study = make_study(seeds=[0], heterogeneity={"dir": "Dirichlet", "hom": "homogeneous"})
    for label, last in zip(ELEVEN, LAST, strict=True):
        for column, lower in (("dir", 0), ("hom", 0.3)):
            study.cell(label, column, 0, {t: [v - lower] * 2 for t, v in ((0, 0.31), (1, last), (2, last), (3, last))})
    return study


@pytest.fixture
def claimed(crowded):
    crowded.study["claims"] = [{"says": "m10 is best.", "leads": "m10"}]
    return crowded


def test_axes_start_where_the_lines_are_and_captions_say_so(crowded):
    for figure_of in (curves, traffic):
        figure, _, caption = figure_of(crowded.load(), "digits")
        (low, high), (low_2, high_2) = (ax.get_ylim() for ax in figure.axes)
        assert 70 <= low <= 71 and 75 <= high <= 76 and 40 <= low_2 <= 41 and 45 <= high_2 <= 46
        assert f"Panels have axes of their own, which start at {low:g} and {low_2:g} %" in caption


def test_a_title_that_is_a_sentence_is_quoted(crowded):
    crowded.study["title"] = "Who is best?"
    assert curves(crowded.load(), "digits")[2].startswith("“Who is best?”: mean test accuracy")


def test_one_axis_is_said_once_and_an_axis_from_zero_not_at_all():
    last = dict(zip(ELEVEN, 100 * LAST, strict=True))
    for frame, expected in (
        (table(last), ["The axis starts at 70.6 %, not at zero; earlier points of some lines lie below."]),
        (table(last, start=70.9), ["The axis starts at 70.6 %, not at zero."]),
        (table({"a": 95.0, "b": 40.0}, start=2), []),
    ):
        assert sentences(frame, limits(frame, ["p"], curves=True), last) == expected


def test_lines_far_below_a_bunch_are_cut_off_and_named_but_never_a_shown_one():
    last = dict(zip(ELEVEN, 100 * LAST, strict=True)) | {"m0": 40.0}
    names = {label: label.upper() for label in last}
    frame = table(last)
    assert limits(frame, ["p"], curves=True)["p"][0] > 70
    assert sentences(frame, limits(frame, ["p"], curves=True), names)[1:] == [
        "Below the axis to their end: M0 40.00 %."
    ]
    assert limits(frame, ["p"], curves=True, shown=["m0"])["p"][0] < 40
    with drawing():
        figure, panels = panelled(frame, {"p": "P"}, names, "x", "y", limits=limits(frame, ["p"], curves=True))
    assert [text.get_text() for text in panels["p"].texts] == ["below: M0 40.0"]
    (legend,) = figure.legends
    assert "M0" not in {text.get_text() for text in legend.get_texts()} and len(legend.get_texts()) == 10


def test_a_line_that_one_panel_shows_is_in_the_legend():
    frame = pd.concat([table({"a": 60.0, "b": 75.0}), table({"a": 74.0, "b": 75.0}, "q")])
    assert seen(frame, {"p": (70.0, 80.0), "q": (70.0, 80.0)}) == {"a", "b"}
    assert seen(frame[frame["panel"] == "p"], {"p": (70.0, 80.0)}) == {"b"}
    assert seen(frame, {}) == {"a", "b"}


def test_sweeps_show_every_point_and_every_printed_number():
    frame = pd.concat([table({"a": 60.0, "b": 75.0}), table({"a": 61.0, "b": 74.0}, "q")])
    printed = pd.DataFrame({"panel": ["q"], "number": [91.5]})
    both = limits(frame, ["p", "q"], curves=False, printed=printed)
    assert both["p"] == both["q"] and both["q"][0] < 10 and both["q"][1] > 91.5


@pytest.mark.parametrize(
    ("low", "high", "start"), [(71, 75, 70.8), (10, 100, 0), (0, 0, 0), (50, 50, 49.99), (3, 9, 2.5)]
)
def test_axes_start_at_round_numbers(low, high, start):
    assert rounded(low, high)[0] == pytest.approx(start) and rounded(low, high)[1] >= high


def test_names_at_the_ends_of_eleven_lines_do_not_overlap():
    last = dict(zip(ELEVEN, 100 * LAST / 20 + 68, strict=True))  # within a fifth of a point
    frame = table(last)
    with drawing():
        names = {label: f"method {label}" for label in ELEVEN}
        figure, panels = panelled(frame, {"p": "P"}, names, "x", "y", limits={"p": (60, 80)})
        texts = label_ends(figure, panels, frame, names, dict.fromkeys(names, "black"))["p"]
        figure.draw_without_rendering()
    boxes = {text.get_text(): Text.get_window_extent(text) for text in texts}
    assert len(boxes) == 11 and not any(one.overlaps(other) for one, other in combinations(boxes.values(), 2))
    panel = panels["p"].get_window_extent()
    assert all(panel.y0 - 1 <= box.y0 and box.y1 <= panel.y1 + 1 and box.x0 > panel.x1 for box in boxes.values())
    heights = [boxes[names[label]].y0 for label in sorted(last, key=last.get)]
    assert heights == sorted(heights)


def test_boxes_move_no_further_than_they_must():
    assert spread([5, 50, 51, 52], [10] * 4, 0, 100).tolist() == pytest.approx([5, 41, 51, 61])
    assert spread([52, 50], [10, 10], 0, 100).tolist() == pytest.approx([56, 46])
    assert spread([99, 98], [10, 10], 0, 100).tolist() == pytest.approx([95, 85])
    assert spread([], [], 0, 1).tolist() == []


def test_the_claimed_row_and_its_rival_are_in_colour_and_named_at_their_ends(claimed):
    figure, _, caption = curves(claimed.load(), "digits")
    for ax in figure.axes:
        colours = [line.get_color() for line in ax.lines]
        assert colours.count(MUTED) == 9 and len(set(colours)) == 3
        assert [text.get_text() for text in ax.texts] == ["m10", "m9"]
        assert len(ax.collections) == 2  # bands of these two
    assert (
        "In colour: what is claimed to lead and m9, the strongest other row by mean accuracy; the rest is grey."
        in caption
    )
    figure, _, caption = curves(claimed.load(), "digits", colours=True)
    assert not has_muted(figure) and "grey" not in caption
    assert [text.get_text() for text in figure.axes[0].texts] == ["m10", "m9"]


def test_where_nothing_is_claimed_all_lines_keep_their_colours(crowded, tmp_path):
    figure, _, caption = curves(crowded.load(), "digits")
    assert not has_muted(figure) and "grey" not in caption and not any(ax.texts for ax in figure.axes)
    draw("curves", crowded.load(), tmp_path / "x", {"data": "digits"})
    assert {file.name for file in tmp_path.glob("x.*")} == {"x.svg", "x.pdf", "x.txt", "x.narrow.svg"}


def test_a_grey_figure_comes_with_one_in_colour(claimed, tmp_path):
    draw("curves", claimed.load(), tmp_path / "x", {"data": "digits"})
    suffixes = ("svg", "pdf", "txt", "narrow.svg", "colours.svg", "colours.pdf", "colours.narrow.svg")
    assert {file.name for file in tmp_path.glob("x.*")} == {f"x.{suffix}" for suffix in suffixes}
    muted = MUTED.lower()
    claimed.study["claims"] = []
    (tmp_path / "y.colours.svg").touch()
    draw("curves", claimed.load(), tmp_path / "y", {"data": "digits"})
    assert not list(tmp_path.glob("y.colours*"))  # of an earlier drawing
    assert muted in (tmp_path / "x.svg").read_text() and muted not in (tmp_path / "x.colours.svg").read_text()


def test_panels_fill_their_grid():
    assert [columns_of_panels(n) for n in range(1, 13)] == [1, 2, 3, 2, 3, 3, 4, 4, 3, 4, 4, 4]
    with drawing():
        frame = pd.concat([table({"a": 60.0, "b": 75.0}, panel) for panel in "pqrs"])
        _, panels = panelled(frame, {panel: panel for panel in "pqrs"}, {"a": "A", "b": "B"}, "x", "y")
    assert {(ax.get_subplotspec().rowspan.start, ax.get_subplotspec().colspan.start) for ax in panels.values()} == {
        (row, column) for row in (0, 1) for column in (0, 1)
    }


def test_more_lines_than_eight_in_colour_have_no_bands(make_study):
    study = make_study(seeds=[0, 1])
    for i, label in enumerate(ELEVEN[:9]):
        for seed in (0, 1):
            study.cell(label, "dir", seed, {t: [0.1 * t + 0.01 * i + 0.02 * seed] * 2 for t in range(4)})
    figure, _, caption = curves(study.load(), "digits")
    assert not figure.axes[0].collections and "bands" not in caption
    study.cells = [cell for cell in study.cells if cell["label"] != "m0"]
    figure, _, caption = curves(study.load(), "digits")
    assert len(figure.axes[0].collections) == 8 and "bands: from the lowest to the highest seed" in caption


def test_a_row_of_ones_own_is_thick_on_top_and_named_at_its_end(crowded):
    crowded.study["methods"]["m3"] |= {"file": "mine.py"}
    figure, _, caption = curves(crowded.load(), "digits")
    widths = [line.get_linewidth() for line in figure.axes[0].lines]
    assert widths.count(max(widths)) == 1 and widths.index(max(widths)) == 3 and not has_muted(figure)
    assert figure.axes[0].lines[3].get_zorder() == max(line.get_zorder() for line in figure.axes[0].lines)
    assert "m3 (own file)" in [text.get_text().replace("\n", " ") for text in figure.axes[0].texts]
    assert "; thick: m3 (own file)." in caption
