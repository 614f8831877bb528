"""How evenly accuracy is spread over clients, and who of them loses by taking part.

`SPREADS` are numbers of the accuracies of one cell's clients. `gains` compare each client with itself under Local.
"""

from collections.abc import Callable, Mapping
from math import ceil

import numpy as np
import pandas as pd

from fedgrid.analysis.scores.results import CELL, COLUMN, Results

WORST = 0.1
"""Share of the clients that are the worst ones."""
LOCAL = "local"
"""The method without a federation."""


def worst_tenth(accuracies: np.ndarray) -> float:
    """Mean over the worst tenth of the clients, at least one (Li, Sanjabi, Beirami & Smith 2020, "worst 10%")."""
    few = max(1, ceil(WORST * len(accuracies) - 1e-9))
    return float(np.sort(accuracies)[:few].mean())


def worst_client(accuracies: np.ndarray) -> float:
    """Lowest accuracy of a client."""
    return float(accuracies.min())


def jain(accuracies: np.ndarray) -> float:
    """(Σa)² / (N·Σa²), from 1/N, where one client has everything, to 1 for equal ones (Jain, Chiu & Hawe 1984)."""
    squares = len(accuracies) * float(np.square(accuracies).sum())
    return float(accuracies.sum()) ** 2 / squares if squares else 1.0


SPREADS: Mapping[str, Callable[[np.ndarray], float]] = {
    "worst_tenth": worst_tenth,
    "worst_client": worst_client,
    "jain": jain,
}


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
