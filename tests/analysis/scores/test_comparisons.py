"""Differences of rows by seed, by hand and against scipy."""

from math import inf, isnan, sqrt

import numpy as np
import pandas as pd
import pytest
from scipy.special import digamma, polygamma
from scipy.stats import t, ttest_ind, ttest_rel

from fedgrid.analysis.scores.comparisons import (
    IMAGES,
    PRIOR_FREEDOM,
    Comparison,
    Exact,
    Prior,
    Scores,
    holds_for,
    prior,
)

A, B = [0.80, 0.82, 0.86, 0.81], [0.78, 0.81, 0.82, 0.80]


def frame(**rows):
    return pd.DataFrame.from_dict(rows, orient="index", dtype=float)


def noisy(rows=8, seeds=4, spread=0.01):
    draws = np.random.default_rng(7).normal(0.5, spread, (rows, seeds))
    return pd.DataFrame(draws, index=[f"r{i}" for i in range(rows)])


def test_two_rows_alone_are_compared_by_the_paired_t_test():
    actual = Scores(frame(a=A, b=B)).between("a", "b")
    test = ttest_rel(A, B, alternative="greater")
    assert actual.p_above() == pytest.approx(test.pvalue) == actual.p_above(plain=True)
    assert actual.p_below() == pytest.approx(1 - test.pvalue)
    assert actual.interval() == pytest.approx(tuple(ttest_rel(A, B).confidence_interval(0.95)))
    assert actual.p_two_sided == pytest.approx(ttest_rel(A, B).pvalue)


def test_the_prior_by_hand():
    """Smyth (2004), Sec. 6.2: the moments of log s² give scale and degrees of freedom."""
    variances, freedoms = np.array([1.0, 2.0, 30.0, 4.0, 0.05, 6.0]), np.full(6, 2.0)
    logs = np.log(variances) - digamma(1.0) + np.log(1.0)
    actual = prior(variances, freedoms)
    assert 0 < actual.freedom < PRIOR_FREEDOM
    assert polygamma(1, actual.freedom / 2) == pytest.approx(logs.var(ddof=1) - polygamma(1, 1.0))
    assert np.log(actual.variance) == pytest.approx(
        logs.mean() + digamma(actual.freedom / 2) - np.log(actual.freedom / 2)
    )


def test_equal_variances_trust_the_prior_up_to_its_cap():
    actual = prior(np.full(10, 4.0), np.full(10, 2.0))
    assert actual.freedom == PRIOR_FREEDOM
    assert np.log(actual.variance) == pytest.approx(np.log(4.0) - digamma(1.0) + np.log(1.0))


def test_few_differences_and_those_without_spread_make_no_prior():
    assert prior(np.full(5, 4.0), np.full(5, 2.0)).freedom == 0
    assert prior(np.array([1.0, 0, 0, 0, 0, 0, 0]), np.full(7, 2.0)).freedom == 0
    assert Prior().shrunk(3.0, 2.0) == (3.0, 2.0)
    assert Prior(1.0, 8.0).shrunk(3.0, 2.0) == pytest.approx((1.4, 10.0))


def test_the_moderated_error_lies_between_its_own_and_the_common_one():
    scores = Scores(noisy())
    actual = scores.between("r0", "r1")
    own = np.var(scores.values.loc["r0"] - scores.values.loc["r1"], ddof=1)
    common = scores.pair_prior
    assert actual.freedom == 3 + common.freedom
    assert actual.error**2 * 4 == pytest.approx((3 * own + common.freedom * common.variance) / actual.freedom)
    assert actual.plain_error == pytest.approx(sqrt(own / 4))
    assert scores.between("r1", "r0").p_above() == actual.p_below() == pytest.approx(1 - actual.p_above())


def test_scores_that_are_differences_are_tested_against_zero():
    scores = Scores(noisy(rows=3)).minus(Scores(noisy(rows=3) * 0.5))
    actual, values = scores.of_row("r0"), noisy(rows=3).loc["r0"] * 0.5
    assert (actual.difference, actual.seeds) == (pytest.approx(values.mean()), 4)
    assert actual.p_above() == pytest.approx(t.sf(values.mean() / (values.std(ddof=1) / 2), 3))


