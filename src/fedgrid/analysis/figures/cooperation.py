"""The matrices between clients that cells keep (`artifacts: [cooperation]`)."""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
import pyarrow as pa

from fedgrid.analysis.figures import kept
from fedgrid.analysis.figures.style import Undrawn
from fedgrid.analysis.prose.phrases import listing
from fedgrid.analysis.scores.results import ROW, Results

KIND = "cooperation"
LAST = "last"
"""A round of the option `rounds`: the last one that is kept."""
WORDS = {
    "graph": "cooperation weights",
    "similarity": "similarity of models",
    "complementarity": "overlap of features",
}
"""Matrix → its words; another one is called as its method calls it."""


def matrices(table: pa.Table, rounds: Sequence[int | str]) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
    """Each of the `rounds` with its values [client, other] by the name of their matrix; `Undrawn` for an unkept one."""
    frame = table.to_pandas().astype({"matrix": "str"})
    known = [int(round_) for round_ in frame["round"].unique()]
    for asked in rounds:
        if asked != LAST and asked not in known:
            raise Undrawn(f"No matrices of round {asked} are kept; rounds: {', '.join(map(str, known))}.")
        round_ = known[-1] if asked == LAST else int(asked)
        parts = frame[frame["round"] == round_].groupby("matrix", sort=False)
        yield (
            round_,
            {str(name): part.pivot(index="client", columns="other", values="value").to_numpy() for name, part in parts},
        )


def between_clients(results: Results, data: str, name: str) -> tuple[pd.DataFrame, list[str]]:
    """The mean value of one matrix between two different clients, in the last round that is kept of the first seed.

    Columns as in `ROW` and `value`, a row a cell on `data`; and sentences that name the rows and cells without it.
    Raises `UserError` when the study has no such data set, and `Undrawn` where no cell has kept such a matrix.
    """
    there, lost = kept.of_first_seed(results, data, KIND)
    values, without = [], {}
    for cell, table in there:
        found = next(matrices(table, (LAST,)))[1] if len(table) else {}
        if name in found:
            others = ~np.eye(len(found[name]), dtype=bool)
            values.append([*(cell[column] for column in ROW), float(found[name][others].mean())])
        else:
            without[cell["label"]] = results.names[cell["label"]]
    if not values:
        raise Undrawn(f"Nothing is drawn, because no cell has kept a matrix '{name}'.")
    said = [f"Without {WORDS.get(name, name)}: {listing(without.values())}."] if without else []
    return pd.DataFrame(values, columns=[*ROW, "value"]), [*said, *lost]
