"""From results to scores: over clients, then over rounds and seeds. All accuracies are fractions in [0, 1]."""

import pandas as pd

from fedgrid.analysis.compare import compare
from fedgrid.analysis.results import ABSENT, CELL, COLUMN, ROW, WAITING, Results

AVERAGED_ROUNDS = {"last": 1, "last5": 5}
"""Study's `at` → how many of the last evaluated rounds a score averages."""
SCORED = ("ok", "partial")
"""Statuses of entries that have a score."""
NOTHING_YET = ("failed", "unfinished")
"""Statuses of entries of which no seed is finished."""


def cell_frame(results: Results) -> pd.DataFrame:
    """One row a cell: its names, `metric` (what scores it), `status` and `reason`."""
    cells = pd.DataFrame(results.cells, columns=[*CELL, "status", "reason"])
    return cells.assign(metric=[results.metric(cell) for cell in results.cells])


def client_series(results: Results) -> pd.DataFrame:
    """The accuracy that scores each cell, one row per (cell, round, client), with the client's number of test samples.

    A cell without that metric, and a client without test samples, have no row. Where models are scored after local
    training, clients that sat a round out count there with the models that they hold.
    """
    cells = cell_frame(results)[[*CELL, "metric"]]
    rows = results.rows[results.rows["metric"].isin(["test_samples", "accuracy_personal", *cells["metric"]])]
    rows = rows.astype({name: "str" for name in [*ROW, "metric"]})
    samples = rows[rows["metric"] == "test_samples"].rename(columns={"value": "samples"})
    accuracy = rows.merge(cells, on=[*CELL, "metric"])
    accuracy = pd.concat([accuracy, _held_by_idle(rows, accuracy)])
    accuracy = accuracy.rename(columns={"value": "accuracy"}).drop(columns="metric")
    return accuracy.merge(samples[[*CELL, "client", "samples"]], on=[*CELL, "client"], how="left")


def _held_by_idle(rows: pd.DataFrame, accuracy: pd.DataFrame) -> pd.DataFrame:
    """Rows of `accuracy_personal` for the clients that lack one in a round with rows of `accuracy_trained`."""
    trained = accuracy[accuracy["metric"] == "accuracy_trained"]
    held = rows[rows["metric"] == "accuracy_personal"].merge(trained[[*CELL, "round"]].drop_duplicates())
    client = [*CELL, "round", "client"]
    return held[~pd.MultiIndex.from_frame(held[client]).isin(pd.MultiIndex.from_frame(trained[client]))]


def over_clients(series: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Summarise clients within each group of `by`.

    Gives `accuracy` (every client counts the same), `accuracy_weighted` (by test samples) and `std_clients`
    (population standard deviation).
    """
    groups = series.assign(correct=series["accuracy"] * series["samples"]).groupby(by, sort=False)
    sums = groups[["correct", "samples"]].sum()
    return pd.DataFrame(
        {
            "accuracy": groups["accuracy"].mean(),
            "accuracy_weighted": sums["correct"] / sums["samples"],
            "std_clients": groups["accuracy"].std(ddof=0),
        }
    ).reset_index()


def last_rounds(series: pd.DataFrame, n: int) -> pd.DataFrame:
    """The last `n` evaluated rounds of each cell; round 0, the untrained model, only where there is no other."""
    rounds = series[[*CELL, "round"]].drop_duplicates().sort_values("round")
    trained = rounds.groupby(CELL)["round"].transform("max") > 0
    return rounds[(rounds["round"] > 0) | ~trained].groupby(CELL).tail(n)


def cell_scores(results: Results) -> pd.DataFrame:
    """One row a cell: names, metric, status, reason, `round` (the last that counts), `over_clients`' three numbers.

    With `at: last5`, a client's accuracy is first averaged over the last five evaluated rounds. The numbers are NaN
    where the cell does not have the study's metric.
    """
    series = client_series(results)
    counted = last_rounds(series, AVERAGED_ROUNDS[results.study["at"]])
    clients = series.merge(counted, on=[*CELL, "round"]).groupby([*CELL, "client"], as_index=False)
    scores = over_clients(clients[["accuracy", "samples"]].mean(), CELL)
    last = counted.groupby(CELL, as_index=False)["round"].max()
    return cell_frame(results).merge(last, on=CELL, how="left").merge(scores, on=CELL, how="left")


def summary(results: Results) -> pd.DataFrame:
    """One row per label × data × heterogeneity, in study order.

    Columns: `score` (the metric used), `status` (`overall`'s, or "missing": no cell, "unscored": no such metric),
    `seeds` and `seeds_failed` (counts), the means over the good seeds of `over_clients`' numbers, sample standard
    deviations over seeds of both accuracies (NaN for one seed), and `compare`'s rank, p_value and supported. An entry
    of which any seed failed or is not finished is not ranked: the mean of the other seeds would flatter it.
    """
    scores = cell_scores(results)
    good = scores[(scores["status"] == "ok") & scores["accuracy"].notna()].groupby(ROW)
    every = scores.groupby(ROW)
    index = pd.MultiIndex.from_tuples(
        [(label, *column) for label in results.names for column in results.columns], names=ROW
    )
    table = pd.DataFrame(
        {
            "score": every["metric"].first(),
            "status": every["status"].agg(overall),
            "seeds": good.size(),
            "seeds_failed": every["status"].agg(lambda status: (~status.isin(["ok", *WAITING])).sum()),
            "accuracy": good["accuracy"].mean(),
            "accuracy_std_seeds": good["accuracy"].std(ddof=1),
            "accuracy_weighted": good["accuracy_weighted"].mean(),
            "accuracy_weighted_std_seeds": good["accuracy_weighted"].std(ddof=1),
            "std_clients": good["std_clients"].mean(),
        }
    ).reindex(index)
    counts = ["seeds", "seeds_failed"]
    table[counts] = table[counts].fillna(0).astype(int)
    table.loc[table["status"].isin(SCORED) & (table["seeds"] == 0), "status"] = "unscored"
    table["status"] = table["status"].fillna("missing")
    return table.join(compared(scores, table)).fillna({"supported": False}).reset_index()


def overall(status: pd.Series) -> str:
    """The status of an entry by those of its cells: "ok" when all are, else the first that a finished cell has.

    Where the finished ones are all ok: "partial". Where none is finished: "failed" if one failed, else "unfinished".
    """
    finished = [word for word in status if word not in ABSENT]
    if not finished:
        return "failed" if "failed" in set(status) else "unfinished"
    good = "ok" if len(finished) == len(status) else "partial"
    return next((word for word in finished if word != "ok"), good)


def compared(scores: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    """`compare` within each data × heterogeneity, over the entries of `table` whose status is ok."""
    ranked = scores.merge(table[table["status"] == "ok"].reset_index()[ROW], on=ROW)
    parts = {
        column: compare(part.pivot(index="label", columns="seed", values="accuracy"))
        for column, part in ranked.groupby(COLUMN, sort=False)
    }
    if not parts:
        return pd.DataFrame(index=table.index, columns=["rank", "p_value", "supported"])
    return pd.concat(parts, names=COLUMN).reorder_levels(ROW)
