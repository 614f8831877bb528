"""Ranks of the methods of one column, and which lead is significant."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t, ttest_rel

from fedgrid.analysis.scores import leads
from fedgrid.analysis.scores.comparisons import IMAGES, Scores

IMAGES_IN_ALL = 1000


def compare(scores):
    """Compare methods that are tested on so many images that a lead of a point is a lead of ten."""
    return leads.compare(Scores(scores, scores * IMAGES_IN_ALL))


def frame(**scores):
    return pd.DataFrame.from_dict(scores, orient="index", dtype=float)


A, B, C = [0.5, 0.51, 0.5, 0.49, 0.5], [0.9, 0.9, 0.91, 0.89, 0.9], [0.7, 0.69, 0.7, 0.7, 0.72]


def test_ranks_and_supported_lead():
    table = compare(frame(a=A, b=B, c=C))
    assert table["rank"].to_dict() == {"a": 3, "b": 1, "c": 2}
    assert table["supported"].to_dict() == {"a": False, "b": True, "c": False}
    expected = [ttest_rel(B, other).pvalue for other in (A, C)]
    assert table.loc[["a", "c"], "p_value"].tolist() == pytest.approx(expected)
    assert table.loc["b", "difference":"images"].isna().all()


def test_difference_and_interval_by_hand():
    against = compare(frame(b=B, c=C)).loc["c"]
    differences = np.array(B) - np.array(C)
    half = t.ppf(0.975, 4) * differences.std(ddof=1) / np.sqrt(5)
    expected = [differences.mean(), differences.mean() - half, differences.mean() + half]
    assert against[["difference", "low", "high"]].tolist() == pytest.approx(expected)
    assert (against["common"], against["images"]) == (5, pytest.approx(1000 * differences.mean()))


def test_too_few_seeds_support_nothing():
    assert compare(frame(b=B[:3], c=C[:3]))["supported"]["b"]
    table = compare(frame(b=B[:2], c=C[:2]))
    assert table["p_value"].isna().all() and not table["supported"].any()


@pytest.mark.parametrize(("images", "supported"), [(IMAGES + 0.2, True), (IMAGES, False), (1, False), (-4, False)])
def test_a_lead_of_a_few_test_images_is_no_lead(images, supported):
    scores, other = pd.Series(B), pd.Series(B) - [0.0028, 0.0028, 0.0027, 0.0028, 0.0028]
    correct = pd.DataFrame({"b": scores * 360, "c": scores * 360 - images}).T
    table = leads.compare(Scores(pd.DataFrame({"b": scores, "c": other}).T, correct))
    assert (table.loc["c", "p_value"] < 0.001) == table.loc["b", "supported"] == supported


def test_a_lead_must_be_significant_over_every_other_row():
    best, second = [0.80, 0.82, 0.85, 0.80, 0.82], [0.78, 0.81, 0.82, 0.80, 0.80]
    assert 0.025 < ttest_rel(best, second).pvalue < 0.05
    assert compare(frame(a=best, b=second))["supported"]["a"]
    assert not compare(frame(a=best, b=second, c=[0.1, 0.9, 0.5, 0.2, 0.95]))["supported"].any()


def test_equal_means_share_a_rank():
    assert compare(frame(a=[0.3, 0.1], b=[0.1, 0.3], c=[0.0, 0.0]))["rank"].tolist() == [1, 1, 3]


def test_one_seed_supports_nothing():
    table = compare(frame(a=[0.9], b=[0.1]))
    assert table["rank"].tolist() == [1, 2] and not table["supported"].any() and table["p_value"].isna().all()


def test_only_common_seeds_are_compared():
    table = compare(pd.DataFrame({0: [0.9, 0.5], 1: [0.91, np.nan], 2: [np.nan, 0.5]}, index=["a", "b"]))
    assert table["p_value"].isna().all() and not table["supported"].any()


def test_a_single_method_has_no_lead():
    assert compare(frame(a=[0.9, 0.8])).loc["a", ["rank", "supported"]].tolist() == [1, False]
