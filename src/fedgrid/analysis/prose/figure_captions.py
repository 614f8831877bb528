"""What figures say about themselves: sentences that several kinds of them share, generated from the study."""

from collections.abc import Collection
from dataclasses import replace

import pandas as pd

from fedgrid.analysis.prose.captions import scored_at, seeds, varied
from fedgrid.analysis.prose.phrases import listing
from fedgrid.analysis.scores.points import accuracies
from fedgrid.analysis.scores.results import CELL, SAMPLE, Results
from fedgrid.analysis.scores.summary import NOTHING_YET, SCORED


def in_two(short: list[str], protocol: list[str]) -> str:
    """A figure's caption in two paragraphs; the page, which has the protocol elsewhere, shows the first one alone."""
    return f"{' '.join(short)}\n\n{' '.join(protocol)}"


def scored_on(results: Results, data: str) -> str:
    """At which point of a round the cells of data set `data` are scored."""
    return scored_at(results, [cell for cell in results.finished if cell.data == data])


def sampled(results: Results, data: str) -> list[str]:
    """Whose models are scored between evaluations of all clients, where some are."""
    sample = replace(results, rows=results.rows[results.rows["data"] == data], clients=SAMPLE)
    metrics = list(sample.score_metrics("test").values())
    if not metrics:
        return []
    rows = accuracies(sample, metrics, "test")
    sizes = rows.groupby(CELL)["client"].nunique()
    number = " to ".join(map(str, sorted({sizes.min(), sizes.max()})))
    return [f"Between evaluations of all clients: mean over {number} of them, the same ones throughout."]


def marks(results: Results, what: str) -> str:
    """What marks of each row are, such as ``Bars``, and their whiskers; it has no full stop."""
    if len(results.study.seeds) == 1:
        return f"{what}: {seeds(results)}"
    return f"{what}: mean over {seeds(results)}; whiskers: from the lowest to the highest seed ({varied(results)})"


def lines(results: Results, drawn: Collection[str], has_bands: bool) -> str:
    """What lines and bands are, where the rows `drawn` have a line."""
    many = len(results.study.seeds) > 1
    bands = f"; bands: from the lowest to the highest seed ({varied(results)})" if many and has_bands else ""
    names = [results.names[label] for label in thick(results, drawn)]
    named = f"; thick: {listing(names)}" if names else ""
    return f"Lines: {'mean over ' if many else ''}{seeds(results)}{bands}{named}."


def with_scores(entries: pd.DataFrame) -> set[str]:
    """The rows with a score in at least one of the `entries` (rows of `measured.statuses`)."""
    return set(entries.loc[entries["status"].isin(SCORED), "label"])


def thick(results: Results, drawn: Collection[str]) -> list[str]:
    """The rows `drawn` that the paper claims to lead in accuracy; where it claims nothing, the user's own."""
    return [label for label in claimed(results) or results.own if label in drawn]


def claimed(results: Results) -> list[str]:
    """The rows that the paper claims to lead in accuracy."""
    leads = {claim.leads for claim in results.study.claims if str(claim.metric).startswith("accuracy")}
    return [label for label, name in results.names.items() if name in leads]


def left_out(results: Results, entries: pd.DataFrame) -> list[str]:
    """Sentences on the entries without a line or bar, and on those of fewer seeds than planned.

    `entries` are the rows of `measured.statuses` that a figure shows.
    """
    bad = entries[~entries["status"].isin([*SCORED, "missing", *NOTHING_YET])].assign(counted="")
    why = "Not drawn, because a seed diverged or nothing was scored"
    sentences = [f"{why}: {by_panel(results, bad)}."] if len(bad) else []
    return sentences + missing_cells(results, entries)


def missing_cells(results: Results, entries: pd.DataFrame) -> list[str]:
    """Sentences on the entries of which no seed is finished, and on those of which some are."""
    planned = len(results.study.seeds)
    none = entries[entries["status"].isin(NOTHING_YET)].assign(counted="")
    some = entries[entries["status"] == "partial"]
    some = some.assign(counted=[f" ({seeds} of {planned})" for seeds in some["seeds"]])
    return [
        f"{what}: {by_panel(results, part)}."
        for what, part in (("Not drawn, because no seed is finished", none), ("Drawn from fewer seeds", some))
        if len(part)
    ]


def by_panel(results: Results, entries: pd.DataFrame) -> str:
    """The names of entries, each with its text in the column `counted`, by heterogeneity where there are several."""
    panels = {title: entries[entries["heterogeneity"] == name] for name, title in results.study.heterogeneity.items()}
    return "; ".join(
        f"{title}: " * (len(panels) > 1)
        + listing(f"{results.names[entry.label]}{entry.counted}" for entry in panel.itertuples())
        for title, panel in panels.items()
        if len(panel)
    )
