"""Accuracy of each class, and the expected calibration error (ECE), from kept predictions."""

from collections.abc import Mapping
from itertools import chain
from typing import Any

import pandas as pd

from fedgrid.analysis.kinds import TableOptions
from fedgrid.analysis.prose import captions, prediction_captions
from fedgrid.analysis.prose.footnotes import Footnotes
from fedgrid.analysis.prose.phrases import percent
from fedgrid.analysis.scores.domains import EVERY
from fedgrid.analysis.scores.points import cell_frame
from fedgrid.analysis.scores.predictions import Tallies, class_names, tallies
from fedgrid.analysis.scores.results import CELL, ROW, Results
from fedgrid.analysis.scores.summary import SCORED, entry_statuses
from fedgrid.analysis.tables.common.grid import Entry, Grid, Table, levels
from fedgrid.analysis.tables.common.pivot import without_number

ACCURACY, ERROR = "accuracy", "calibration_error"
"""Quantities in the CSV file."""
LAST = (ERROR, "")
"""Quantity and class of the last row: an error is of all classes."""


class Options(TableOptions):
    """There is nothing to choose."""


def make_table(results: Results, options: Options) -> Table:
    """Accuracy of each class and the ECE: classes as rows, and every row of the study as a column.

    The numbers are the `mean` over seeds of each `quantity`, as a fraction, the sample
    standard deviation `std_seeds`, the number of `seeds` that have it, and the test `images` of all of them, which
    count once for each client.
    """
    predictions = tallies(results)
    names = names_of_classes(results, predictions)
    cells = by_seed(predictions, names)
    groups = cells.groupby([*ROW, "quantity", "class"], sort=False)
    means = groups["value"].agg(mean="mean", std_seeds="std", seeds="size")
    table = means.assign(images=groups["images"].sum()).reset_index()
    entries = statuses(results, cells)
    notes = Footnotes(results, pd.DataFrame(entries))
    columns = [column_entries(results, entry, table, notes) for entry in entries]
    order = [*((ACCURACY, name) for name in dict.fromkeys(chain(*names.values()))), LAST]
    rows = [("ECE" if row == LAST else row[1], [column.get(row, Entry()) for column in columns]) for row in order]
    heads = [
        (*results.titles(entry["data"], entry["heterogeneity"]), results.names[entry["label"]]) for entry in entries
    ]
    return table, Grid(caption(results, predictions), "Class", levels(heads), rows, notes.texts)


def names_of_classes(results: Results, predictions: Tallies) -> dict[str, list[str]]:
    """The names of the classes of each data set that has predictions."""
    numbers: dict[str, int] = {}
    for cell, tally in predictions.by_cell:
        numbers[cell.data] = max(numbers.get(cell.data, 0), len(tally.confusion))
    return {data: class_names(results, data, number) for data, number in numbers.items()}


def by_seed(predictions: Tallies, names: Mapping[str, list[str]]) -> pd.DataFrame:
    """One row per cell, `quantity` and `class`: the `value` as a fraction, and the `images` that it is of.

    Of a cell, first the classes that have test images, then its error.
    """
    rows: list[tuple[str | int | float, ...]] = []
    for cell, tally in predictions.by_cell:
        of_classes = zip(names[cell.data], tally.class_accuracy, tally.images_of_class, strict=False)
        rows += [(*cell.table_position, ACCURACY, *of_class) for of_class in of_classes if of_class[-1]]
        rows.append((*cell.table_position, *LAST, tally.calibration_error, tally.images.sum()))
    table = pd.DataFrame(rows, columns=[*CELL, "quantity", "class", "value", "images"])
    return table.astype({"seed": int, "value": float, "images": int})


def statuses(results: Results, cells: pd.DataFrame) -> list[dict[str, Any]]:
    """`summary.entry_statuses` of what the study has, column by column; an entry without an error is unscored."""
    errors = cells.loc[cells["quantity"] == ERROR, [*CELL, "value"]]
    scores = cell_frame(results).merge(errors, on=CELL, how="left").assign(domain=EVERY)
    entries = entry_statuses(results, scores, "value").reset_index().to_dict("records")
    planned = [entry for entry in entries if entry["status"] != "missing"]
    return sorted(planned, key=lambda entry: results.columns.index((entry["data"], entry["heterogeneity"])))


def column_entries(
    results: Results, entry: Mapping[str, Any], table: pd.DataFrame, notes: Footnotes
) -> dict[tuple[str, str], Entry]:
    """One column of the table by quantity and class; what there is to say of all of it is at the end.

    `entry` is of `statuses`, and `table` has the numbers of all.
    """
    letters = notes.letter(*(entry[name] for name in ROW))
    if entry["status"] not in SCORED:
        return {LAST: without_number(entry["status"], letters)}
    own = table[(table[ROW] == [entry[name] for name in ROW]).all(axis=1)]
    column = {}
    for line in own.to_dict("records"):
        row = line["quantity"], line["class"]
        spread = f" ± {percent(line['std_seeds'])}" if len(results.study.seeds) > 1 else ""
        column[row] = Entry(percent(line["mean"]) + spread, notes=letters if row == LAST else "")
    return column


def caption(results: Results, predictions: Tallies) -> str:
    """What the numbers are."""
    if not predictions.by_cell:
        reason = prediction_captions.reason_for_none(predictions)
        return f"{captions.lead(results)}: no accuracy of classes, because {reason}."
    sentences = [
        f"{captions.lead(results)}: accuracy of each class after the last round, over {captions.seeds(results)}.",
        "The accuracy of a class is the share of its test images that are predicted right, of all clients together, in "
        f"percent; {captions.over_seeds(results)}. {prediction_captions.ONCE}",
        f"{prediction_captions.ERROR}, in percent. {prediction_captions.CONFIDENCE}",
        *prediction_captions.protocol(results, predictions),
        *prediction_captions.absent_cells(results, predictions, "not counted"),
        "A dash stands for a class without test images, or for what was not run or does not exist.",
    ]
    return " ".join(sentences)
