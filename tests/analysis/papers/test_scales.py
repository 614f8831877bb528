"""An experiment at two scales beside what is printed; by hand."""

import pytest
from toys import Study, texts

from fedgrid.analysis.papers.scales import beside

SMALL, LONG = "small (2 seeds)", "long (3 seeds)"


def study(folder, scale, seeds, rounds):
    names = {"name": f"paper-{scale}/table1", "paper": "A paper", "scale": scale, "source": "Table I"}
    protocol = {"rounds": rounds, "optimizer": {"name": "sgd", "lr": 0.1}}
    return Study(folder / scale, seeds=seeds, rounds=rounds, protocol=protocol, **names)


@pytest.fixture
def small(tmp_path):
    """Local and FedAvg in two columns; three numbers are printed."""
    small = study(tmp_path, "small", [0, 1], 2)
    small.in_column({"local": [0.50, 0.52], "fedavg": [0.40, 0.40]})
    for seed in (0, 1):
        small.cell("local", "hom", seed, {1: [0.9, 0.9]})
    small.prints("local", "60.00")
    small.prints("local", "4.00", metric="std_clients")
    small.prints("fedavg", "45.00", corrected="46.00")
    return small


@pytest.fixture
def long(tmp_path):
    """Local and Ditto in the first column, of Ditto one seed of three."""
    return study(tmp_path, "long", [0, 1, 2], 9).in_column({"local": [0.70, 0.72, 0.74], "ditto": [0.80]})


def test_printed_small_and_long_stand_side_by_side(small, long):
    results = small.load()
    grid = beside(results, {"small": results, "long": long.load()})
    assert grid.header == [
        [("Digits", 6)],
        [("Dirichlet β=0.1, 2 clients", 6)],
        [("Acc. (%)", 3), ("Std. over clients (%)", 3)],
        [(name, 1) for name in ("printed", SMALL, LONG) * 2],
    ]
    assert texts(grid) == {
        "local": ["60.00", "51.00 ± 1.41", "72.00 ± 2.00", "4.00", "0.00 ± 0.00", "0.00 ± 0.00"],
        "fedavg": ["46.00", "40.00 ± 0.00", "–", "–", "0.00 ± 0.00", "–"],
        "ditto": ["–", "–", "80.00 (1 seed)", "–", "–", "0.00 (1 seed)"],
    }


def test_the_caption_says_in_what_the_scales_differ(small, long):
    results = small.load()
    caption = beside(results, {"small": results, "long": long.load()}).caption
    assert "training.rounds: 2 (small) and 9 (long)" in caption and "lr" not in caption and "Table I" in caption


def test_without_printed_numbers_accuracies_are_shown(small, long):
    own = long.load()
    grid = beside(own, {"small": small.load(), "long": own})
    assert texts(grid)["local"] == ["–", "51.00 ± 1.41", "72.00 ± 2.00"]


def test_a_column_that_one_scale_has_alone_is_left_out(small, tmp_path):
    other = study(tmp_path, "long", [0], 9)
    other.cell("local", "dir", 0, {1: [0.1, 0.1]}, data="emnist")
    results = small.load()
    assert beside(results, {"small": results, "long": other.load()}) is None
    assert beside(results, {"small": results}) is None
