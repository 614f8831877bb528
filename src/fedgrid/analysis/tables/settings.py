"""Hyperparameters and protocol as a table; it needs no cells."""

from collections.abc import Iterator

import pandas as pd

from fedgrid.analysis.kinds import TableOptions
from fedgrid.analysis.scores.results import Results
from fedgrid.analysis.scores.settings import column_names, flattened, setting_text
from fedgrid.analysis.tables.common.grid import Entry, Grid, Table

PROTOCOL = "Protocol"


class Options(TableOptions):
    """There is nothing to choose."""

    needs_cells = False


def make_table(results: Results, options: Options) -> Table:
    """One row a setting: whose it is (protocol or the row's name), where it holds, its name and its value."""
    table = pd.DataFrame(entries(results), columns=["of", "where", "setting", "value"])
    somewhere = bool(table["where"].any())
    header = [[*([("Where", 1)] * somewhere), ("Setting", 1), ("Value", 1)]]
    rows = [
        (of, [*([Entry(where or "everywhere")] * somewhere), Entry(setting), Entry(value)])
        for of, where, setting, value in table.itertuples(index=False)
    ]
    caption = f"{results.study.title}: protocol, and hyperparameters of every row."
    return table, Grid(caption, "Of", header, rows, textual=True)


def entries(results: Results) -> Iterator[tuple[str, str, str, str]]:
    """The rows of the table."""
    study = results.study
    for title in study.data.values():
        yield PROTOCOL, "", "data", title
    for label, title in study.heterogeneity.items():
        yield PROTOCOL, "", "heterogeneity", study.described.get(label) or title
    yield PROTOCOL, "", "seeds", setting_text(study.seeds)
    if study.model:
        yield PROTOCOL, "", "model", study.model
    for name, value in flattened(study.protocol):
        yield PROTOCOL, "", name, setting_text(value)
    for other in study.elsewhere:
        model = [] if other.model in (None, study.model) else [("model", other.model)]
        for name, value in [*model, *flattened(other.protocol)]:
            yield PROTOCOL, column_names(results, other.columns), name, setting_text(value)
    for label, row in study.methods.items():
        of_row = {"score": row.score} if row.score not in ("", study.score) else {}
        of_row |= {"at": row.at} if row.at not in ("", study.at) else {}
        for name, value in flattened(row.settings | of_row):
            yield results.names[label], "", name, setting_text(value)
        for part in row.elsewhere:
            for name, value in flattened(part.settings):
                yield results.names[label], column_names(results, part.columns), name, setting_text(value)
