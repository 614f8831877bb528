"""The accuracy table scored at every point of a round, for a reader who wants all methods scored alike."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pandas as pd
from markupsafe import Markup

from fedgrid.analysis.prose import captions
from fedgrid.analysis.prose.adoptions import adopted
from fedgrid.analysis.prose.imports import imported
from fedgrid.analysis.prose.phrases import percent
from fedgrid.analysis.scores import domains
from fedgrid.analysis.scores.results import COLUMN, PAPERS, ROW, Results
from fedgrid.analysis.scores.summary import cell_scores, summary
from fedgrid.analysis.tables.accuracy import Options, beside, make_table
from fedgrid.analysis.tables.common.grid import Grid, html

NAMES = {
    PAPERS: "as each paper does",
    "received": "as received",
    "trained": "after training",
    "global": "by the global model",
    "adapted": "after adaptation",
    "validated": "by validation",
}
"""Score → how the switch names it, in its order."""
MOVED = 0.02
"""A change of accuracy, as a fraction, that is worth a sentence."""


@dataclass(frozen=True)
class View:
    """One scoring of the table: its name on the switch, the table as HTML, and its notes.

    `moves` say what it changes in comparison with the study's own one, by column.
    """

    name: str
    table: Markup
    remarks: list[str]
    moves: str


def views(results: Results, options: Options) -> list[View]:
    """The study's own scoring, then all others that its cells have numbers for, each once.

    `options` are those of the accuracy table.
    """
    own_view = summary(results)
    shown = []
    for name, rescored in [(own_name(results), results), *other_scorings(results)]:
        table = own_view if rescored is results else summary(rescored)
        remarks = captions.remarks(rescored, cell_scores(rescored), table)
        printed = Markup(html(briefly(rescored, options)))
        shown.append(View(name, printed, remarks, moved(results, own_view, table)))
    return shown


def briefly(results: Results, options: Options) -> Grid:
    """The accuracy table with a short caption, for a page that says the protocol elsewhere."""
    _, grid = make_table(results, options)
    bold = any(entry.bold for _, entries in grid.rows for entry in entries)
    columns = domains.columns(results, options.domains)
    short = captions.short_accuracy(results, options.ranks, bold)
    caption = " ".join([short, *beside(options, columns), *adopted(results), *imported(results)])
    return replace(grid, caption=caption)


def own_name(results: Results) -> str:
    """How the switch names the study's own scoring."""
    scores = {method.score or results.study.score for method in results.study.methods.values()}
    return NAMES[scores.pop()] if len(scores) == 1 else "as the study asks"


def other_scorings(results: Results) -> Iterator[tuple[str, Results]]:
    """The other scorings and their names, without those that would score every cell as the study does."""
    metrics = set(results.score_metrics("test").values())
    other_views = [score for score in NAMES if score == PAPERS or f"accuracy_{score}" in metrics]
    points = [results.point(cell) for cell in results.finished]
    for score in other_views:
        rescored = results.rescored(score)
        if [rescored.point(cell) for cell in rescored.finished] != points:
            yield NAMES[score], rescored


def moved(results: Results, earlier: pd.DataFrame, later: pd.DataFrame) -> str:
    """What another scoring changes most in each column: an accuracy, and a place in the order."""
    both = earlier.merge(later, on=ROW, suffixes=("", "_after"))
    parts = {column: part for column, part in both.groupby(COLUMN, sort=False)}
    moves_of = {column: moves(results, parts[column]) for column in results.columns}
    return ". ".join(
        f"{results.column(*column)}: {'; '.join(moves_in_column)}"
        for column, moves_in_column in moves_of.items()
        if moves_in_column
    )


def moves(results: Results, entries: pd.DataFrame) -> list[str]:
    """Of the entries of one column: the largest change, and the farthest rise and fall in the order.

    Only where the other scoring ranks all that the study's own one ranks is there an order to compare.
    """
    ranked = entries[entries["rank"].notna()].set_index("label")
    both = ranked[ranked["rank_after"].notna()]
    if both.empty:
        return []
    changes = (both["accuracy_after"] - both["accuracy"]).abs()
    falls = (both["rank_after"] - both["rank"]).astype(int) * (len(both) == len(ranked))
    chosen = {changes.idxmax(): changes.max() > MOVED}
    for farthest in (falls.idxmin(), falls.idxmax()):
        chosen[farthest] = chosen.get(farthest, False) or falls[farthest] != 0
    return [
        f"{results.names[label]} {move(both.loc[label], falls[label])}" for label, counts in chosen.items() if counts
    ]


def move(entry: pd.Series, fall: int) -> str:
    """How one entry changes."""
    changes = [f"{percent(entry['accuracy'])} → {percent(entry['accuracy_after'])}"]
    changes = changes if entry["accuracy"] != entry["accuracy_after"] else []
    places = [f"place {entry['rank']} → {entry['rank_after']}"] if fall else []
    return ", ".join([*changes, *places])
