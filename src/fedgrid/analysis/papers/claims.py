"""What a paper claims of an experiment, held against our results."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import cache
from itertools import pairwise
from math import hypot

import numpy as np
import pandas as pd

from fedgrid.analysis.papers.published import column_of, joined
from fedgrid.analysis.prose import captions
from fedgrid.analysis.prose.phrases import percent
from fedgrid.analysis.scores.domains import Column
from fedgrid.analysis.scores.leads import ROUNDING
from fedgrid.analysis.scores.resolution import CHANCE_SENTENCE, Chance
from fedgrid.analysis.scores.results import Results
from fedgrid.analysis.tables.attacks import METRIC, WORDS, of_images, results_under_attack
from fedgrid.analysis.tables.grid import Entry, Grid
from fedgrid.analysis.tables.pivot import NAMES, Pivot, pivot, points
from fedgrid.grid.plan.manifest_model import Claim

CONFIRMED, REFUTED, INCONCLUSIVE = "holds", "does not hold", "cannot be told"
BETTER = {
    **{"accuracy": ("accuracy", 1.0), "std_clients": ("std over clients, where low is good,", -1.0)},
    **{name + METRIC: (f"accuracy ({words})", 1.0) for name, words in WORDS.items()},
}
"""Metric → its words in a rule, and the sign of a difference that is an improvement."""
SETTLED = ("ok", "diverged", "unscored", "missing")
"""Statuses of entries that will stay as they are; "missing" is what was never planned."""
PROSE = "No rule can check this sentence."
PRINTED = "Where the paper prints numbers, only the rows that it prints count."
OPEN = float("nan")
"""Margin of an inconclusive column."""


@dataclass(frozen=True)
class Verdict:
    """The outcome of one claim: its text, the verdict, the rule as a sentence, and the numbers that decided."""

    says: str
    verdict: str
    rule: str
    numbers: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Margin:
    """By how much a claim is true in one column, as a fraction, below zero where it is false; the column in words."""

    value: float
    text: str
    smallest: float = 0.0
    "The smallest difference that chance does not explain."


def verdicts(results: Results) -> list[Verdict]:
    """A verdict on each of the study's claims, over the columns of its accuracy table."""
    if not results.study.claims:
        return []
    domains = any(table.options.get("domains") for table in results.study.shown("table") if table.kind == "accuracy")

    @cache
    def measured_on(images: str) -> tuple[Pivot, Chance]:
        under_attack = results_under_attack(results, images)
        return pivot(under_attack, domains), Chance(under_attack, domains)

    @cache
    def numbers_of(metric: str) -> Numbers:
        return Numbers(results, metric, *measured_on(of_images(metric)[0]))

    return [verdict(numbers_of, claim) for claim in results.study.claims]


def claims(results: Results) -> tuple[pd.DataFrame, Grid]:
    """One row a claim with its verdict, the rule and the numbers that decided, and the table to print."""
    checked = verdicts(results)
    rows = [(claim.says, [Entry(claim.verdict), Entry("; ".join(claim.numbers) or claim.rule)]) for claim in checked]
    caption = f"{captions.lead(results)}: claims of the paper. {CHANCE_SENTENCE}"
    grid = Grid(caption, "Claim", [[("Verdict", 1), ("Numbers", 1)]], rows, textual=True)
    return pd.DataFrame([asdict(claim) | {"numbers": "; ".join(claim.numbers)} for claim in checked]), grid


def verdict(numbers_of: Callable[[str], "Numbers"], claim: Claim) -> Verdict:
    """The verdict on one claim: one refuting column decides, and an inconclusive one leaves the claim open."""
    if claim.rule is None:
        return Verdict(claim.says, INCONCLUSIVE, PROSE)
    kind, arguments = claim.rule
    numbers = numbers_of(claim.metric)
    template, margins_of = RULES[kind]
    remarks = [PRINTED] if numbers.printed and kind in RANKED else []
    rule = " ".join([template.format(*arguments, metric=numbers.metric_text), *remarks, CHANCE_SENTENCE])
    absent = [name for name in arguments if isinstance(name, str) and name not in numbers.labels]
    if absent:
        return Verdict(claim.says, INCONCLUSIVE, rule, [f"There is no row {name} here." for name in absent])
    margins = margins_of(numbers, *arguments)
    decisions = {column_says(margin) for margin in margins}
    outcome = (
        REFUTED if REFUTED in decisions else INCONCLUSIVE if INCONCLUSIVE in decisions or not decisions else CONFIRMED
    )
    return Verdict(claim.says, outcome, rule, [margin.text for margin in margins])


def column_says(margin: Margin) -> str:
    """The verdict of one column."""
    if np.isnan(margin.value) or abs(margin.value) < margin.smallest:
        return INCONCLUSIVE
    return CONFIRMED if margin.value > 0 else REFUTED


