"""What the rule of a claim compares: the differences of each column, and how many of them must be as claimed."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil, inf, isnan

from fedgrid.analysis.papers.claim_scores import LOW_IS_GOOD, ClaimScores, column_names
from fedgrid.analysis.scores.comparisons import LEVEL, UNKNOWN, Comparison, Scores, holds_for
from fedgrid.analysis.scores.domains import Column
from fedgrid.grid.study.claim import ALL, OTHERS, Claim, Rows

MetricColumn = tuple[str, Column]
"""A metric in a column."""
Limits = tuple[float, float]
"""Between which values the true difference lies, by what is claimed."""


@dataclass(frozen=True)
class Judged:
    """One comparison of a column: who, its numbers, the difference, and the limits that are claimed of it."""

    first: str
    second: str
    "Empty where a row is compared with itself, in another column or by another metric."
    numbers: tuple[float, float]
    comparison: Comparison
    limits: Limits
    sign: float = 1.0
    "Below zero where a lower number is an improvement, and so a positive difference."
    of_leads: bool = False
    "Whether the numbers are leads of the first row over the second, before and after."
    too_early: bool = False
    "Whether training was too short for the numbers to say anything."

    @property
    def p_for(self) -> float:
        """The p-value of the claim: two one-sided tests."""
        low, high = self.limits
        return max(self.comparison.p_above(low), self.comparison.p_below(high))

    @property
    def unknown(self) -> list[str]:
        """Its rows that have no final number."""
        if self.too_early or not isnan(self.comparison.difference):
            return []
        if self.of_leads or not self.second:
            return [self.first]
        names = zip((self.first, self.second), self.numbers, strict=True)
        return [name for name, number in names if isnan(number)]

    @property
    def margin(self) -> float:
        """How far the difference lies within its limits, below zero where it is outside; NaN where it is not known."""
        low, high = self.limits
        return min(self.comparison.difference - low, high - self.comparison.difference)

    @property
    def p_against(self) -> float:
        """The p-value of the contrary; 1 where the seeds of this comparison alone do not speak for it at all."""
        moderated, plain = (self._outside(plain) for plain in (False, True))
        return moderated if plain <= LEVEL else 1.0

    def _outside(self, plain: bool) -> float:
        low, high = self.limits
        outside = [self.comparison.p_below(low, plain)] if low > -inf else []
        outside += [self.comparison.p_above(high, plain)] if high < inf else []
        return min([1.0, *(len(outside) * p for p in outside)])


@dataclass(frozen=True)
class Part:
    """One column of a claim, or one step from a column or a metric to the next.

    `needed` is the number of comparisons that must be as claimed; None: too few rows are there to say anything.
    """

    metric: str
    columns: tuple[Column, ...]
    judged: Sequence[Judged]
    needed: int | None

    @property
    def p_for(self) -> float:
        """The p-value of the claim in this column."""
        return 1.0 if self.needed is None else holds_for([one.p_for for one in self.judged], self.needed)

    @property
    def p_against(self) -> float:
        """The p-value of its contrary, corrected for the number of comparisons."""
        if self.needed is None:
            return 1.0
        return holds_for([one.p_against for one in self.judged], len(self.judged) - self.needed + 1)

    @property
    def decisive(self) -> Judged | None:
        """The comparison on which the verdict turns: of as many as are needed, the least favourable one."""
        known = [one for one in self.judged if not isnan(one.margin)] or self.judged
        ordered = sorted(known, key=lambda one: (one.p_for, -one.p_against, -one.margin))
        last = len(ordered) if self.needed is None else min(max(self.needed, 1), len(ordered))
        return ordered[last - 1] if ordered else None


def parts(scores: ClaimScores, claim: Claim) -> list[Part]:
    """The parts of a claim by its rule; columns for which none of the rows were planned are none."""
    metrics = claim.metric if isinstance(claim.metric, list) else [claim.metric]
    made = [part for metric in metrics for part in RULES[claim.rule or ""](Claims(scores, claim, metric))]
    return [part for part in made if part.judged or part.needed is not None]


@dataclass(frozen=True)
class Claims:
    """A claim with the scores of one metric."""

    scores: ClaimScores
    claim: Claim
    metric: str

    @property
    def sign(self) -> float:
        """Of a difference that is an improvement."""
        return -1.0 if self.metric in LOW_IS_GOOD else 1.0

    @property
    def columns(self) -> list[Column]:
        """The columns that the claim is about."""
        return [column for group in selected(self.scores, self.claim.columns) for column in group]

    def takes_part(self, name: str) -> bool:
        """Whether a row may decide."""
        return not self.claim.rows or name in self.claim.rows

    def rivals(self, name: str, column: Column) -> list[str]:
        """The rows with which one competes in a column."""
        return list(filter(self.takes_part, self.scores.rivals(name, self.metric, column)))

    def named(self, rows: Rows, column: Column, but: Sequence[str] = ()) -> list[str]:
        """The rows of a group; of `all`, those that have a number and are not named in the other group."""
        if rows != ALL:
            return [rows] if isinstance(rows, str) else rows
        present = self.scores.scores(self.metric, column).values.index
        return [name for name in self.scores.rows if name in present and name not in but and self.takes_part(name)]

    def limits(self, base: float, otherwise: Limits) -> Limits:
        """The claimed limits, where a difference in per cent is one of `base`."""
        if self.claim.by is None:
            return otherwise
        unit = abs(base) / 100 if self.claim.unit == "percent" else 1.0
        low, high = self.claim.by
        return (-inf if low is None else low * unit), (inf if high is None else high * unit)

    def better(self, first: str, second: str, column: Column) -> Judged:
        """The first row against the second in a column; a positive difference is an improvement."""
        scores = self.scores.scores(self.metric, column)
        numbers = mean(scores, first), mean(scores, second)
        if not {first, second} <= set(scores.values.index):
            return Judged(first, second, numbers, UNKNOWN, (0.0, inf))
        comparison = scores.between(first, second)
        limits = self.limits(numbers[1], (0.0, inf))
        sign = 1.0 if self.claim.difference is not None else self.sign
        judged = Judged(first, second, numbers, comparison.negated if sign < 0 else comparison, limits, sign)
        return self.if_trained(judged, [(self.metric, column)])

    def if_trained(self, judged: Judged, metric_columns: Sequence[MetricColumn]) -> Judged:
        """A comparison, or that nothing can be known of it because its rows have learned too little there.

        Of accuracies and of rounds to a target one that has learned is enough; of a spread or a roughness, which is
        low for models that have learned nothing, all must have. What changes from column to column needs that in each.
        """
        names = [name for name in (judged.first, judged.second) if name not in ("", OTHERS)]
        low = all(metric in LOW_IS_GOOD and metric != "rounds" for metric, _ in metric_columns)
        learned: dict[Column, list[bool]] = {}
        for metric, column in metric_columns:
            learned.setdefault(column, []).extend(self.scores.learned(metric, column, name) for name in names)
        enough = all(map(all if low else any, learned.values()))
        return judged if enough else replace(judged, comparison=UNKNOWN, too_early=True)


def mean(scores: Scores, name: str) -> float:
    """The mean of a row; NaN where it has no number."""
    return scores.mean(name) if name in scores.values.index else float("nan")


def selected(scores: ClaimScores, names: Sequence[str]) -> list[list[Column]]:
    """The columns that each name means: data set, heterogeneity, both, or domain; each by itself without names."""
    if not names:
        return [[column] for column in scores.columns]
    return [[column for column in scores.columns if name in column_names(scores.results, column)] for name in names]


def within(claims: Claims) -> Iterator[Part]:
    """The row against all others: none may be better, or only so many that it is still among the best ones."""
    name, k = claims.claim.within or (str(claims.claim.leads), 1)
    for column in claims.columns:
        judged = [claims.better(name, other, column) for other in claims.rivals(name, column)]
        needed = len(judged) - k + 1  # none where there are no more rows than k
        known = needed > 0 and name in claims.scores.scores(claims.metric, column).values.index
        yield Part(claims.metric, (column,), judged, needed if known else None)


def last(claims: Claims) -> Iterator[Part]:
    """Every other row against this one."""
    name = str(claims.claim.last)
    for column in claims.columns:
        judged = [claims.better(other, name, column) for other in claims.rivals(name, column)]
        yield part(claims, (column,), judged)


def above(claims: Claims) -> Iterator[Part]:
    """Each row of the first group against each of the second."""
    first, second = claims.claim.above or claims.claim.difference or ([], [])
    for column in claims.columns:
        but = [name for group in (first, second) if group != ALL for name in claims.named(group, column)]
        groups = [claims.named(group, column, but) for group in (first, second)]
        planned = claims.scores.planned(claims.metric, column)
        pairs = [(a, b) for a in groups[0] for b in groups[1] if {a, b} <= set(planned)]
        yield part(claims, (column,), [claims.better(a, b, column) for a, b in pairs])


def part(claims: Claims, columns: tuple[Column, ...], judged: list[Judged]) -> Part:
    """A part of which all comparisons, or most, or a share of them, must be as claimed."""
    most = claims.claim.most
    needed = len(judged) // 2 + 1 if most is True else ceil((most or 1) * len(judged))
    return Part(claims.metric, columns, judged, needed if judged else None)


def changes(claims: Claims) -> Iterator[tuple[MetricColumn, MetricColumn]]:
    """The metric and column before and after every step: from a column to the next, or from metric to metric."""
    scores, metrics = claims.scores, claims.claim.metrics
    if metrics is not None:
        yield from (((metrics[0], column), (metrics[1], column)) for column in claims.columns)
        return
    for before, after in pairwise(selected(scores, claims.claim.columns)):
        yield from (((claims.metric, a), (claims.metric, b)) for a, b in counterparts(before, after))


def columns_of(metric_columns: Sequence[MetricColumn]) -> tuple[Column, ...]:
    """The columns, each once."""
    return tuple(dict.fromkeys(column for _, column in metric_columns))


def counterparts(before: Sequence[Column], after: Sequence[Column]) -> Iterator[tuple[Column, Column]]:
    """The pairs of columns of two groups that differ least from each other: in one of data, heterogeneity, domain."""
    differing = {(a, b): sum(x != y for x, y in zip(a, b, strict=True)) for a in before for b in after}
    fewest = min(differing.values(), default=0)
    yield from (pair for pair, number in differing.items() if number == fewest)


def moves(claims: Claims) -> Iterator[Part]:
    """Each row's change from step to step, upwards or downwards as claimed."""
    rows, sign = (claims.claim.rises, 1.0) if claims.claim.rises is not None else (claims.claim.falls, -1.0)
    for metric_columns in changes(claims):
        columns = columns_of(metric_columns)
        before, after = (claims.scores.scores(metric, column) for metric, column in metric_columns)
        change = after.minus(before) if sign > 0 else before.minus(after)
        names = claims.named(rows or [], columns[0])
        judged = []
        for name in names:
            numbers = mean(before, name), mean(after, name)
            comparison = change.of_row(name) if name in change.values.index else UNKNOWN
            moved = Judged(name, "", numbers, comparison, claims.limits(numbers[0], (0.0, inf)))
            judged.append(claims.if_trained(moved, metric_columns))
        yield part(claims, columns, judged)


