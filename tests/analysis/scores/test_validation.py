"""The rule by which a search chooses."""

import pytest

from fedgrid.analysis.scores.validation import best
from fedgrid.grid.plan.searches import Score


@pytest.mark.parametrize(
    ("means", "keep", "kept", "tied"),
    [
        ([0.1, 0.3, 0.2], 1, (1,), ()),
        ([0.1, 0.3, 0.2], 2, (1, 2), ()),
        ([0.3, 0.1, 0.3], 1, (0,), (2,)),
        ([0.3, 0.1, 0.1 + 0.2], 1, (0,), (2,)),  # equal but for the last bit
        ([0.2, 0.3, 0.2], 2, (1, 0), (2,)),
        ([None, 0.0, 0.1], 2, (2, 1), ()),
        ([None, None], 1, (0,), ()),
    ],
)
def test_the_best_mean_wins_the_first_of_equals_and_a_diverged_point_is_last(means, keep, kept, tied):
    assert best(dict(enumerate(means)), keep) == (kept, tied)


@pytest.mark.parametrize(("by_seed", "mean"), [((0.2, 0.4), 0.3), ((0.2, None), None), ((None, None), None)])
def test_a_point_of_which_a_seed_diverged_has_no_mean(by_seed, mean):
    assert Score(0, by_seed, 1.0).mean == (None if mean is None else pytest.approx(mean))
