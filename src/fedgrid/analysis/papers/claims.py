"""What a paper claims of an experiment, held against our results and against the numbers that it prints itself."""

from dataclasses import dataclass, field
from math import isnan

import pandas as pd

from fedgrid.analysis.papers.claim_coverage import decided_without, missing_named, missing_printed, without
from fedgrid.analysis.papers.claim_scores import AT, EXACT, PHRASES, UNITS, ClaimScores, Measured
from fedgrid.analysis.papers.rules import BEST, CHANGE_RULES, TEXTS, Judged, Part, parts
from fedgrid.analysis.prose import captions
from fedgrid.analysis.prose.phrases import decimals, listing
from fedgrid.analysis.scores.comparisons import FEWEST_SEEDS, LEVEL, Comparison, Exact
from fedgrid.analysis.scores.results import Results
from fedgrid.analysis.tables.common.grid import Entry, Grid
from fedgrid.analysis.tables.common.pivot import column_name
from fedgrid.grid.study.claim import ALL, OTHERS, Claim
from fedgrid.quantities import counted

CONFIRMED, REFUTED, INCONCLUSIVE, UNCHECKED = "confirmed", "refuted", "inconclusive", "unchecked"
PROSE = "no rule can check this sentence"
MISSING, FEW_SEEDS, SMALL = "results are missing", "fewer than three seeds", "differences too small for these seeds"
TOO_EARLY = "training too short to tell"
"""Why a claim is inconclusive."""
STATISTICS = (
    f"Confirmed: every comparison is significant (one-sided moderated t-test over common seeds, {100 * LEVEL:g} %). "
    "Refuted: one is significantly against the claim after Bonferroni’s correction for all comparisons. Fewer than "
    f"{FEWEST_SEEDS} seeds decide nothing. Differences are positive in the direction that is claimed."
)


@dataclass(frozen=True)
class ColumnVerdict:
    """The outcome of a claim in one column, and the numbers that decided, as a sentence."""

    column: str
    verdict: str
    numbers: str


@dataclass(frozen=True)
class Verdict:
    """The outcome of one claim: its text, the verdict, the rule as a sentence, and what decided by column.

    `contradicted` are the columns in which the numbers that the paper prints violate the rule themselves.
    """

    says: str
    verdict: str
    rule: str
    columns: list[ColumnVerdict] = field(default_factory=list)
    contradicted: list[str] = field(default_factory=list)
    why: str = ""
    "What an inconclusive verdict lacks."

    @property
    def compared(self) -> list[ColumnVerdict]:
        """The columns in which something was compared."""
        return [column for column in self.columns if column.column]

    @property
    def numbers(self) -> list[str]:
        """One sentence a column, and one on the paper's own numbers."""
        sentences = [f"{one.column}: {one.numbers}" if one.column else one.numbers for one in self.columns]
        if self.contradicted:
            sentences.append(f"The paper's own numbers violate this in {listing(self.contradicted)}")
        return sentences


def verdicts(results: Results) -> list[Verdict]:
    """A verdict on each of the study's claims."""
    if not results.study.claims:
        return []
    measured = Measured(results)
    return [verdict(measured, claim) for claim in results.study.claims]


def claims(results: Results) -> tuple[pd.DataFrame, Grid]:
    """One row a claim with its verdict, the rule and the numbers that decided, and the table to print.

    `columns` were compared; `columns_alike` of them have, each by itself, the verdict of the claim.
    """
    checked = verdicts(results)
    rows = [(claim.says, [Entry(claim.verdict), Entry("; ".join(claim.numbers) or claim.rule)]) for claim in checked]
    caption = f"{captions.lead(results)}: claims of the paper. {STATISTICS}"
    table = [
        {
            **{name: getattr(one, name) for name in ("says", "verdict", "why", "rule")},
            "columns": len(one.compared),
            "columns_alike": sum(column.verdict == one.verdict for column in one.compared),
            "numbers": "; ".join(one.numbers),
            "contradicted": "; ".join(one.contradicted),
        }
        for one in checked
    ]
    header = [[("Verdict", 1), ("Numbers", 1)]]
    return pd.DataFrame(table), Grid(caption, "Claim", header, rows, textual=True)


