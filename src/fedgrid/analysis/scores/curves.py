"""Curves: every metric of every cell by round, over its clients."""

from dataclasses import replace

import pandas as pd

from fedgrid.analysis.scores.points import accuracies, named
from fedgrid.analysis.scores.results import CELL, Results

SIZES = ("train_samples", "test_samples")
"Metrics that are no curves."


def curves(results: Results) -> pd.DataFrame:
    """One row per (cell, round, metric): label, data, heterogeneity, seed, round, metric, mean, std, total, clients.

    `mean`, `std` (population standard deviation) and `total` are over `clients`, the number of those that have a value.
    As in tables, accuracies and losses after local training include clients that sat the round out.
    """
    rows = named(results.rows)
    rows = rows[~rows["metric"].isin(SIZES)]
    losses = replace(results, quantity="loss")
    tested = [*results.score_metrics("test"), *losses.score_metrics("test")]
    of_loss = _tested(losses)
    of_loss["metric"] = of_loss["metric"].str.replace("accuracy_", "loss_")
    values = pd.concat([rows[~rows["metric"].isin(tested)], _tested(results), of_loss], ignore_index=True)
    groups = values.groupby([*CELL, "round", "metric"], sort=False)["value"]
    table = groups.agg(mean="mean", total="sum", clients="count").assign(std=groups.std(ddof=0)).reset_index()
    columns = [*CELL, "round", "metric", "mean", "std", "total", "clients"]
    return table[columns].sort_values([*CELL, "metric", "round"], ignore_index=True)


def _tested(results: Results) -> pd.DataFrame:
    names = list(results.score_metrics("test").values())
    columns = [*CELL, "round", "client", "metric", "value"]
    if not names:
        return pd.DataFrame(columns=columns)
    return accuracies(results, names, "test").rename(columns={"accuracy": "value"})[columns]
