"""Which lead do the seeds support: paired tests of the best method against all others."""

from collections.abc import Set

import numpy as np
import pandas as pd
from scipy.stats import ttest_ind, ttest_rel

LEVEL = 0.05
"""Significance level of the test, after correction; intervals cover what it leaves."""
SEEDS = 5
"""Fewest common seeds that can support a lead: with two or three, a small p-value rests on one or two degrees of
freedom, that is on how alike a few numbers happen to be."""
IMAGES = 3
"""Test images a seed, of all clients together, that a lead must exceed: seeds may agree on a lead of one image, which
is no reason to prefer a method."""
ROUNDING = 1e-12
"""Accuracies that differ by less are equal."""
AGAINST = ["difference", "low", "high", "p_value", "common", "images"]
"""What `lead` says of the best method against another one."""


def compare(scores: pd.DataFrame, correct: pd.DataFrame, unpaired: Set[str] = frozenset()) -> pd.DataFrame:
    """Rank the methods of one column and test the best one's lead.

    `scores` is [method, seed], accuracies as fractions with NaN where a method has no score for a seed; every method
    has at least one. `correct` has in the same places how many test images of all clients together are classified
    right. Seeds of `unpaired` methods stand for other partitions than those of the others; see `apart`. Returns, by
    method, `rank` (1 is the highest mean over seeds; equal means share a rank), the columns of `AGAINST` (`lead` of the
    best over this method, NaN for the best itself; its p-values Holm-corrected) and `supported`: True for the best
    alone, when over the second best it has `SEEDS` common seeds, more than `IMAGES` images a seed and a p-value below
    `LEVEL`.
    """
    means = scores.mean(axis=1)
    rank = (means / ROUNDING).round().rank(ascending=False, method="min").astype("Int64")
    first, *others = means.sort_values(ascending=False, kind="stable").index
    leads = [
        apart(scores.loc[first], scores.loc[other], correct.loc[first], correct.loc[other])
        if unpaired & {first, other}
        else lead(scores.loc[first], scores.loc[other], correct.loc[first] - correct.loc[other])
        for other in others
    ]
    against = pd.DataFrame(leads, index=others, columns=AGAINST, dtype=float)
    against["p_value"] = holm(against["p_value"].to_numpy())
    supported = bool(others) and is_supported(against.iloc[0])
    return (
        against.reindex(scores.index)
        .assign(supported=(scores.index == first) & supported)
        .assign(rank=rank)[["rank", *AGAINST, "supported"]]
    )


def lead(best: pd.Series, other: pd.Series, images: pd.Series) -> dict[str, float]:
    """The lead of one method over another by seed, over the seeds that both have.

    `difference` of mean accuracies with its interval from `low` to `high` at 1 − `LEVEL`, uncorrected, and `p_value`
    of a paired two-sided t-test; `common` seeds; mean of `images`, by how many more are classified right. NaN where
    fewer than two seeds are common, and no interval where the difference is the same on every seed.
    """
    differences = (best - other).dropna()
    entry = {"difference": differences.mean(), "common": len(differences), "images": images[differences.index].mean()}
    if len(differences) < 2:
        return entry
    if np.ptp(differences) < ROUNDING:
        # The same difference on every seed (mostly: the same scores) tells nothing about the noise between seeds; the
        # test's ratio is then 0/0, or a rounding error away from infinity. It must not pass for evidence.
        return entry | {"p_value": 1.0}
    test = ttest_rel(best[differences.index], other[differences.index])
    interval = test.confidence_interval(1 - LEVEL)
    return entry | {"p_value": test.pvalue, "low": interval.low, "high": interval.high}


def apart(best: pd.Series, other: pd.Series, right: pd.Series, right_of_other: pd.Series) -> dict[str, float]:
    """The lead of one method over another whose seeds stand for other partitions; entries as in `lead`.

    `p_value` is that of Welch's two-sided t-test, and `common` the smaller number of seeds. `right` and
    `right_of_other` are the test images that each classifies right.
    """
    best, other = best.dropna(), other.dropna()
    entry = {
        "difference": best.mean() - other.mean(),
        "common": min(len(best), len(other)),
        "images": right.mean() - right_of_other.mean(),
    }
    if entry["common"] < 2:
        return entry
    if np.ptp(best) < ROUNDING and np.ptp(other) < ROUNDING:  # as in `lead`
        return entry | {"p_value": 1.0}
    test = ttest_ind(best, other, equal_var=False)
    interval = test.confidence_interval(1 - LEVEL)
    return entry | {"p_value": test.pvalue, "low": interval.low, "high": interval.high}


def is_supported(against: pd.Series) -> bool:
    """Whether the lead over the second best is more than noise."""
    return bool(against["common"] >= SEEDS and against["images"] > IMAGES and against["p_value"] < LEVEL)


def holm(p_values: np.ndarray) -> np.ndarray:
    """Holm's step-down correction of p-values [n]; NaN marks a comparison that was not made and stays NaN."""
    corrected = np.full(len(p_values), np.nan)
    order = np.argsort(p_values)[: np.count_nonzero(~np.isnan(p_values))]
    steps = p_values[order] * np.arange(len(order), 0, -1)
    corrected[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return corrected
