"""Many differences at once: p-values adjusted for their number, and which rows the seeds can tell apart."""

from collections.abc import Collection, Iterable, Sequence
from itertools import combinations
from math import isnan, nan

from fedgrid.analysis.scores.comparisons import LEVEL, Scores


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values adjusted for their number; those that could not be tested, NaN, count and stay so.

    Holm, A simple sequentially rejective multiple test procedure, Scand. J. Statist. 6 (1979).
    """
    order = sorted((i for i, p in enumerate(p_values) if not isnan(p)), key=lambda i: p_values[i])
    adjusted, largest = [nan] * len(p_values), 0.0
    for smaller, i in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - smaller) * p_values[i]))
        adjusted[i] = largest
    return adjusted


def told_apart(scores: Scores) -> list[tuple[str, str]]:
    """The pairs of rows of a column whose difference is significant among all pairs, the better row first."""
    rows = sorted(scores.values.index, key=scores.mean, reverse=True)
    pairs = list(combinations(rows, 2))
    adjusted = holm([scores.between(*pair).p_two_sided for pair in pairs])
    return [pair for pair, p in zip(pairs, adjusted, strict=True) if p <= LEVEL]


def groups(rows: Sequence[str], apart: Iterable[tuple[str, str]]) -> list[list[str]]:
    """The largest groups of `rows` of which no two are told `apart`, each in their order, first rows first.

    What Piepho (An algorithm for a letter-based representation of all-pairwise comparisons, J. Comput. Graph. Stat. 13,
    2004) has a letter for: rows that share no group differ, and rows that do not differ share one.
    """
    largest = [frozenset(rows)]
    for pair in apart:
        parts = [part for group in largest for part in _without_pair(group, pair)]
        largest = [part for part in dict.fromkeys(parts) if not any(part < other for other in parts)]
    positions = sorted(sorted(rows.index(row) for row in group) for group in largest)
    return [[rows[position] for position in group] for group in positions]


def _without_pair(group: frozenset[str], pair: Collection[str]) -> list[frozenset[str]]:
    """The group, or its two largest parts that do not have both of a pair."""
    return [group - {row} for row in pair] if group.issuperset(pair) else [group]
