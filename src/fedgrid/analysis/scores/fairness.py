"""How evenly accuracy is spread over clients, and who of them loses by taking part.

`spreads` are numbers of the accuracies of one cell's clients. `gains` compare each client with itself under Local.
"""

import numpy as np
import pandas as pd

from fedgrid.analysis.scores.results import CELL, COLUMN, Results

SPREADS = ("worst_tenth", "worst_client", "jain")
WORST = 0.1
"""Share of the clients that are the worst ones."""
LOCAL = "local"
"""The method without a federation."""


def spreads(clients: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """The numbers `SPREADS` of the accuracies of the clients in each group of `by`, those that have one.

    `worst_tenth` is the mean over the worst tenth, of at least one (Li, Sanjabi, Beirami & Smith 2020, "worst 10%"),
    `worst_client` the lowest, and `jain` (Σa)² / (N·Σa²), from 1/N, where one client has everything, to 1 for equal
    ones (Jain, Chiu & Hawe 1984).
    """
    known = clients[clients["accuracy"].notna()]
    groups = known.groupby(by, sort=False)["accuracy"]
    few = np.ceil(WORST * groups.transform("size") - 1e-9)
    worst = known[groups.rank(method="first") <= few]
    squares = known.assign(square=known["accuracy"] ** 2).groupby(by, sort=False)["square"].sum()
    return pd.DataFrame(
        {
            "worst_tenth": worst.groupby(by, sort=False)["accuracy"].mean(),
            "worst_client": groups.min(),
            "jain": (groups.sum() ** 2 / (groups.size() * squares)).fillna(1.0),
        }
    )


def gains(results: Results, clients: pd.DataFrame) -> pd.DataFrame:
    """One row for each cell and client with its `gain`: its accuracy less that of the same client under Local.

    `clients` are those of `summary.client_scores`. Only cells with Local's partition of the same seed have rows, which
    external results may lack; Local itself has none.
    """
    methods = {label: row.method for label, row in results.study.methods.items()}
    alone = next((label for label, method in methods.items() if method == LOCAL), None)
    other = {(*cell.entry, cell.seed) for cell in results.finished if not cell.same_partition}
    same = ~pd.MultiIndex.from_frame(clients[CELL]).isin(other)
    of_client = [*COLUMN, "seed", "client"]
    local = clients.loc[same & (clients["label"] == alone), [*of_client, "accuracy"]]
    federated = clients[same & (clients["label"].map(methods) != LOCAL)]
    paired = federated.merge(local.rename(columns={"accuracy": "without"}), on=of_client)
    return paired.assign(gain=paired["accuracy"] - paired["without"])[[*CELL, "client", "gain"]]
