"""Curves: every metric of every cell by round, over its clients."""

import pandas as pd

from fedgrid.analysis.scores.points import LOSS, accuracies, by_loss, named
from fedgrid.analysis.scores.results import CELL, Results

ACCURACY = "accuracy_"
SIZES = ("train_samples", "test_samples")
"Metrics that are no curves."


def curves(results: Results) -> pd.DataFrame:
    """One row per (cell, round, metric): label, data, heterogeneity, seed, round, metric, mean, std, total, clients.

    `mean`, `std` (population standard deviation) and `total` are over `clients`, the number of those that have a value.
    As in tables, accuracies and losses after local training include clients that sat the round out.
    """
    rows = named(results.rows)
    rows = rows[~rows["metric"].isin(SIZES)]
    tested = rows["metric"].str.startswith((ACCURACY, LOSS))
    losses = _tested(by_loss(results))
    losses["metric"] = losses["metric"].str.replace(ACCURACY, LOSS)
    values = pd.concat([rows[~tested], _tested(results), losses], ignore_index=True)
    groups = values.groupby([*CELL, "round", "metric"], sort=False)["value"]
    table = groups.agg(mean="mean", total="sum", clients="count").assign(std=groups.std(ddof=0)).reset_index()
    columns = [*CELL, "round", "metric", "mean", "std", "total", "clients"]
    return table[columns].sort_values([*CELL, "metric", "round"], ignore_index=True)


def _tested(results: Results) -> pd.DataFrame:
    metrics = results.rows["metric"].astype(str)
    names = metrics[metrics.str.startswith(ACCURACY)].unique().tolist()
    columns = [*CELL, "round", "client", "metric", "value"]
    if not names:
        return pd.DataFrame(columns=columns)
    return accuracies(results, names, "test").rename(columns={"accuracy": "value"})[columns]
