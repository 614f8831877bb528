"""Rounds that a row needs to reach an accuracy."""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import pandas as pd

from fedgrid.analysis.kinds import TableOptions
from fedgrid.analysis.prose import captions
from fedgrid.analysis.prose.footnotes import Footnotes
from fedgrid.analysis.scores.comparisons import ROUNDING
from fedgrid.analysis.scores.domains import EVERY, columns
from fedgrid.analysis.scores.points import cell_frame, client_series
from fedgrid.analysis.scores.results import CELL, Results
from fedgrid.analysis.scores.spent import cumulative_costs
from fedgrid.analysis.scores.summary import SCORED, entry_statuses, scored_by_entry
from fedgrid.analysis.tables.common.grid import Entry, Grid, Table
from fedgrid.analysis.tables.common.pivot import header_of, without_number
from fedgrid.grid.study.codec import Limits

ROUNDS = "rounds"
HEADERS = {ROUNDS: "Rounds", "mib": "MiB", "passes": "Passes"}
"""Column of the numbers → its printed header."""
COSTS = (
    "MiB: what went up and down until then, of all clients together. Passes: forward-backward passes over the training "
    "images of all clients until then, by the formula of the table of costs. Both are medians over seeds."
)


@dataclass(frozen=True)
class Options(TableOptions):
    """What a study has to say of it, and what it may."""

    target: Annotated[float, Limits(above=0, high=100)]
    "Mean accuracy over clients, in percent."
    costs: bool = False
    "What was spent until then, in MiB and passes over the training images."


def make_table(results: Results, options: Options) -> Table:
    """The first evaluated round whose mean accuracy over clients reaches a target, by row and column.

    The numbers are the medians over seeds, of rounds also `low` and `high`, with infinity for a seed that did not reach
    the target by its `last` evaluated round; what was spent until then is that of `scores.spent`.
    """
    shown = [*HEADERS] if options.costs else [ROUNDS]
    cells = first_rounds(results, options)
    if options.costs:
        cells = with_costs(results, cells)
    good = scored_by_entry(cells, "last")
    table = entry_statuses(results, cells, "last").assign(
        target=options.target,
        rounds=good["rounds"].median(),
        low=good["rounds"].min(),
        high=good["rounds"].max(),
        last=good["last"].max(),
        **{name: good[name].median() for name in shown[1:]},
    )
    table = table.reset_index()
    notes = Footnotes(results, table)
    printed = {
        (entry["label"], entry["data"], entry["heterogeneity"]): round_entries(entry, notes, shown[1:])
        for entry in table.to_dict("records")
    }
    rows = [
        (name, [entry for column in results.columns for entry in printed[label, *column]])
        for label, name in results.names.items()
    ]
    header = header_of(results, columns(results, False), [HEADERS[name] for name in shown] if options.costs else [""])
    grid = Grid(caption(results, options), "Method", header, rows, notes.texts)
    return table.drop(columns="domain"), grid


def first_rounds(results: Results, options: Options) -> pd.DataFrame:
    """One row a cell: names, metric, status, reason, `last` evaluated round and `rounds` to the target."""
    means = client_series(results).groupby([*CELL, "round"])["accuracy"].mean().reset_index()
    reached = means[means["accuracy"] >= options.target / 100 - ROUNDING]
    last = means.groupby(CELL)["round"].max().rename("last")
    first = reached.groupby(CELL)["round"].min().rename("rounds").astype(float)
    cells = cell_frame(results).merge(pd.concat([last, first], axis=1).reset_index(), on=CELL, how="left")
    cells.loc[cells["last"].notna() & cells["rounds"].isna(), "rounds"] = np.inf
    return cells.assign(domain=EVERY)


def with_costs(results: Results, cells: pd.DataFrame) -> pd.DataFrame:
    """The same with the `mib` and `passes` of each cell until it reached the target, infinite where it did not."""
    costs = cumulative_costs(results).rename(columns={"round": ROUNDS})
    costs = costs.astype({ROUNDS: float})  # like those of `first_rounds`
    start = cells.loc[cells[ROUNDS] == 0, CELL].assign(rounds=0.0, mib=0.0, passes=0.0)
    cells = cells.merge(pd.concat([costs, start]), on=[*CELL, ROUNDS], how="left")
    cells.loc[np.isinf(cells[ROUNDS]), ["mib", "passes"]] = np.inf
    return cells


def round_entries(entry: dict[str, Any], notes: Footnotes, costs: list[str]) -> list[Entry]:
    """The printed round of one entry, with the lowest and highest of its seeds where they differ, and its `costs`."""
    letters = notes.letter(entry["label"], entry["data"], entry["heterogeneity"])
    if entry["status"] not in SCORED:
        return [without_number(entry["status"], letters), *(Entry() for _ in costs)]
    middle, low, high = (number(entry[name], entry["last"]) for name in (ROUNDS, "low", "high"))
    first = Entry(middle if low == high else f"{middle} ({low} to {high})", notes=letters)
    return [first, *(Entry(f"{entry[name]:.1f}") if np.isfinite(entry[name]) else Entry() for name in costs)]


def number(value: float, last: float) -> str:
    """A number of rounds, or that there are more than those that were run."""
    return f">{last:g}" if np.isinf(value) else f"{value:g}"


def caption(results: Results, options: Options) -> str:
    """What the numbers are."""
    several = len(results.study.seeds) > 1
    sentences = [
        f"{captions.lead(results)}: the first evaluated round in which the mean test accuracy over clients is at "
        f"least {options.target:g} %, over {captions.seeds(results)}.",
        captions.scored_at(results, results.finished),
        *(["The median over seeds, and in parentheses the lowest and the highest."] * several),
        *([COSTS] if options.costs else []),
        ">: not reached by the last evaluated round. A dash stands for what was not run or does not exist.",
    ]
    return " ".join(sentences)