def verdict(measured: Measured, claim: Claim) -> Verdict:
    """The verdict on one claim."""
    if claim.rule is None:
        return Verdict(claim.says, UNCHECKED, PROSE)
    rule = rule_text(claim)
    missing_names = missing_named(measured, claim)
    missing = missing_names + missing_printed(measured, claim)
    against = contradicted(measured, claim)
    claim = without(claim, missing_names)
    compared = parts(measured, claim) if claim.rule else []
    columns = []
    for part in compared:
        name = part_name(measured, part) + (f" ({phrase(part.metric)})" if isinstance(claim.metric, list) else "")
        columns.append(ColumnVerdict(name, outcome([part]), numbers(measured, part)))
    of_compared = outcome(compared)
    columns.sort(key=lambda column: column.verdict != of_compared)
    if missing:
        columns.append(ColumnVerdict("", INCONCLUSIVE, f"not part of this run: {listing(missing)}"))
    decided = not missing or decided_without(claim, of_compared == REFUTED)
    why = why_open(compared) or ("" if decided else MISSING)
    return Verdict(claim.says, of_compared if decided else INCONCLUSIVE, rule, columns, against, why)


def outcome(compared: list[Part]) -> str:
    """Confirmed if every column is, refuted if one is after correction for their number, else inconclusive."""
    if compared and all(part.p_for <= LEVEL for part in compared):
        return CONFIRMED
    if compared and len(compared) * min(part.p_against for part in compared) <= LEVEL:
        return REFUTED
    return INCONCLUSIVE


def why_open(compared: list[Part]) -> str:
    """What the comparisons of an inconclusive claim lack; empty for another verdict."""
    if outcome(compared) != INCONCLUSIVE:
        return ""
    judged = [one for part in compared for one in part.judged]
    if any(part.judged and all(one.too_early for one in part.judged) for part in compared):
        return TOO_EARLY
    known = [one.comparison for one in judged if not one.too_early]
    if not known or any(part.needed is None for part in compared) or any(isnan(one.difference) for one in known):
        return MISSING
    if any(one.seeds < FEWEST_SEEDS and not isinstance(one, Exact) for one in known):
        return FEW_SEEDS
    return TOO_EARLY if len(known) < len(judged) else SMALL


def contradicted(measured: Measured, claim: Claim) -> list[str]:
    """The columns in which the paper's own numbers violate a rule."""
    compared = parts(measured.printed, claim) if measured.printed else []
    return [part_name(measured, part) for part in compared if outcome([part]) == REFUTED]


def rule_text(claim: Claim) -> str:
    """The rule in a sentence."""
    metrics = claim.metric if isinstance(claim.metric, list) else [claim.metric]
    every = "all rows" if claim.rule in ("rises", "falls") else "all other rows"
    of_claim = {name: spoken(getattr(claim, name), every) for name in TEXTS}
    text = BEST if claim.within is not None and claim.within[1] == 1 else TEXTS[claim.rule or ""]
    parts = [text.format(**of_claim, metric=listing(map(phrase, metrics)))]
    if claim.by is not None:
        parts.append(limits_text(claim))
    if claim.metrics is not None:
        parts.append(f"from {phrase(claim.metrics[0])} to {phrase(claim.metrics[1])}")
    if claim.rule in CHANGE_RULES and claim.metrics is None:
        parts.append(f"from {' to '.join(claim.columns) if claim.columns else 'each column to the next'}")
    else:
        parts.append(f"in {listing(claim.columns) if claim.columns else 'every column'}")
    share = "most" if claim.most is True else f"at least {100 * claim.most:g} % of the"
    most = f", in {share} comparisons" if claim.most else ""
    among = f" Rows that take part: {listing(claim.rows)}." if claim.rows else ""
    return f"{' '.join(parts)}{most}.{among}"


def spoken(value: object, every: str) -> object:
    """Rows as words, of which `every` stands for all; a pair stays a pair."""
    if isinstance(value, tuple):
        return [spoken(part, every) for part in value]
    if isinstance(value, list):
        return listing(value)
    return {ALL: every, OTHERS: "the best other row"}.get(value, value) if isinstance(value, str) else value