def widens(claims: Claims) -> Iterator[Part]:
    """The change of a row's lead over each of the other ones from step to step."""
    claim = claims.claim
    first, group = claim.grows or claim.shrinks or ("", [])
    sign = claims.sign if claim.grows else -claims.sign
    for metric_columns in changes(claims):
        columns = columns_of(metric_columns)
        earlier, later = (claims.scores.scores(metric, column) for metric, column in metric_columns)
        before, after = best_other(claims, earlier, first, columns[0]), best_other(claims, later, first, columns[-1])
        change = after.minus(before) if sign > 0 else before.minus(after)
        judged = []
        for second in [OTHERS] if group == OTHERS else claims.named(group, columns[0], [first]):
            leads = [claims.sign * (mean(one, first) - mean(one, second)) for one in (before, after)]
            known = {first, second} <= set(change.values.index)
            comparison = change.between(first, second) if known else UNKNOWN
            limits = claims.limits(leads[0], (0.0, inf))
            lead = Judged(first, second, (leads[0], leads[1]), comparison, limits, of_leads=True)
            judged.append(claims.if_trained(lead, metric_columns))
        yield part(claims, columns, judged)


def best_other(claims: Claims, scores: Scores, name: str, column: Column) -> Scores:
    """The scores of a column with the row `OTHERS`: a copy of the best one but `name`."""
    others = [row for row in claims.rivals(name, column) if row in scores.values.index]
    return with_best(scores, others, claims.sign) if others else scores


