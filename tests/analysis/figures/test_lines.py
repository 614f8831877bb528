"""Learning curves, losses, traffic, trust and sweeps, by hand."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from toys import DIVERGED, draw_figure

from fedgrid.analysis.figures.common.emphasis import THICK
from fedgrid.analysis.figures.common.style import Undrawn
from fedgrid.analysis.figures.curves import round_means
from fedgrid.errors import UserError

curves = partial(draw_figure, "curves")
loss = partial(draw_figure, "loss")
sweep = partial(draw_figure, "sweep")
traffic = partial(draw_figure, "traffic")
trust = partial(draw_figure, "trust")


def lines(ax):
    """The points of the lines of a panel, those with more than one, in order."""
    actual = [np.column_stack(line.get_data()).round(6).tolist() for line in ax.lines]
    return [points for points in actual if len(points) > 1]


def marks(ax):
    """Single points."""
    return [line.get_xydata()[0].tolist() for line in ax.lines if len(line.get_xdata()) == 1]


def names(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


@pytest.fixture
def learning(make_study):
    """Two seeds whose clients' means are 10, 30, 50 and 90 %, and 10 points more; a row that diverged, one to come."""
    study = make_study(seeds=[0, 1], heterogeneity={"dir": "Dirichlet"})
    for label in ("good", "bad", "late"):
        study.method(label)
    for seed in (0, 1):
        means = {0: 0.1, 2: 0.3, 4: 0.5, 6: 0.9}
        accuracy = {t: [m + 0.1 * seed - 0.1, m + 0.1 * seed + 0.1] for t, m in means.items()}
        losses = {t: [2 ** (6 - t), 2 ** (6 - t)] for t in means}
        also = {"loss_received": losses, "trust": {1: [1, 1], 2: [0.2, 0.6 + 0.2 * seed]}}
        study.cell("good", "dir", seed, accuracy, also=also)
    study.cell("bad", "dir", 0, {2: [0.5, 0.5]}, **DIVERGED)
    study.without("late", "dir", 0, "no data")
    return study


def test_a_moving_average_is_over_rounds_and_says_so(learning):
    results = learning.load()
    figure, _, caption = curves(results, "digits", window=4)
    assert lines(figure.axes[0]) == [[[0, 15], [2, 25], [4, 45], [6, 75]]]
    assert "each point the mean over the evaluated rounds among the last 4." in caption
    assert "Not drawn, because a seed diverged or nothing was scored: bad." in caption
    assert "Not drawn, because no seed is finished: late." in caption
    assert names(figure) == ["good"]
    for window in (1, 6, 50):  # no longer than the run
        figure, _, caption = curves(results, "digits", window=window)
        assert lines(figure.axes[0]) == [[[0, 15], [2, 35], [4, 55], [6, 95]]] and "unsmoothed" in caption


def test_bands_reach_from_the_lowest_to_the_highest_seed(learning):
    figure, _, _ = curves(learning.load(), "digits")
    (band,) = figure.axes[0].collections
    corners = {tuple(point) for point in band.get_paths()[0].vertices.round(6).tolist()}
    assert {(0, 10), (0, 20), (6, 90), (6, 100)} <= corners


def test_the_row_that_is_claimed_to_lead_is_thick(learning):
    prose = {"says": "bad is bad."}
    learning.study["claims"] = [{"says": "good is best.", "leads": "good"}, prose]
    figure, _, caption = curves(learning.load(), "digits")
    (line,) = (line for line in figure.axes[0].lines if len(line.get_xdata()) > 1)
    assert line.get_linewidth() == THICK["lw"] and "; thick: good." in caption
    for claim in (prose, {"says": "late is best.", "leads": "late"}):
        learning.study["claims"] = [claim]
        assert "thick" not in curves(learning.load(), "digits")[2]  # nobody is claimed to lead, or who is has no line


def test_captions_do_not_call_a_claimed_point_of_a_line_thick(tuned):
    tuned.study["claims"] = [{"says": "One is best.", "leads": name} for name in tuned.load().names.values()]
    figure, _, caption = sweep(tuned.load(), "digits", "alpha")
    widths = {line.get_label(): line.get_linewidth() for line in figure.legends[0].get_lines()}
    output = caption.partition("; thick: ")[2].partition(".")[0]
    assert [name for name, width in widths.items() if width == THICK["lw"]] == [output]


