"""What a paper's main table shows, in a few sentences: what is reported of it, and which rows lead here."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

from fedgrid.analysis.papers.claim_scores import Measured, column_names
from fedgrid.analysis.papers.claims import CONFIRMED, INCONCLUSIVE, REFUTED, Verdict
from fedgrid.analysis.papers.overview import Overview
from fedgrid.analysis.prose.findings import in_order
from fedgrid.analysis.prose.phrases import all_of, listing, ordinal, spelled
from fedgrid.analysis.scores.comparisons import FEWEST_SEEDS
from fedgrid.analysis.scores.domains import AVERAGE, EVERY, Column
from fedgrid.analysis.scores.results import COLUMN, Results
from fedgrid.analysis.scores.summary import summary
from fedgrid.grid.study.claim import Claim

ACCURACY = "accuracy"
OF_ALL = (EVERY, AVERAGE)
"""Domains of columns that are of all clients."""
MOST_LEADS = 6
"""Columns up to which each lead is named by itself; of more, those that are not significant are counted."""
OUTCOMES = {
    CONFIRMED: "So the claim is confirmed.",
    REFUTED: "In at least one column {row} is significantly behind another row, so the claim is refuted.",
    INCONCLUSIVE: "So the claim is neither confirmed nor refuted.",
}
"""Verdict → what it means for the claim that a row leads."""


@dataclass(frozen=True)
class Lead:
    """The best row of a column, and by how many points it is above the second."""

    row: str
    column: str
    points: float
    significant: bool


def main_experiment(overviews: Sequence[Overview]) -> Overview | None:
    """The first experiment with results that shows a table of accuracies; None where there is none.

    One of which the paper claims that a row leads is preferred: other tables may be about a preliminary question.
    """
    shown = [one for one in overviews if one.finished and one.results and _shows_accuracy(one.results)]
    return next((one for one in shown if _claim_of_leads(one)[0]), next(iter(shown), None))


def _shows_accuracy(results: Results) -> bool:
    return results.study.show is None or any(table.kind == ACCURACY for table in results.study.shown("table"))


def finding(overview: Overview) -> str:
    """What the paper reports of this experiment, and which rows lead here."""
    results = overview.results
    assert results is not None
    measured = Measured(results)
    domains = measured.domains
    columns = [column for column in measured.columns if column[2] in OF_ALL]
    table = summary(results, domains)
    ranked = [_ranked(table, column) for column in columns]
    claim, verdict = _claim_of_leads(overview)
    best = list(_printed_best(measured).values())
    winner = claim.leads if claim else max(best, key=best.count, default=None)
    sentences = [reported_lead_sentence(measured, overview.source, columns, winner, claim)] if winner else []
    sentences.append(measured_lead_sentence(results, columns, ranked, winner))
    seeds = len(results.study.seeds)
    if seeds < FEWEST_SEEDS:
        sentences.append(f"A significant lead needs {spelled(FEWEST_SEEDS)} seeds; this run has {spelled(seeds)}.")
    if verdict and verdict.verdict in OUTCOMES:
        sentences.append(OUTCOMES[verdict.verdict].format(row=winner))
    return " ".join(sentences)


def _ranked(table: pd.DataFrame, column: Column) -> pd.DataFrame:
    return in_order(table[(table[[*COLUMN, "domain"]] == list(column)).all(axis=1)])


def _claim_of_leads(overview: Overview) -> tuple[Claim | None, Verdict | None]:
    """The first claim that a row leads in accuracy, and its verdict."""
    assert overview.results is not None
    pairs = zip(overview.results.study.claims, overview.verdicts, strict=False)
    return next(
        ((claim, verdict) for claim, verdict in pairs if claim.leads and claim.metric == ACCURACY), (None, None)
    )


def _printed_best(measured: Measured) -> dict[Column, str]:
    """The row that is printed as the best of each column with accuracies of all clients."""
    if measured.printed is None:
        return {}
    numbers = {column: measured.printed.numbers.get((ACCURACY, column)) for column in measured.printed.columns}
    return {column: max(rows, key=rows.__getitem__) for column, rows in numbers.items() if rows and column[2] in OF_ALL}


def reported_lead_sentence(
    measured: Measured, source: str, columns: list[Column], winner: str, claim: Claim | None
) -> str:
    """What the paper says of the row that it claims, or prints, to lead."""
    best = _printed_best(measured)
    known = list(best) or columns
    if claim:
        named = set(claim.columns)
        claimed = [column for column in known if not named or column_names(measured.results, column) & named]
    else:
        claimed = [column for column in known if best.get(column) == winner]
    table = re.split(r",| \(", source)[0]
    if not claimed or len(known) == 1:
        return f"{winner} is reported to lead{f' in {table}' if table else ''}."
    where = all_of(len(claimed), len(known), "column")
    return f"{winner} is reported to lead {where}{f' of {table}' if table else ''}."


def measured_lead_sentence(
    results: Results, columns: list[Column], ranked: list[pd.DataFrame], winner: str | None
) -> str:
    """Which rows lead here, by how much, and where the row that is reported to lead stands."""
    open_columns = [column for column, table in zip(columns, ranked, strict=True) if len(table) < 2]
    leads = [lead for column, table in zip(columns, ranked, strict=True) if (lead := _lead(results, column, table))]
    ties = len(columns) - len(leads) - len(open_columns)
    parts = [*_named(leads)] if leads else ["no row leads"] * (not open_columns)
    parts += [f"in {all_of(ties, len(columns), 'column')} several rows share the first place"] * bool(ties)
    if open_columns:
        verb = "has" if len(open_columns) == 1 else "have"
        parts.append(f"{all_of(len(open_columns), len(columns), 'column')} {verb} too few results to compare")
    parts += _place_of(results, ranked, leads, winner) if winner else []
    return f"Here {'; '.join(parts)}."


def _lead(results: Results, column: Column, table: pd.DataFrame) -> Lead | None:
    """The lead of one column; None where there is no second row, or where two share the first place."""
    if len(table) < 2 or table["rank"].iloc[1] == 1:
        return None
    data, heterogeneity, domain = column
    name = results.title(data) + f" ({results.heterogeneity_title(heterogeneity)})"
    if domain == AVERAGE:
        name += " on average over domains"
    points = 100 * float(table["accuracy"].iloc[0] - table["accuracy"].iloc[1])
    return Lead(results.names[table["label"].iloc[0]], name, points, bool(table["supported"].any()))


def _named(leads: Sequence[Lead]) -> Iterator[str]:
    """The leads by row, those that are significant first; of many columns, the others are counted."""
    significant = [lead for lead in leads if lead.significant]
    others = [lead for lead in leads if not lead.significant]
    for row, of_row in _by_row(significant):
        each = {1: "", 2: "both "}.get(len(of_row), "all ")
        yield f"{row} leads {_margins(of_row)} ({each}significant)"
    if not others:
        return
    if len(leads) > MOST_LEADS:
        number = f"{'the other ' if significant else ''}{spelled(len(others))} column{'s' if len(others) > 1 else ''}"
        yield f"in {number} no lead is significant: {listing(_ahead(row, of_row) for row, of_row in _by_row(others))}"
        return
    ahead = [f"{row} is ahead on {_margins(of_row)}" for row, of_row in _by_row(others)]
    rest = "the other lead is not" if len(others) == 1 else "the other leads are not"
    yield f"{rest if significant else 'no lead is'} significant: {', '.join(ahead)}"


def _by_row(leads: Sequence[Lead]) -> list[tuple[str, list[Lead]]]:
    return [(row, [lead for lead in leads if lead.row == row]) for row in dict.fromkeys(lead.row for lead in leads)]


def _margins(leads: Sequence[Lead]) -> str:
    return listing(f"{one.column} by {one.points:.2f} points" for one in leads)


def _ahead(row: str, leads: Sequence[Lead]) -> str:
    points = sorted(lead.points for lead in leads)
    span = f"{points[0]:.2f}" if len(points) == 1 else f"{points[0]:.2f} to {points[-1]:.2f}"
    return f"{row} is ahead in {spelled(len(leads))} (by {span} points)"


def _place_of(results: Results, ranked: list[pd.DataFrame], leads: Sequence[Lead], winner: str) -> Iterator[str]:
    """Where the row stands that is reported to lead, if it leads nowhere."""
    if any(lead.row == winner for lead in leads):
        return
    ranks = [int(rank) for table in ranked for rank in table.loc[table["label"].map(results.names) == winner, "rank"]]
    if not ranks:
        yield f"{winner} has no result to compare"
        return
    low, high = min(ranks), max(ranks)
    of_all = max(len(table) for table in ranked)
    span = ordinal(low) if low == high else f"{ordinal(low)} to {ordinal(high)}"
    yield f"{winner} leads no column and is {span} of {of_all} rows"
