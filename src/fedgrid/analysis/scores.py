"""From results to scores: over clients, then over rounds and seeds. All accuracies are fractions in [0, 1]."""

import pandas as pd

from fedgrid.analysis.compare import AGAINST, ROUNDING, compare
from fedgrid.analysis.points import cell_frame, client_series, scored
from fedgrid.analysis.results import ABSENT, CELL, COLUMN, ROW, WAITING, Results

AVERAGED_ROUNDS = {"last": 1, "last5": 5}
"""Study's `at` → how many of the last evaluated rounds a score averages; it knows `VALIDATION` beside them."""
VALIDATION = "validation"
"""Study's `at` where the score is that of the round that is best on validation images."""
SCORED = ("ok", "partial")
"""Statuses of entries that have a score."""
NOTHING_YET = ("failed", "unfinished")
"""Statuses of entries of which no seed is finished."""


def over_clients(series: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Summarise clients within each group of `by`.

    Gives `accuracy` (every client counts the same), `accuracy_weighted` (by test samples), `correct` (test samples of
    all clients that are classified right) and `std_clients` (population standard deviation).
    """
    groups = series.assign(correct=series["accuracy"] * series["samples"]).groupby(by, sort=False)
    sums = groups[["correct", "samples"]].sum()
    return pd.DataFrame(
        {
            "accuracy": groups["accuracy"].mean(),
            "accuracy_weighted": sums["correct"] / sums["samples"],
            "correct": sums["correct"],
            "std_clients": groups["accuracy"].std(ddof=0),
        }
    ).reset_index()


def counted_rounds(results: Results, series: pd.DataFrame) -> pd.DataFrame:
    """The rounds of each cell that its score averages, as the study's `at` says; `series` are its test accuracies."""
    at = results.study["at"]
    if at == VALIDATION:
        return best_rounds(scored(results, "validation"))
    return last_rounds(series, AVERAGED_ROUNDS[at])


def last_rounds(series: pd.DataFrame, n: int) -> pd.DataFrame:
    """The last `n` evaluated rounds of each cell."""
    rounds = after_the_start(series)[[*CELL, "round"]].drop_duplicates()
    return rounds.sort_values("round").groupby(CELL).tail(n)


def best_rounds(series: pd.DataFrame) -> pd.DataFrame:
    """The round of each cell with the highest mean accuracy over clients, the first of equals."""
    means = after_the_start(series).groupby([*CELL, "round"])["accuracy"].mean()
    means = (means / ROUNDING).round()  # the order of a sum makes no difference
    best = means[means == means.groupby(CELL).transform("max")]
    return best.reset_index().groupby(CELL, as_index=False)["round"].min()


def after_the_start(series: pd.DataFrame) -> pd.DataFrame:
    """The rows without those of round 0, the untrained model, which counts only where there is no other."""
    last = series.groupby(CELL)["round"].transform("max")
    return series[(series["round"] > 0) | (last == 0)]


def cell_scores(results: Results) -> pd.DataFrame:
    """One row a cell: names, metric, status, reason, `round` (the last that counts), `over_clients`' numbers.

    With `at: last5`, a client's accuracy is first averaged over the last five evaluated rounds. With `at: validation`,
    it is the test accuracy of the round that is best on validation images. The numbers are NaN where the cell does not
    have the study's metric, or no validation images where the study asks for them.
    """
    series = client_series(results)
    counted = counted_rounds(results, series)
    clients = series.merge(counted, on=[*CELL, "round"]).groupby([*CELL, "client"], as_index=False)
    scores = over_clients(clients[["accuracy", "samples"]].mean(), CELL)
    last = counted.groupby(CELL, as_index=False)["round"].max()
    return cell_frame(results).merge(last, on=CELL, how="left").merge(scores, on=CELL, how="left")


def summary(results: Results) -> pd.DataFrame:
    """One row per label × data × heterogeneity, in study order.

    Columns: `score` (the metric used), `status` (`overall`'s, or "missing": no cell, "unscored": no such metric),
    `seeds` and `seeds_failed` (counts), the means over the good seeds of `over_clients`' numbers, sample standard
    deviations over seeds of both accuracies (NaN for one seed), and `compare`'s columns. An entry
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
        column: compare(*(part.pivot(index="label", columns="seed", values=name) for name in ("accuracy", "correct")))
        for column, part in ranked.groupby(COLUMN, sort=False)
    }
    if not parts:
        return pd.DataFrame(index=table.index, columns=["rank", *AGAINST, "supported"])
    return pd.concat(parts, names=COLUMN).reorder_levels(ROW)