def test_losses_are_drawn_as_they_are_on_an_axis_that_fits(learning):
    figure, title, caption = loss(learning.load(), "digits")
    assert lines(figure.axes[0]) == [[[0, 64], [2, 16], [4, 4], [6, 1]]]
    assert title == "Test loss on Digits" and "mean test loss (cross entropy) over clients" in caption
    assert figure.axes[0].get_yscale() == "log" and figure.get_supylabel() == "Mean test loss (nats)"
    assert not any("$" in tick.get_text() for tick in figure.axes[0].get_yticklabels())


def test_losses_that_were_not_recorded_have_no_line(common_toy):
    figure, _, _ = loss(common_toy.load(), "digits")
    assert not any(lines(ax) for ax in figure.axes) and figure.axes[0].get_yscale() == "linear"


def test_traffic_adds_up(make_study):
    study = make_study(seeds=[0], heterogeneity={"dir": "Dirichlet"})
    for label in ("sends", "silent"):
        study.method(label)
    mebi = 2**20
    bytes_of = {"bytes_up": {1: [mebi, mebi], 2: [mebi, None]}, "bytes_down": {2: [2 * mebi, None]}}
    accuracy = {1: [0.2, 0.2], 2: [0.6, 0.6]}
    for label, also in (("sends", bytes_of), ("silent", {})):
        study.cell(label, "dir", 0, {}, also={"accuracy_received": accuracy, **also})
    figure, title, caption = traffic(study.load(), "digits")
    assert lines(figure.axes[0]) == [[[1, 20], [2.5, 60]]]  # a client that sits out sends nothing
    assert names(figure) == ["sends"] and figure.axes[0].get_xlabel() == "Sent and received so far (MiB per client)"
    assert title == "Accuracy against traffic on Digits" and "Not drawn, for lack of traffic: silent." in caption


def test_trust_is_of_the_clients_that_take_part(learning):
    figure, _, caption = trust(learning.load(), "digits")
    assert lines(figure.axes[0]) == [[[1, 1], [2, 0.45]]]
    assert "bands: the middle 80% of them" in caption and "at τ = 1 blending has stopped" in caption
    assert "late" not in caption


def test_where_no_trust_is_recorded_none_is_drawn(common_toy):
    with pytest.raises(Undrawn, match="No method records a trust"):
        trust(common_toy.load(), "digits")


@pytest.fixture
def swept(make_study):
    """β from 0.1 to 10 for two rows, of which one diverged in the middle; a pathological partition beside them."""
    words = {
        "b1": "Dirichlet 0.1, 2 clients",
        "b2": "Dirichlet 1, 2 clients",
        "b3": "Dirichlet 10, 2 clients",
        "p": "2 classes",
    }
    known = {f"b{i}": {"partition": "dirichlet", "beta": 10.0 ** (i - 2), "clients": 2} for i in (1, 2, 3)}
    known["p"] = {"partition": "pathological", "classes": 2, "clients": 2}
    study = make_study(seeds=[0], heterogeneity=words, partitions={"digits": known})
    for label in ("one", "two"):
        for i, name in enumerate(words):
            bad = DIVERGED if (label, name) == ("two", "b2") else {}
            study.cell(label, name, 0, {2: [0.1 * i + 0.2, 0.1 * i + 0.2]}, **bad)
    study.prints("one", "55.5", heterogeneity="Dirichlet 1, 2 clients")
    return study


def test_a_panel_is_not_named_by_the_value_that_varies_in_it(make_study):
    words = {f"{sizes}{n}": f"{n / 2:g} apart, {sizes} sizes" for sizes in ("equal", "mixed") for n in (0, 1, 2)}
    known = {name: {"partition": "disparity", "disparity": int(name[-1]) / 2, "parts": name[:-1]} for name in words}
    study = make_study(seeds=[0], heterogeneity=words, partitions={"digits": known})
    for name in words:
        study.cell("one", name, 0, {2: [0.2, 0.2]})
    figure, *_ = sweep(study.load(), "digits", "disparity")
    assert [ax.get_title() for ax in figure.axes] == ["equal sizes", "mixed sizes"]


