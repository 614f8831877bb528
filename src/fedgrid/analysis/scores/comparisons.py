"""Differences of rows, paired by seed, and what they support: the one set of statistics of tables, pages and verdicts.

Three to five seeds know little of a variance. So the variance of a difference is shrunk towards what the other
differences of the same column show: the moderated t of Smyth, "Linear models and empirical Bayes methods", Stat. Appl.
Genet. Mol. Biol. 3 (2004), with its degrees of freedom capped. `python -m benchmarks.calibration rates` gives the false
and the true rates of what is built on it.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, isnan, nan, sqrt
from typing import Self

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.special import digamma, polygamma, stdtr, stdtrit

LEVEL = 0.05
"""Significance level of every decision."""
FEWEST_SEEDS = 3
"""Common seeds below which a difference decides nothing."""
IMAGES = 3
"""Test images a seed, of all clients together, that a difference must exceed: seeds may agree on one image."""
ROUNDING = 1e-12
"""Numbers that differ by less are equal."""
PRIOR_FREEDOM = 8.0
"""Most degrees of freedom of the prior: with more, a row whose variance is larger than that of others is trusted."""
FEWEST_DIFFERENCES = 6
"""Differences of a column below which nothing is known of their variances in common."""
POWER = 0.8
"""Probability with which a difference as large as the smallest detectable one is significant."""
MOST_SEEDS = 1000
"""Number of seeds up to which it is calculated how many would do."""


@dataclass(frozen=True)
class Prior:
    """What the variances of a column have in common: their scale, with so many degrees of freedom behind it."""

    variance: float = nan
    freedom: float = 0.0

    def shrunk(self, variance: float, freedom: float) -> tuple[float, float]:
        """A sample variance and its degrees of freedom, with those of the prior."""
        if not self.freedom:
            return variance, freedom
        both = freedom + self.freedom
        return (freedom * variance + self.freedom * self.variance) / both, both


def prior(variances: np.ndarray, freedoms: np.ndarray) -> Prior:
    """The prior of sample variances [n] with their degrees of freedom [n], by the moments of their logarithms.

    Variances of 0 and those without a degree of freedom do not count. Smyth (2004), Sec. 6.2.
    """
    counts = (freedoms > 0) & (variances > 0)
    variances, freedoms = variances[counts], freedoms[counts]
    if len(variances) < FEWEST_DIFFERENCES:
        return Prior()
    logs = np.log(variances) - digamma(freedoms / 2) + np.log(freedoms / 2)
    excess = logs.var(ddof=1) - polygamma(1, freedoms / 2).mean()
    freedom = 2 * _trigamma_inverse(excess) if excess > 0 else inf
    bias = digamma(freedom / 2) - np.log(freedom / 2) if np.isfinite(freedom) else 0.0
    return Prior(float(np.exp(logs.mean() + bias)), min(freedom, PRIOR_FREEDOM))


def _trigamma_inverse(value: float) -> float:
    return float(np.exp(brentq(lambda log: polygamma(1, np.exp(log)) - value, -20, 20)))


@dataclass(frozen=True)
class Comparison:
    """A mean difference, as a fraction, over `seeds` common seeds, and how far chance may move it.

    `error` is its standard error by the moderated variance with `freedom`; those beginning with `plain_` are of its own
    seeds alone. `images` says how many more test images a seed are classified right; NaN where the difference is not
    one of accuracies.
    """

    difference: float
    seeds: int = 0
    error: float = nan
    freedom: float = nan
    plain_error: float = nan
    plain_freedom: float = nan
    images: float = nan

    @property
    def testable(self) -> bool:
        """Whether there are enough seeds, which do not all agree: equal differences tell nothing about the noise."""
        return self.seeds >= FEWEST_SEEDS and self.plain_error > ROUNDING

    def p_above(self, limit: float = 0.0, plain: bool = False) -> float:
        """One-sided p-value of "the true difference is above `limit`"; 1 where that cannot be tested."""
        if limit == -inf:
            return 0.0
        if limit == inf or not self.testable or (limit == 0 and self.images <= IMAGES):
            return 1.0
        error, freedom = (self.plain_error, self.plain_freedom) if plain else (self.error, self.freedom)
        return float(stdtr(freedom, (limit - self.difference) / error))

    def p_below(self, limit: float = 0.0, plain: bool = False) -> float:
        """One-sided p-value of "the true difference is below `limit`"; 1 where that cannot be tested."""
        return self.negated.p_above(-limit, plain)

    @property
    def p_two_sided(self) -> float:
        """The p-value of "the true difference is not 0"."""
        return min(1.0, 2 * min(self.p_above(), self.p_below()))

    @property
    def negated(self) -> "Comparison":
        """The difference the other way round."""
        return replace(self, difference=-self.difference, images=-self.images)

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """Limits of the true difference at the confidence 1 − `level`; NaN where it cannot be tested."""
        if not self.testable:
            return nan, nan
        half = float(stdtrit(self.freedom, 1 - level / 2)) * self.error
        return self.difference - half, self.difference + half

    @property
    def smallest_detectable_difference(self) -> float:
        """The true difference that a one-sided test with these seeds finds with the probability `POWER`."""
        return _detectable(self.error, self.freedom) if self.testable else nan

    def seeds_to_detect(self, difference: float) -> int | None:
        """Number of seeds with which a true difference of this size is found as often; None for too many or none."""
        if not self.testable or not difference:
            return None
        spread, borrowed = self.error * sqrt(self.seeds), self.freedom - self.plain_freedom
        for seeds in range(FEWEST_SEEDS, MOST_SEEDS + 1):
            if _detectable(spread / sqrt(seeds), seeds - 1 + borrowed) <= abs(difference):
                return seeds
        return None


def _detectable(error: float, freedom: float) -> float:
    return float(stdtrit(freedom, 1 - LEVEL) + stdtrit(freedom, POWER)) * error


@dataclass(frozen=True)
class Exact(Comparison):
    """A difference without chance: of numbers that a paper prints, or of bytes."""

    def p_above(self, limit: float = 0.0, plain: bool = False) -> float:
        """0 where the difference is above `limit`, else 1."""
        return float(not self.difference - limit > ROUNDING)


UNKNOWN = Comparison(nan)
"""A comparison with what has no number."""


class Scores:
    """The values of one column by row and seed, which all differences of the column are taken from.

    `values` is [row, seed], NaN where a row has no value for a seed. Where they are accuracies, `correct` has in the
    same places how many test images of all clients together are classified right. Seeds of `unpaired` rows stand for
    other partitions than those of the others.
    """

    def __init__(
        self, values: pd.DataFrame, correct: pd.DataFrame | None = None, unpaired: Collection[str] = frozenset()
    ):
        self.values, self.correct, self.unpaired = values, correct, frozenset(unpaired)
        self._array = values.to_numpy(dtype=float)
        self._correct = None if correct is None else correct.to_numpy(dtype=float)
        self._row: Mapping[str, int] = {name: row for row, name in enumerate(values.index)}

    @cached_property
    def pair_prior(self) -> Prior:
        """What the variances of all differences of two rows have in common."""
        first, second = np.triu_indices(len(self._array), k=1)
        paired = ~np.isin(self.values.index, list(self.unpaired))
        both = paired[first] & paired[second]
        return prior(*_variances(self._array[first[both]] - self._array[second[both]]))

    @cached_property
    def row_prior(self) -> Prior:
        """What the variances of all rows have in common, where each is a difference already."""
        return prior(*_variances(self._array))

    def mean(self, row: str) -> float:
        """The mean over seeds."""
        return _mean(self._array[self._row[row]])

    def between(self, first: str, second: str) -> Comparison:
        """The first row less the second, over the seeds that both have; by Welch's t where these are no pairs."""
        i, j = self._row[first], self._row[second]
        a, b = self._array[i], self._array[j]
        if {first, second} & self.unpaired:
            images = nan if self._correct is None else _mean(self._correct[i]) - _mean(self._correct[j])
            return replace(_welch(a[~np.isnan(a)], b[~np.isnan(b)]), images=images)
        images = nan if self._correct is None else _mean((self._correct[i] - self._correct[j])[~np.isnan(a - b)])
        return replace(_compared(a - b, self.pair_prior), images=images)

    def of_row(self, row: str) -> Comparison:
        """The row against 0, where its values are differences already."""
        values = self._array[self._row[row]]
        images = nan if self._correct is None else _mean(self._correct[self._row[row]][~np.isnan(values)])
        return replace(_compared(values, self.row_prior), images=images)

    def with_copy(self, row: str, name: str) -> Self:
        """The same with a copy of a row under another name."""
        values, correct = (
            None if frame is None else pd.concat([frame, frame.loc[[row]].rename(index={row: name})])
            for frame in (self.values, self.correct)
        )
        return type(self)(values, correct, {*self.unpaired, *([name] if row in self.unpaired else [])})

    def minus(self, other: Self) -> Self:
        """What these scores are above others, by row and seed, as far as both have them."""
        values = (self.values - other.values).dropna(how="all")
        correct = None
        if self.correct is not None and other.correct is not None:
            correct = (self.correct - other.correct).reindex_like(values)
        return type(self)(values, correct, self.unpaired | other.unpaired)


