"""What the phases of a round cost in time."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pandas as pd

from fedgrid.analysis.kinds import TableOptions
from fedgrid.analysis.prose import captions
from fedgrid.analysis.scores.cells import FinishedCell
from fedgrid.analysis.scores.results import CELL, DASH, ROW, Results
from fedgrid.analysis.tables.common.grid import Entry, Grid, Table, levels

WORDS = {"train": "Local training", "evaluate": "Evaluation"}
"""What every cell measures → its name in the table; methods name the phases between them."""


@dataclass(frozen=True)
class Options(TableOptions):
    """What a study may say of it."""

    names: Mapping[str, str] = field(default_factory=dict)
    "Phase as its method calls it → name to print."


def make_table(results: Results, options: Options) -> Table:
    """Seconds of each phase of a round: phases as rows, and every row of the study as a column.

    The numbers are medians over the seeds that came to
    their end; a cell's are its seconds divided by its rounds.
    """
    cells = seconds(results, options)
    medians = cells.groupby([*ROW, "phase"], sort=False)["seconds"].median()
    entries = medians.to_dict()
    measured = {tuple(entry) for *entry, _ in entries}
    columns = [
        (label, *column) for column in results.columns for label in results.names if (label, *column) in measured
    ]
    texts = {entry: f"{value:,.3f}" for entry, value in entries.items()}
    rows = [
        (name, [Entry(texts.get((*column, name), DASH)) for column in columns])
        for name in dict.fromkeys(names(results, options).values())
    ]
    heads = [(*results.titles(*column), results.names[label]) for label, *column in columns]
    return medians.reset_index(), Grid(caption(results), "Phase", levels(heads), rows)


def seconds(results: Results, options: Options) -> pd.DataFrame:
    """Seconds a round, one row per cell that came to its end and `phase`, by its printed name."""
    printed = names(results, options)
    rows = [
        (*cell.table_position, printed[phase], spent / cell.rounds)
        for cell in timed(results)
        for phase, spent in parts(cell).items()
    ]
    table = pd.DataFrame(rows, columns=[*CELL, "phase", "seconds"])
    return table.groupby([*CELL, "phase"], sort=False)["seconds"].sum().reset_index()  # several may have one name


def timed(results: Results) -> list[FinishedCell]:
    """The cells whose rounds can be timed."""
    return [cell for cell in results.completed if cell.rounds > 0]


def parts(cell: FinishedCell) -> dict[str, float]:
    """Seconds of a cell's phases, in the order of the table."""
    spent = cell.costs.seconds
    seconds = {"train": spent.train, **spent.phases, "evaluate": spent.evaluate}
    return {name: seconds for name, seconds in seconds.items() if seconds is not None}


def names(results: Results, options: Options) -> dict[str, str]:
    """Phase → its printed name, evaluation last."""
    phases_timed = dict.fromkeys(phase for cell in timed(results) for phase in parts(cell))
    titles = {phase: WORDS.get(phase, phase.replace("_", " ").capitalize()) for phase in phases_timed}
    titles |= {phase: name for phase, name in options.names.items() if phase in titles}
    return {phase: titles[phase] for phase in sorted(titles, key=lambda phase: phase == "evaluate")}


def caption(results: Results) -> str:
    """What the numbers are."""
    several = ", median over seeds" if len(results.study.seeds) > 1 else ""
    return (
        f"{captions.lead(results)}: mean seconds of each phase of a round over the rounds of a cell{several}. Local "
        "training is that of all clients of a round; evaluation does not take place in every round. "
        "Compare times only between cells run on the same hardware."
    )