@pytest.mark.parametrize("other", [[0.5, 0.6, 0.7], [0.4, 0.5, 0.6]])
def test_a_difference_that_is_the_same_on_every_seed_is_no_evidence(other):
    rows = {f"r{i}": list(row) for i, row in enumerate(noisy(6, 3).to_numpy())}
    actual = Scores(frame(a=[0.5, 0.6, 0.7], b=other, **rows)).between("a", "b")
    assert (actual.testable, actual.p_above(), actual.p_below()) == (False, 1.0, 1.0)
    assert isnan(actual.interval()[0]) and isnan(actual.smallest_detectable_difference)


def test_two_seeds_decide_nothing():
    actual = Scores(frame(a=[0.9, 0.91], b=[0.1, 0.12])).between("a", "b")
    assert (actual.seeds, actual.testable, actual.p_above()) == (2, False, 1.0)
    assert Scores(frame(a=[0.9], b=[0.1])).between("a", "b").difference == pytest.approx(0.8)


def test_only_common_seeds_count():
    actual = Scores(frame(a=[0.9, 0.8, np.nan], b=[np.nan, 0.5, 0.4])).between("a", "b")
    assert (actual.seeds, actual.difference) == (1, pytest.approx(0.3))


@pytest.mark.parametrize(("images", "counts"), [(IMAGES + 0.5, True), (IMAGES, False), (-IMAGES, False), (-9, True)])
def test_a_lead_of_a_few_test_images_is_none(images, counts):
    values = frame(a=A, b=B)
    correct = frame(a=[100.0 + images] * 4, b=[100.0] * 4)
    actual = Scores(values, correct).between("a", "b")
    assert actual.images == images and (min(actual.p_above(), actual.p_below()) < 1) == counts
    assert actual.p_above(-0.01) < 0.05  # the rule is about leads, not about sizes


def test_rows_of_other_partitions_are_compared_by_welch():
    actual = Scores(frame(a=A, b=B), unpaired={"b"}).between("a", "b")
    test = ttest_ind(A, B, equal_var=False)
    assert actual.p_two_sided == pytest.approx(test.pvalue) and actual.freedom == pytest.approx(test.df)
    assert not Scores(frame(a=[0.5] * 3, b=[0.4] * 3), unpaired={"b"}).between("a", "b").testable


def test_the_smallest_detectable_difference_has_the_stated_power():
    actual = Scores(frame(a=A, b=B)).between("a", "b")
    expected = (t.isf(0.05, 3) + t.ppf(0.8, 3)) * actual.error
    assert actual.smallest_detectable_difference == pytest.approx(expected)
    assert actual.seeds_to_detect(expected * 1.001) == 4
    assert actual.seeds_to_detect(expected / 4) > 16 and actual.seeds_to_detect(0) is None
    assert actual.seeds_to_detect(expected / 1e6) is None


def test_exact_differences_need_no_seeds():
    assert (Exact(0.1).p_above(), Exact(0.1).p_below(), Exact(0.1).p_above(0.2)) == (0.0, 1.0, 1.0)
    assert (Exact(0.0).p_above(), Exact(0.0).p_below()) == (1.0, 1.0)
    assert Exact(0.1).negated.p_below() == 0.0
    assert (Comparison(0.1).p_above(-inf), Exact(0.1).p_below(inf)) == (0.0, 0.0)


def test_how_many_of_several_hold_by_hand():
    p_values = [0.01, 0.04, 0.02, 0.5]
    assert holds_for(p_values, 4) == 0.5  # all: the largest
    assert holds_for(p_values, 1) == pytest.approx(0.04)  # one: four times the smallest
    assert holds_for(p_values, 3) == pytest.approx(0.08)  # three: twice the third
    assert (holds_for(p_values, 0), holds_for(p_values, 5), holds_for([], 1)) == (0.0, 1.0, 1.0)
    assert holds_for([0.01, float("nan")], 2) == 1.0