class Numbers:
    """The values of one metric by row and column, and how far they are final.

    `found` is on the metric's images, and so is `chance`.
    """

    def __init__(self, results: Results, metric: str, pivoted: Pivot, chance: Chance):
        self.metric_text, self.sign = BETTER[metric]
        self.results, self.columns = results, pivoted.columns
        self.labels = {name: label for label, name in pivoted.rows.items()}
        self.metric = of_images(metric)[1]
        self.values: dict[tuple[str, ...], float] = (
            pivoted.table[self.metric].where(pivoted.table["status"] == "ok").to_dict()
        )
        self.status = pivoted.table["status"].to_dict()
        self.chance = chance
        self.printed = printed_rows(results, metric)

    def of(self, name: str, column: Column) -> float:
        """The value of a row; NaN where not every seed came to its end."""
        return self.values[self.labels[name], *column]

    def lead(self, first: str, second: str, column: Column) -> float:
        """By how much one row is better than another; 0 where rounding alone tells them apart."""
        value = self.sign * (self.of(first, column) - self.of(second, column))
        return 0.0 if abs(value) < ROUNDING else value

    def margin(self, value: float, text: str, column: Column, smallest: float = 0.0) -> Margin:
        """The margin of a column, in words that begin with its name."""
        data, heterogeneity, domain = column
        parts = [self.results.title(data), self.results.heterogeneity_title(heterogeneity), NAMES.get(domain, domain)]
        return Margin(value, f"{', '.join(filter(None, parts))}: {text}", smallest)

    def pair(self, first: str, second: str, column: Column) -> Margin:
        """The margin of one row over another."""
        a, b = self.of(first, column), self.of(second, column)
        value = self.lead(first, second, column)
        smallest = self.chance.smallest_detectable_difference(
            self.labels[first], self.labels[second], column, self.metric
        )
        difference = f"{points(a - b)} ± {percent(smallest)}" if not np.isnan(value) else points(a - b)
        text = f"{first} {percent(a)}, {second} {percent(b)}, difference {difference}"
        return self.margin(value, text, column, smallest)

    def planned(self, column: Column, *names: str) -> bool:
        """Whether all these rows have cells in a column."""
        return all(self.status[self.labels[name], *column] != "missing" for name in names)

    def rivals(self, name: str, column: Column) -> list[str]:
        """The rows with which one competes in a column: those that the paper prints there, or else all."""
        others = [other for other in self.labels if other != name]
        return [other for other in others if other in self.printed.get(column, ())] or others

    def margin_to_rank(self, name: str, last: int, column: Column) -> Margin:
        """How a row stands against the one that would take the place `last` from it; to share a place will do."""
        value = self.of(name, column)
        if np.isnan(value):
            return self.margin(OPEN, f"{name} has no final number", column)
        rivals = self.rivals(name, column)
        others = [other for other in rivals if not np.isnan(self.of(other, column))]
        others.sort(key=lambda other: self.lead(name, other, column))
        final = all(self.status[self.labels[other], *column] in SETTLED for other in rivals)
        if len(others) < last:
            return self.margin(np.inf if final else OPEN, f"{name} {percent(value)}, {len(others)} others", column)
        margin = self.pair(name, others[last - 1], column)
        if margin.value < 0 or final:
            return margin
        return Margin(OPEN, f"{margin.text}, but not all rows are finished", margin.smallest)


def leads(numbers: Numbers, name: str) -> list[Margin]:
    """The row against the best other one, in every column."""
    return [numbers.margin_to_rank(name, 1, column) for column in numbers.columns]


def above(numbers: Numbers, first: str, second: str) -> list[Margin]:
    """The first row against the second, in every column that was planned for both."""
    return [numbers.pair(first, second, column) for column in numbers.columns if numbers.planned(column, first, second)]


def within(numbers: Numbers, name: str, last: int) -> list[Margin]:
    """The row against the one behind which its rank would be too high, in every column."""
    return [numbers.margin_to_rank(name, last, column) for column in numbers.columns]


def grows(numbers: Numbers, first: str, second: str) -> list[Margin]:
    """The difference of the two rows in each column against that in the column before."""
    margins = above(numbers, first, second)
    steps = [
        Margin(larger.value - smaller.value, larger.text, hypot(smaller.smallest, larger.smallest))
        for smaller, larger in pairwise(margins)
    ]
    return (
        [Margin(steps[0].value, f"{margins[0].text}; {steps[0].text}", steps[0].smallest), *steps[1:]] if steps else []
    )


RULES: dict[str, tuple[str, Callable[..., list[Margin]]]] = {
    "leads": ("{0} has the best {metric} of all rows in every column, alone.", leads),
    "above": ("{0} has better {metric} than {1} in every column of both.", above),
    "within": ("By {metric} the rank of {0} is at most {1} in every column.", within),
    "grows": ("The lead of {0} over {1} in {metric} grows from each column to the next, as they stand.", grows),
}
"""Key of a claim → its rule in words, and the margins that decide."""
RANKED = ("leads", "within")
"""Rules by which a row competes with all others."""


def printed_rows(results: Results, metric: str) -> dict[Column, set[str]]:
    """By column, the rows of which the paper prints this metric, as far as they and the column are ours too."""
    rows_of: dict[Column, set[str]] = {}
    if results.published:
        table = joined(results)
        for entry in table[(table["unjoined"] == "") & (table["metric"] == metric)].to_dict("records"):
            rows_of.setdefault(column_of(entry)[:3], set()).add(entry["row"])
    return rows_of
