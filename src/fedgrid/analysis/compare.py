"""Which lead do the seeds support: paired tests of the best method against all others."""

import numpy as np
import pandas as pd
from scipy.stats import ttest_rel

LEVEL = 0.05
"""Significance level of the test, after correction."""
ROUNDING = 1e-12
"""Accuracies that differ by less are equal."""


def compare(scores: pd.DataFrame) -> pd.DataFrame:
    """Rank the methods of one column and test the best one's lead.

    `scores` is [method, seed], with NaN where a method has no score for a seed; every method has at least one. Returns,
    by method, `rank` (1 is the highest mean over seeds; equal means share a rank), `p_value` (paired two-sided t-test
    of the best against this method over their common seeds, Holm-corrected; NaN for the best itself and where fewer
    than two seeds are common) and `supported` (True for the best alone, when it beats the second best at `LEVEL`).
    """
    means = scores.mean(axis=1)
    rank = (means / ROUNDING).round().rank(ascending=False, method="min").astype("Int64")
    first, *others = means.sort_values(ascending=False, kind="stable").index
    p_values = holm(np.array([paired(scores.loc[first], scores.loc[other]) for other in others]))
    supported = bool(others) and bool(p_values[0] < LEVEL)
    return pd.DataFrame(
        {
            "rank": rank,
            "p_value": pd.Series(p_values, index=others, dtype=float).reindex(scores.index),
            "supported": (scores.index == first) & supported,
        }
    )


def paired(a: pd.Series, b: pd.Series) -> float:
    """Two-sided p-value of a paired t-test over the seeds that both have; NaN when fewer than two are common."""
    difference = (a - b).dropna()
    if len(difference) < 2:
        return float("nan")
    if np.ptp(difference) < ROUNDING:
        # The same difference on every seed (mostly: the same scores) tells nothing about the noise between seeds; the
        # test's ratio is then 0/0, or a rounding error away from infinity. It must not pass for evidence.
        return 1.0
    return float(ttest_rel(a[difference.index], b[difference.index]).pvalue)


def holm(p_values: np.ndarray) -> np.ndarray:
    """Holm's step-down correction of p-values [n]; NaN marks a comparison that was not made and stays NaN."""
    corrected = np.full(len(p_values), np.nan)
    order = np.argsort(p_values)[: np.count_nonzero(~np.isnan(p_values))]
    steps = p_values[order] * np.arange(len(order), 0, -1)
    corrected[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return corrected