def _mean(values: np.ndarray) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else nan


def _variances(differences: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sample variances and degrees of freedom of differences [n, seeds] with gaps; rounding alone is no variance."""
    seeds = np.count_nonzero(~np.isnan(differences), axis=1)
    centre = np.nansum(differences, axis=1, keepdims=True) / np.maximum(seeds, 1)[:, None]
    squares = np.nansum((differences - centre) ** 2, axis=1)
    freedom = np.maximum(seeds - 1, 0)
    variances = np.divide(squares, freedom, out=np.zeros(len(seeds)), where=freedom > 0)
    return np.where(variances > ROUNDING**2, variances, 0.0), freedom.astype(float)


def _compared(differences: np.ndarray, of_column: Prior) -> Comparison:
    known = differences[~np.isnan(differences)]
    seeds = len(known)
    if seeds < 2:
        return Comparison(float(known[0]) if seeds else nan, seeds)
    plain = float(known.var(ddof=1)) if np.ptp(known) > ROUNDING else 0.0
    variance, freedom = of_column.shrunk(plain, seeds - 1)
    return Comparison(float(known.mean()), seeds, sqrt(variance / seeds), freedom, sqrt(plain / seeds), seeds - 1)


def _welch(a: np.ndarray, b: np.ndarray) -> Comparison:
    seeds = min(len(a), len(b))
    if not seeds:
        return UNKNOWN
    difference = float(a.mean() - b.mean())
    if seeds < 2:
        return Comparison(difference, seeds)
    parts = [float(values.var(ddof=1)) / len(values) for values in (a, b)]
    if max(parts) <= ROUNDING**2:
        return Comparison(difference, seeds, 0.0, 0.0, 0.0, 0.0)
    freedom = sum(parts) ** 2 / sum(part**2 / (len(values) - 1) for part, values in zip(parts, (a, b), strict=True))
    error = sqrt(sum(parts))
    return Comparison(difference, seeds, error, freedom, error, freedom)


def holds_for(p_values: Collection[float], number: int) -> float:
    """The p-value of "at least `number` of these are true", from the one-sided p-values [n] of each.

    For all of them it is the largest (intersection–union), for one of them n times the smallest (Bonferroni); between,
    the Bonferroni form of the partial conjunction of Benjamini and Heller, Biometrics 64 (2008).
    """
    ordered = sorted(1.0 if isnan(p) else p for p in p_values)
    if number <= 0:
        return 0.0
    if number > len(ordered):
        return 1.0
    return min(1.0, (len(ordered) - number + 1) * ordered[number - 1])
