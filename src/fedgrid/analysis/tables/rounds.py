"""Rounds that a row needs to reach an accuracy."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from fedgrid.analysis.prose import captions
from fedgrid.analysis.prose.footnotes import Footnotes
from fedgrid.analysis.scores.domains import EVERY, columns
from fedgrid.analysis.scores.leads import ROUNDING
from fedgrid.analysis.scores.points import accuracies, cell_frame, client_series
from fedgrid.analysis.scores.results import CELL, Results, choose
from fedgrid.analysis.scores.summary import SCORED, good_ones, standing
from fedgrid.analysis.tables.grid import Entry, Grid, levels
from fedgrid.analysis.tables.pivot import heads, without_number


def rounds(results: Results, options: Mapping[str, Any]) -> tuple[pd.DataFrame, Grid]:
    """The first evaluated round whose mean accuracy over clients reaches a target, by row and column.

    Options: `target` in percent; `metric`, the accuracy that counts, such as "accuracy_global" (default: the one that
    scores the row). The numbers are the median over seeds, `low` and `high`, with infinity for a seed that did not
    reach the target by its `last` evaluated round.
    """
    cells = first_rounds(results, options)
    good = good_ones(cells, "last")
    reached = good["rounds"]
    table = standing(results, cells, "last").assign(
        target=options["target"],
        rounds=reached.median(),
        low=reached.min(),
        high=reached.max(),
        last=good["last"].max(),
    )
    table = table.reset_index()
    notes = Footnotes(results, table)
    printed = {
        (entry["label"], entry["data"], entry["heterogeneity"]): of_entry(entry, notes)
        for entry in table.to_dict("records")
    }
    rows = [(name, [printed[label, *column] for column in results.columns]) for label, name in results.names.items()]
    header = levels(list(heads(results, columns(results, False), [""])))
    grid = Grid(caption(results, options), "Method", header, rows, notes.texts)
    return table.drop(columns="domain"), grid


def first_rounds(results: Results, options: Mapping[str, Any]) -> pd.DataFrame:
    """One row a cell: names, metric, status, reason, `last` evaluated round and `rounds` to the target."""
    series = accuracies(results, [metric(results, options)], "test") if "metric" in options else client_series(results)
    means = series.groupby([*CELL, "round"])["accuracy"].mean().reset_index()
    reached = means[means["accuracy"] >= options["target"] / 100 - ROUNDING]
    last = means.groupby(CELL)["round"].max().rename("last")
    first = reached.groupby(CELL)["round"].min().rename("rounds")
    cells = cell_frame(results).merge(pd.concat([last, first], axis=1).reset_index(), on=CELL, how="left")
    cells.loc[cells["last"].notna() & cells["rounds"].isna(), "rounds"] = np.inf
    return cells.assign(domain=EVERY)


def metric(results: Results, options: Mapping[str, Any]) -> str:
    """The accuracy that is asked for; `UserError` when no cell has it."""
    known = [str(name) for name in results.rows["metric"].unique() if str(name).startswith("accuracy_")]
    return choose(options["metric"], known, "metric")


def of_entry(entry: dict[str, Any], notes: Footnotes) -> Entry:
    """The printed round of one entry, with the lowest and highest of its seeds where they differ."""
    letters = notes.letter(entry["label"], entry["data"], entry["heterogeneity"])
    if entry["status"] not in SCORED:
        return without_number(entry["status"], letters)
    middle, low, high = (number(entry[name], entry["last"]) for name in ("rounds", "low", "high"))
    return Entry(middle if low == high else f"{middle} ({low} to {high})", notes=letters)


def number(value: float, last: float) -> str:
    """A number of rounds, or that there are more than those that were run."""
    return f">{last:g}" if np.isinf(value) else f"{value:g}"


def caption(results: Results, options: Mapping[str, Any]) -> str:
    """What the numbers are."""
    several = len(results.study.seeds) > 1
    at = f" ({options['metric'].removeprefix('accuracy_')} model)" if "metric" in options else ""
    sentences = [
        f"{captions.lead(results)}: the first evaluated round in which the mean test accuracy over clients{at} is at "
        f"least {options['target']:g} %, over {captions.seeds(results)}.",
        *([] if at else [captions.scored_at(results, results.finished)]),
        *(["The median over seeds, and in parentheses the lowest and the highest."] * several),
        ">: not reached by the last evaluated round. A dash stands for what was not run or does not exist.",
    ]
    return " ".join(sentences)
