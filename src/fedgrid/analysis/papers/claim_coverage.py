"""What a claim is about and a run lacks: a claim is confirmed by all of its comparisons, not by those that were run."""

from dataclasses import replace
from typing import Any

from fedgrid.analysis.papers.claim_scores import Measured, column_names
from fedgrid.grid.study.claim import ALL, OTHERS, Claim
from fedgrid.quantities import counted


def missing_named(measured: Measured, claim: Claim) -> list[str]:
    """The rows and columns that a claim names and this run does not have."""
    rows = [name for name in claim.named_rows if name not in measured.rows]
    known = set().union(*(column_names(measured.results, column) for column in measured.columns))
    return rows + [name for name in claim.columns if name not in known]


def missing_printed(measured: Measured, claim: Claim) -> list[str]:
    """How many columns and rows the paper prints and this run lacks, for a claim about every column or every row."""
    printed = measured.printed
    if printed is None:
        return []
    metrics = [claim.metric] if isinstance(claim.metric, str) else claim.metric
    metrics = [*metrics, *(claim.metrics or ())]
    columns = set() if claim.columns else printed.columns_not_run
    rows = {name for metric in metrics for name in printed.printed_rows(metric)} if about_every_row(claim) else set()
    numbers = {"printed column": len(columns), "printed row": len(rows.difference(measured.rows))}
    return [counted(number, noun) for noun, number in numbers.items() if number]


def about_every_row(claim: Claim) -> bool:
    """Whether a claim compares with rows that it does not name."""
    every = claim.rule in ("leads", "last", "within") or any(group in (ALL, OTHERS) for group in arguments(claim))
    return every and not claim.rows


def arguments(claim: Claim) -> tuple[Any, ...]:
    """What the rule of a claim is about, one entry or two: rows, lists of rows, or a number of the best rows."""
    value = getattr(claim, claim.rule) if claim.rule else ()
    return value if isinstance(value, tuple) else (value,)


def without(claim: Claim, missing: list[str]) -> Claim:
    """A claim without rows and columns that this run does not have; without a rule where nothing is left of it."""
    if not missing:
        return claim
    columns = [name for name in claim.columns if name not in missing]
    left = tuple(
        [name for name in group if name not in missing] if isinstance(group, list) else group
        for group in arguments(claim)
    )
    left_over: Any = left if len(left) > 1 else left[0]
    if (claim.columns and not columns) or any(group == [] or group in missing for group in left):
        left_over = None
    changes: dict[str, Any] = {str(claim.rule): left_over, "columns": columns}
    return replace(claim, **changes)


def decided_without(claim: Claim, refuted: bool) -> bool:
    """Whether what was compared settles a claim although a part of it was not: one comparison refutes, none confirms.

    What most comparisons show, and which of the other rows is the best, may change with those that were not made.
    """
    return refuted and not claim.most and OTHERS not in arguments(claim)