def phrase(metric: str) -> str:
    """A metric in words."""
    share = metric.removeprefix(AT)
    return PHRASES.get(metric, metric) if share == metric else f"accuracy after {100 * float(share):g} % of the rounds"


def limits_text(claim: Claim) -> str:
    """The claimed size of a difference."""
    assert claim.by is not None
    low, high = claim.by
    limits = [f"{limit:g}" for limit in claim.by if limit is not None]
    unit = "%" if claim.unit == "percent" else "point" if limits == ["1"] else "points"
    bound = "at most " if low is None else "at least " if high is None else ""
    return f"by {bound}{' to '.join(limits)} {unit}".replace("-", "−")


def part_name(scores: ClaimScores, part: Part) -> str:
    """The columns of a part in words."""
    return " → ".join(dict.fromkeys(column_name(scores.results, *column) for column in part.columns))


def numbers(measured: Measured, part: Part) -> str:
    """The comparison that stands furthest against the claim, and what it would take to know more."""
    decisive = part.decisive
    if decisive is None:
        return "nothing to compare with"
    unknown = decisive.unknown
    if unknown:
        return f"no final number for {listing(unknown)}"
    unit = UNITS.get(part.metric, "points")
    several = f", the deciding one of {len(part.judged)} comparisons" if len(part.judged) > 1 else ""
    compared = compared_numbers(measured, decisive, part.metric)
    if decisive.too_early:
        return f"{compared}: {'not reached' if part.metric == 'rounds' else 'barely trained models'}{several}"
    sentence = f"{compared}: {difference(decisive.comparison, unit)}{several}"
    waiting = list(dict.fromkeys(name for one in part.judged for name in one.unknown))
    if waiting:
        return f"{sentence}, no final number for {listing(waiting)}"
    if part.metric in EXACT or outcome([part]) != INCONCLUSIVE:
        return sentence
    return f"{sentence}, {resolution(measured, part, decisive, unit)}" if decisive.comparison.testable else sentence


def compared_numbers(measured: Measured, judged: Judged, metric: str) -> str:
    """The two numbers of a comparison with what they are of; more than all rounds where no seed reached a target."""
    rounds = metric == "rounds" and not judged.of_leads
    a, b = (
        f">{measured.last_round}" if rounds and value > measured.last_round else decimals(value)
        for value in judged.numbers
    )
    if not judged.second:
        return f"{judged.first} {a} → {b}"
    if judged.of_leads:
        return f"{judged.first} over {judged.second} {a} → {b}"
    return f"{judged.first} {a}, {judged.second} {b}"


def difference(comparison: Comparison, unit: str) -> str:
    """A difference with its interval and its seeds."""
    text = f"{decimals(comparison.difference, signed=True)} {unit}"
    if not comparison.seeds:
        return text
    low, high = (decimals(limit, signed=True) for limit in comparison.interval())
    interval = f"{100 * (1 - LEVEL):g} % CI {low} to {high}, " if comparison.testable else ""
    return f"{text} ({interval}{counted(comparison.seeds, 'seed')})"


def resolution(measured: Measured, part: Part, judged: Judged, unit: str) -> str:
    """What this run could have detected, beside what the paper prints and how many seeds that would take."""
    comparison = judged.comparison
    sentence = f"smallest detectable difference {decimals(comparison.smallest_detectable_difference)} {unit}"
    printed = measured.printed
    if printed is None or len(part.columns) > 1 or not judged.second:
        return sentence
    scores = printed.scores(part.metric, part.columns[0])
    if not {judged.first, judged.second} <= set(scores.values.index):
        return sentence
    margin = judged.sign * (scores.mean(judged.first) - scores.mean(judged.second))
    seeds, text = comparison.seeds_to_detect(margin), decimals(margin, signed=True)
    if seeds and seeds > comparison.seeds:
        return f"{sentence} (the printed {text} would take {counted(seeds, 'seed')})"
    return f"{sentence} (printed: {text})"
