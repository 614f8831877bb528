"""The point of a round at which a cell is scored, and its clients' accuracies there, as fractions in [0, 1]."""

import pandas as pd

from fedgrid.analysis.scores.comparisons import ROUNDING
from fedgrid.analysis.scores.results import CELL, ROW, Results
from fedgrid.grid.plan.manifest_model import REPORTED

POINTS = {
    "received": "as received",
    "adapted": "after adaptation",
    "trained": "after local training",
    "global": "by the one global model",
    REPORTED: "as reported by others",
}
"""Point of a round → how captions say that a method is scored there."""
RECEIVED, TRAINED, VALIDATED = "accuracy_received", "accuracy_trained", "accuracy_validated"


def cell_frame(results: Results) -> pd.DataFrame:
    """One row a cell: its names, `metric` (what scores it), `status` and `reason`."""
    rows = [(*cell.table_position, cell.status, cell.reason) for cell in results.cells]
    cells = pd.DataFrame(rows, columns=[*CELL, "status", "reason"]).astype({"seed": int})
    points = map(results.point, results.cells)
    return cells.assign(metric=pd.Series([point and f"accuracy_{point}" for point in points], dtype=object))


def client_series(results: Results) -> pd.DataFrame:
    """The test accuracy that scores each cell, one row per (cell, round, client), with the client's test samples.

    A cell without that metric, and a client without test samples, have no row.
    """
    samples = named(results.rows[results.rows["metric"] == "test_samples"]).rename(columns={"value": "samples"})
    return scored(results, "test").merge(samples[[*CELL, "client", "samples"]], on=[*CELL, "client"], how="left")


def scored(results: Results, images: str) -> pd.DataFrame:
    """The `accuracy` on test or validation `images` that scores each cell, one row per (cell, round, client)."""
    metrics = cell_frame(results)[[*CELL, "metric"]]
    scores = accuracies(results, metrics["metric"].dropna().unique(), images).merge(metrics)
    by_validation = metrics.loc[metrics["metric"] == VALIDATED, CELL]
    if len(by_validation):
        chosen = validated(results).merge(by_validation)
        chosen = accuracies(results, [RECEIVED, TRAINED], images).merge(chosen)
        scores = pd.concat([scores, chosen], ignore_index=True) if len(scores) else chosen
    return scores.drop(columns="metric")


def validated(results: Results) -> pd.DataFrame:
    """The `metric` of the validated model, one row per (cell, round).

    Validated is, of the received and the trained model, the one with the higher mean accuracy over clients on
    validation images, and the received one of equals. A cell without validation images has no row.
    """
    scores = accuracies(results, [RECEIVED, TRAINED], "validation")
    means = scores.groupby([*CELL, "round", "metric"])["accuracy"].mean().unstack().reindex(columns=[RECEIVED, TRAINED])
    better = means[TRAINED] - means[RECEIVED] > ROUNDING
    return better.map({True: TRAINED, False: RECEIVED}).rename("metric").reset_index()


def accuracies(results: Results, metrics: list[str], images: str) -> pd.DataFrame:
    """Some `metrics` on test or validation `images`: one row per (cell, round, client, metric) with the `accuracy`.

    Of results that losses score, these are in place of accuracies on test images. Clients that sat a round out count
    after local training with the models that they hold.
    """
    names = {name: metric for name, metric in results.score_metrics(images).items() if metric in {*metrics, RECEIVED}}
    rows = named(results.rows[results.rows["metric"].isin(names)]).rename(columns={"value": "accuracy"})
    rows = rows.assign(metric=rows["metric"].map(names))
    with_idle = pd.concat([rows, held_by_idle(rows)], ignore_index=True)
    return with_idle[with_idle["metric"].isin(metrics)]


def held_by_idle(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of the received model, as `TRAINED`, of the clients without one in a round in which others have one."""
    trained = rows[rows["metric"] == TRAINED]
    held = rows[rows["metric"] == RECEIVED].merge(trained[[*CELL, "round"]].drop_duplicates())
    client = [*CELL, "round", "client"]
    idle = ~pd.MultiIndex.from_frame(held[client]).isin(pd.MultiIndex.from_frame(trained[client]))
    return held[idle].assign(metric=TRAINED)


def named(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of the results with plain texts, which merge with those of `cell_frame`."""
    return rows.astype({name: "str" for name in [*ROW, "metric"]})