def test_a_sweep_over_heterogeneities(swept):
    figure, title, caption = sweep(swept.load(), "digits", names={"beta": "Dirichlet's β"})
    (ax,) = figure.axes
    one, two = lines(ax)
    assert one == [[0.1, 20], [1, 30], [10, 40]] and two[0] == [0.1, 20] and np.isnan(two[1][1]) and two[2] == [10, 40]
    assert marks(ax) == [[1, 55.5]] and ax.get_xscale() == "log"
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["0.1", "1", "10"]
    assert ax.get_title() == "Dirichlet …, 2 clients" and ax.get_xlabel() == "Dirichlet's β"
    assert title == "Accuracy over Dirichlet's β on Digits"
    assert "Hollow marks: the paper's printed numbers." in caption
    assert "Not drawn, for lack of a value: 2 classes." in caption
    assert "Dirichlet 1, 2 clients: two" in caption


@pytest.fixture
def tuned(make_study):
    """Rows of FedSaC over α beside pFedGraph, in two columns; in the second, all have another β."""
    study = make_study(seeds=[0], heterogeneity={"dir": "Dirichlet", "hom": "homogeneous"})
    for alpha in (0.5, 1.0, 2.0):
        study.method(f"alpha {alpha}", method="fedsac", alpha=alpha, beta=1.4, centred=True)
        columns = [["digits", "hom"]]
        study.study["methods"][f"alpha {alpha}"] |= {
            "name": "FedSaC",
            "elsewhere": [{"columns": columns, "settings": {"beta": 1.6}}],
        }
        study.cell(f"alpha {alpha}", "dir", 0, {2: [alpha / 4, alpha / 4]})
    study.method("pfedgraph", title="pFedGraph", lam=0.1)
    study.cell("pfedgraph", "dir", 0, {2: [0.3, 0.3]})
    study.cell("pfedgraph", "hom", 0, {2: [0.4, 0.4]})
    return study


def test_a_sweep_over_rows_has_the_others_as_level_lines(tuned):
    for over in ("", "alpha"):
        figure, _, caption = sweep(tuned.load(), "digits", over=over)
        assert names(figure) == ["FedSaC", "pFedGraph"]
        left, right = figure.axes
        assert lines(left) == [[[0.5, 12.5], [1, 25], [2, 50]], [[0.5, 30], [2, 30]]]
        assert lines(right) == [[[0.5, 40], [2, 40]]]
        assert left.get_xscale() == "linear" and "over alpha on Digits" in caption


@pytest.mark.parametrize(
    ("over", "error", "message"),
    [
        ("alhpa", UserError, "no heterogeneity and no row has a number 'alhpa'; did you mean 'alpha'"),
        ("beta", Undrawn, "No two heterogeneities or rows differ in beta alone."),
        ("centred", UserError, "has a number 'centred'"),
    ],
)
def test_what_cannot_be_swept(tuned, over, error, message):
    with pytest.raises(error, match=message):
        sweep(tuned.load(), "digits", over=over)


def test_a_study_that_varies_nothing_has_no_sweep(common_toy):
    with pytest.raises(Undrawn, match="No two heterogeneities or rows differ in one setting alone"):
        sweep(common_toy.load(), "digits")


def test_a_sample_fills_the_rounds_between_evaluations(make_study):
    study = make_study(seeds=[0], heterogeneity={"hom": "homogeneous, 3 clients"})
    between = {"sample_accuracy_received": {1: [0.4, None, 0.6]}, "sample_loss_received": {1: [1.0, None, 2.0]}}
    losses = {"loss_received": {0: [3.0, 3.0, 3.0], 2: [1.0, 1.0, 1.0]}}
    everyone = {0: [0.1, 0.1, 0.1], 2: [0.7, 0.8, 0.9]}
    study.cell("ditto", "hom", 0, everyone, samples=[10, 10, 10], also=between | losses)
    results = study.load()
    for drawn, expected in ((None, [0.1, 0.5, 0.8]), (replace(results, quantity="loss"), [3.0, 1.5, 1.0])):
        means = round_means(results, "digits", drawn)
        assert dict(zip(means["round"], means["value"], strict=True)) == pytest.approx(dict(enumerate(expected)))
    output = "Between evaluations of all clients: mean over 2 of them, the same ones throughout."
    assert all(output in figure(results, "digits")[2] for figure in (curves, loss, traffic))


def test_a_study_without_a_sample_says_nothing_of_it(common_toy):
    assert "Between evaluations" not in curves(common_toy.load(), "digits")[2]
