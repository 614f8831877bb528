"""Many differences at once, with known answers."""

from itertools import combinations
from math import nan

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgrid.analysis.scores.comparisons import Scores
from fedgrid.analysis.scores.multiple import groups, holm, told_apart

ROWS = ["a", "b", "c", "d", "e"]
PAIRS = list(combinations(ROWS, 2))


def test_holms_adjustment():
    assert holm([0.01, 0.04, nan, 0.03]) == pytest.approx([0.04, 0.09, nan, 0.09], nan_ok=True)
    assert holm([0.9, 0.8]) == [1.0, 1.0] and holm([]) == []


def test_rows_far_apart_are_told_apart_and_neighbours_are_not():
    noise = np.array([[0.000, 0.002, -0.002], [0.001, -0.002, 0.001], [-0.001, 0.001, 0.000], [0.002, 0.000, -0.001]])
    means = np.array([[0.9], [0.899], [0.6], [0.3]])
    scores = Scores(pd.DataFrame(means + noise, index=["a", "b", "c", "d"]))
    pairs = told_apart(scores)
    assert set(pairs) == {("a", "c"), ("a", "d"), ("b", "c"), ("b", "d"), ("c", "d")}
    assert groups(["a", "b", "c", "d"], pairs) == [["a", "b"], ["c"], ["d"]]


def test_groups_overlap_where_differences_do_not_add_up():
    assert groups(ROWS[:3], [("a", "c")]) == [["a", "b"], ["b", "c"]]
    assert groups(ROWS[:3], []) == [["a", "b", "c"]]


@given(st.sets(st.sampled_from(PAIRS)))
def test_rows_share_a_group_exactly_where_they_are_not_told_apart(apart):
    found = groups(ROWS, sorted(apart))
    for pair in PAIRS:
        assert any({*pair} <= {*group} for group in found) == (pair not in apart)
    assert not any({*one} < {*other} for one in found for other in found)