def with_best(scores: Scores, rows: Sequence[str], sign: float = 1.0) -> Scores:
    """The scores of a column with the row `OTHERS`: a copy of the best of `rows`, the lowest for a `sign` below 0."""
    return scores.with_copy(max(rows, key=lambda row: sign * scores.mean(row)), OTHERS)


CHANGE_RULES: dict[str, Callable[[Claims], Iterator[Part]]]
CHANGE_RULES = {"rises": moves, "falls": moves, "grows": widens, "shrinks": widens}
"""Rules about what changes from column to column, or from metric to metric."""
RULES = {"leads": within, "last": last, "within": within, "above": above, "difference": above, **CHANGE_RULES}
TEXTS = {
    "leads": "the {metric} of {leads} is better than that of every other row",
    "last": "the {metric} of every other row is better than that of {last}",
    "within": "{within[0]} is among the best {within[1]} rows by {metric}",
    "above": "the {metric} of {above[0]} is better than that of {above[1]}",
    "difference": "the {metric} of {difference[0]} differs from that of {difference[1]}",
    "rises": "the {metric} of {rises} becomes higher",
    "falls": "the {metric} of {falls} becomes lower",
    "grows": "the lead of {grows[0]} over {grows[1]} in {metric} grows",
    "shrinks": "the lead of {shrinks[0]} over {shrinks[1]} in {metric} shrinks",
}
"""Rule → its words; the fields are those of the claim."""
BEST = "{within[0]} is the best row by {metric}"
