import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_rel

from fedgrid.analysis.compare import compare, holm, paired


def frame(**scores):
    return pd.DataFrame.from_dict(scores, orient="index", dtype=float)


def test_holm_by_hand():
    # sorted 0.01, 0.03, 0.04 times 3, 2, 1 = 0.03, 0.06, 0.04; the last may not be smaller than the one before
    assert holm(np.array([0.04, 0.01, 0.03])) == pytest.approx([0.06, 0.03, 0.06])


def test_holm_leaves_out_what_was_not_tested_and_stops_at_one():
    corrected = holm(np.array([np.nan, 0.02, 0.7]))
    assert np.isnan(corrected[0]) and corrected[1:] == pytest.approx([0.04, 0.7])
    assert holm(np.array([0.9, 0.8])) == pytest.approx([1.0, 1.0])
    assert len(holm(np.array([]))) == 0


def test_ranks_and_supported_lead():
    table = compare(frame(a=[0.5, 0.51, 0.5], b=[0.9, 0.9, 0.91], c=[0.7, 0.69, 0.7]))
    assert table["rank"].to_dict() == {"a": 3, "b": 1, "c": 2}
    assert table["supported"].to_dict() == {"a": False, "b": True, "c": False}
    raw_a, raw_c = (ttest_rel([0.9, 0.9, 0.91], other).pvalue for other in ([0.5, 0.51, 0.5], [0.7, 0.69, 0.7]))
    assert raw_a < raw_c < 2 * raw_a
    assert table.loc[["a", "c"], "p_value"].tolist() == pytest.approx([2 * raw_a, 2 * raw_a])
    assert np.isnan(table.loc["b", "p_value"])


def test_correction_can_take_a_lead_away():
    best, second = [0.80, 0.82, 0.85], [0.78, 0.79, 0.81]
    raw = ttest_rel(best, second).pvalue
    assert 0.025 < raw < 0.05
    assert compare(frame(a=best, b=second))["supported"]["a"]
    rivals = {f"r{i}": [0.1, 0.9, 0.5] for i in range(3)}
    assert not compare(frame(a=best, b=second, **rivals))["supported"].any()


def test_equal_means_share_a_rank():
    assert compare(frame(a=[0.3, 0.1], b=[0.1, 0.3], c=[0.0, 0.0]))["rank"].tolist() == [1, 1, 3]


@pytest.mark.parametrize("other", [[0.5, 0.6, 0.7], [0.4, 0.5, 0.6]])
def test_a_constant_difference_is_no_evidence(other):
    assert paired(pd.Series([0.5, 0.6, 0.7]), pd.Series(other)) == 1.0


def test_one_seed_supports_nothing():
    table = compare(frame(a=[0.9], b=[0.1]))
    assert table["rank"].tolist() == [1, 2] and not table["supported"].any() and table["p_value"].isna().all()


def test_only_common_seeds_are_compared():
    table = compare(pd.DataFrame({0: [0.9, 0.5], 1: [0.91, np.nan], 2: [np.nan, 0.5]}, index=["a", "b"]))
    assert table["p_value"].isna().all() and not table["supported"].any()


def test_a_lonely_method_beats_nobody():
    assert compare(frame(a=[0.9, 0.8])).loc["a"].drop("p_value").to_dict() == {"rank": 1, "supported": False}
