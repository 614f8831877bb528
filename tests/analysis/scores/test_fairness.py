"""How evenly accuracy is spread over clients, and who loses by taking part: by hand."""

import numpy as np
import pandas as pd
import pytest
from toys import draw_figure, make_table, marks, texts

from fedgrid.analysis.figures.common.style import Undrawn
from fedgrid.analysis.papers.claim_scores import Measured
from fedgrid.analysis.scores.fairness import SPREADS, gains, spreads
from fedgrid.analysis.scores.summary import client_scores, summary


def spread(accuracies):
    """The numbers of one cell."""
    return spreads(pd.DataFrame({"cell": "c", "accuracy": np.asarray(accuracies, float)}), ["cell"]).loc["c"]


@pytest.fixture
def compared(make_study):
    """Local and two others on two seeds; FedAvg's second client loses in both."""
    study = make_study(seeds=[0, 1], heterogeneity={"dir": "Dirichlet"})
    for label, seeds in {
        "local": ([0.5, 0.9], [0.6, 0.8]),
        "fedavg": ([0.7, 0.7], [0.7, 0.7]),
        "ditto": ([0.6, 1.0], [0.6, 0.9]),
    }.items():
        study.method(label, title={"fedavg": "FedAvg"}.get(label))
        for seed, values in enumerate(seeds):
            study.cell(label, "dir", seed, {1: values})
    return study


@pytest.mark.parametrize(("clients", "expected"), [(1, 0.0), (10, 0.0), (11, 0.5), (20, 0.5), (21, 1.0), (100, 4.5)])
def test_a_tenth_is_rounded_up(clients, expected):
    assert spread(np.random.default_rng(0).permutation(clients))["worst_tenth"] == expected


@pytest.mark.parametrize(
    ("accuracies", "expected"), [([0.5, 0.5], 1), ([1.0, 0.0, 0.0, 0.0], 0.25), ([0.0, 0.0], 1), ([0.6, 0.8], 0.98)]
)
def test_jains_index(accuracies, expected):
    assert spread(accuracies)["jain"] == pytest.approx(expected)


def test_numbers_are_those_of_a_cell_and_then_means_over_seeds(compared):
    table = summary(compared.load()).set_index("label")
    assert table.loc["local", list(SPREADS)].tolist() == pytest.approx([0.55, 0.55, (1.96 / 2.12 + 0.98) / 2])
    assert table.loc["fedavg", "jain"] == pytest.approx(1)


def test_columns_are_shown_where_they_are_asked_for(compared):
    results = compared.load()
    plain, _ = make_table("accuracy", results, {"std": True})
    assert not {*SPREADS} & {*plain} and "std_clients" in plain
    table, grid = make_table("accuracy", results, {"worst_client": True, "jain": True, "ranks": True})
    assert texts(grid)["FedAvg"] == ["70.00 ± 0.00", "70.00", "100.00"]
    assert marks(grid)["FedAvg"][1:] == ["①", "①"]
    assert "worst_client" in table and "worst_tenth" not in table
    assert "Worst client: the lowest accuracy of a client, mean over seeds." in grid.caption


def test_claims_compare_them(compared):
    measured = Measured(compared.load())
    (column,) = measured.columns
    assert measured.scores("worst_client", column).mean("FedAvg") == pytest.approx(70)
    assert measured.scores("jain", column).mean("FedAvg") == pytest.approx(100)


def test_gains_are_of_the_same_client_and_seed(compared):
    results = compared.load()
    table = gains(results, client_scores(results)[0])
    of_row = {label: part["gain"].tolist() for label, part in table.groupby("label")}
    assert of_row["fedavg"] == pytest.approx([0.2, -0.2, 0.1, -0.1])
    assert of_row["ditto"] == pytest.approx([0.1, 0.1, 0.0, 0.1]) and "local" not in of_row


def test_the_figure_orders_clients_and_says_who_loses(compared):
    figure, title, caption = draw_figure("gains", compared.load(), "digits")
    (panel,) = figure.axes
    assert [float(value) for value in panel.lines[0].get_ydata()] == pytest.approx([-20, -10, 10, 20])
    assert title == "Who gains by taking part on Digits"
    assert "Clients that lose, and by how many points on average, Dirichlet: FedAvg 50 %, 15.00." in caption


def test_without_local_there_is_nothing_to_draw(make_study):
    study = make_study(seeds=[0])
    study.cell("fedavg", "dir", 0, {1: [0.5, 0.5]})
    with pytest.raises(Undrawn, match="compared with itself under Local"):
        draw_figure("gains", study.load(), "digits")
