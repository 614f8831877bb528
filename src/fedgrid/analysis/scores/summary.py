"""From results to scores: over clients, then over rounds and seeds. All accuracies are fractions in [0, 1]."""

import pandas as pd
from pandas.core.groupby import DataFrameGroupBy

from fedgrid.analysis.scores import domains as of_domains
from fedgrid.analysis.scores.cells import ABSENT, WAITING
from fedgrid.analysis.scores.comparisons import ROUNDING, Scores
from fedgrid.analysis.scores.external import MEAN
from fedgrid.analysis.scores.fairness import SPREADS, spreads
from fedgrid.analysis.scores.leads import AGAINST, compare
from fedgrid.analysis.scores.points import cell_frame, client_series, scored
from fedgrid.analysis.scores.results import CELL, COLUMN, ROW, Results
from fedgrid.grid.plan.manifest_model import UNAVAILABLE

ENTRY = [*ROW, "domain"]
"""What names one entry of a table whose columns may be domains."""
AVERAGED_ROUNDS = {"last": 1, "last5": 5}
"""A row's `at` → how many of the last evaluated rounds a score averages; it knows `VALIDATION` beside them."""
VALIDATION = "validation"
"""A row's `at` where the score is that of the round that is best on validation images."""
SCORED = ("ok", "partial")
"""Statuses of entries that have a score."""
NOTHING_YET = ("failed", UNAVAILABLE, "unfinished")
"""Statuses of entries without a finished seed."""


def over_clients(series: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Summarise clients within each group of `by`.

    Gives `accuracy` (every client counts the same), `accuracy_weighted` (by test samples), `correct` (test samples of
    all clients that are classified right), `std_clients` (population standard deviation) and the numbers of
    `fairness.spreads`.
    """
    groups = series.assign(correct=series["accuracy"] * series["samples"]).groupby(by, sort=False)
    sums = groups[["correct", "samples"]].sum(min_count=1)
    single = groups["client"].min() != MEAN  # of a mean over clients nothing is known of single ones
    numbers = pd.DataFrame(
        {
            "accuracy": groups["accuracy"].mean(),
            "accuracy_weighted": (sums["correct"] / sums["samples"]).where(single),
            "correct": sums["correct"],
            "std_clients": groups["accuracy"].std(ddof=0).where(single),
        }
    )
    spread = spreads(series, by).reindex(numbers.index)
    return numbers.join(spread.where(single, axis=0)).reset_index()


def counted_rounds(results: Results, series: pd.DataFrame) -> pd.DataFrame:
    """The rounds of each cell that its score averages, as its row's `at` or else the study's says.

    `series` are the test accuracies of all cells.
    """
    at = rounds_asked(results)
    parts = []
    for rule in dict.fromkeys(at.values()):
        of_rule = scored(results, "validation") if rule == VALIDATION else series
        of_rule = of_rule[of_rule["label"].map(at) == rule]
        parts.append(best_rounds(of_rule) if rule == VALIDATION else last_rounds(of_rule, AVERAGED_ROUNDS[rule]))
    return pd.concat(parts, ignore_index=True)


def rounds_asked(results: Results) -> dict[str, str]:
    """Label → the row's own `at`, or else the study's."""
    return {label: row.at or results.study.at for label, row in results.study.methods.items()}


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


def cell_scores(results: Results, domains: bool = False) -> pd.DataFrame:
    """One row a cell: names, metric, status, reason, `round` (the last that counts), `over_clients`' numbers.

    With `domains`, one row for each `domain` of a cell's clients, and one for their mean (see `by_domain`).

    With `at: last5`, a client's accuracy is first averaged over the last five evaluated rounds. With `at: validation`,
    it is the test accuracy of the round that is best on validation images. The numbers are NaN where the cell does not
    have the metric that is asked for, or no validation images where they are. They are computed once for `results`;
    every caller gets a copy of its own.
    """
    if domains not in results.scores:
        results.scores[domains] = computed_scores(results, domains)
    return results.scores[domains].copy()


def computed_scores(results: Results, domains: bool) -> pd.DataFrame:
    """`cell_scores` from the rows of the results."""
    clients, counted = client_scores(results)
    scores = over_clients(clients, CELL).assign(domain=of_domains.EVERY)
    if domains:
        scores = pd.concat([scores, *by_domain(clients.merge(of_domains.clients(results)))], ignore_index=True)
    last = counted.groupby(CELL, as_index=False)["round"].max()
    columns = pd.DataFrame(of_domains.columns(results, domains), columns=[*COLUMN, "domain"])
    cells = cell_frame(results).merge(columns, on=COLUMN).merge(last, on=CELL, how="left")
    return cells.merge(scores, on=[*CELL, "domain"], how="left")


def client_scores(results: Results) -> tuple[pd.DataFrame, pd.DataFrame]:
    """One row a cell and client with its `accuracy` and test `samples`, and the rounds of the cells that this averages.

    See `counted_rounds`.
    """
    series = client_series(results)
    counted = counted_rounds(results, series)
    clients = series.merge(counted, on=[*CELL, "round"]).groupby([*CELL, "client"], as_index=False)
    return clients[["accuracy", "samples"]].mean(), counted


def by_domain(clients: pd.DataFrame) -> list[pd.DataFrame]:
    """`over_clients` within each domain of each cell, and over all: there `accuracy` is the mean over domains."""
    if clients.empty:
        return []
    parts = over_clients(clients, [*CELL, "domain"])
    means = parts.groupby(CELL, as_index=False, sort=False)["accuracy"].mean()
    over_all = over_clients(clients, CELL).drop(columns="accuracy").merge(means, on=CELL)
    return [parts, over_all.assign(domain=of_domains.AVERAGE)]


def summary(results: Results, domains: bool = False) -> pd.DataFrame:
    """One row per label × data × heterogeneity × domain, in study order; `domains` as in `cell_scores`.

    Columns: `score` (the metric used), `status` (`overall`'s, or "missing": no cell, "unscored": no such metric),
    `seeds` and `seeds_failed` (counts), the means over the good seeds of `over_clients`' numbers, sample standard
    deviations over seeds of both accuracies (NaN for one seed), and `compare`'s columns. An entry
    of which any seed failed or is not finished is not ranked: the mean of the other seeds would flatter it.
    """
    scores = cell_scores(results, domains)
    good = scored_by_entry(scores, "accuracy")
    table = entry_statuses(results, scores, "accuracy").assign(
        accuracy=good["accuracy"].mean(),
        accuracy_std_seeds=good["accuracy"].std(ddof=1),
        accuracy_weighted=good["accuracy_weighted"].mean(),
        accuracy_weighted_std_seeds=good["accuracy_weighted"].std(ddof=1),
        std_clients=good["std_clients"].mean(),
        **{name: good[name].mean() for name in SPREADS},
    )
    return table.join(compared(results, scores, table)).fillna({"supported": False}).reset_index()


def scored_by_entry(scores: pd.DataFrame, value: str) -> DataFrameGroupBy:
    """The cells that came to their end and have the `value`, by entry."""
    return scores[(scores["status"] == "ok") & scores[value].notna()].groupby(ENTRY)


def entry_statuses(results: Results, scores: pd.DataFrame, value: str) -> pd.DataFrame:
    """`score`, `status`, `seeds` and `seeds_failed` as in `summary`, indexed by entry.

    `scores` has one row per cell (and domain) with its names, metric and status, and the `value` that is to be printed.
    """
    every = scores.groupby(ENTRY)
    columns = of_domains.columns(results, bool((scores["domain"] != of_domains.EVERY).any()))
    index = pd.MultiIndex.from_tuples([(label, *column) for label in results.names for column in columns], names=ENTRY)
    table = pd.DataFrame(
        {
            "score": every["metric"].first(),
            "status": every["status"].agg(overall),
            "seeds": scored_by_entry(scores, value).size(),
            "seeds_failed": every["status"].agg(lambda status: (~status.isin(["ok", UNAVAILABLE, *WAITING])).sum()),
        }
    ).reindex(index)
    counts = ["seeds", "seeds_failed"]
    table[counts] = table[counts].fillna(0).astype(int)
    table.loc[table["status"].isin(SCORED) & (table["seeds"] == 0), "status"] = "unscored"
    table["status"] = table["status"].fillna("missing")
    return table


def overall(status: pd.Series) -> str:
    """The status of an entry by those of its cells: "ok" when all are, else the first that a finished cell has.

    Where the finished ones are all ok: "partial". Where none is finished: "failed" or "unavailable" if one is, else
    "unfinished".
    """
    finished = [word for word in status if word not in ABSENT]
    if not finished:
        return next((word for word in NOTHING_YET if word in set(status)), "unfinished")
    good = "ok" if len(finished) == len(status) else "partial"
    return next((word for word in finished if word != "ok"), good)


def scores_by_column(results: Results, scores: pd.DataFrame, table: pd.DataFrame) -> dict[tuple[str, str, str], Scores]:
    """By data, heterogeneity and domain, the `scores` of those entries of `table` whose status is ok."""
    unpaired = {cell.entry for cell in results.finished if not cell.same_partition}
    ranked = scores.merge(table.loc[table["status"] == "ok", ENTRY], on=ENTRY)
    columns = {}
    for column, part in ranked.groupby([*COLUMN, "domain"], sort=False):
        accuracy, correct = (part.pivot(index="label", columns="seed", values=name) for name in ("accuracy", "correct"))
        apart = {label for label, *of_column in unpaired if tuple(of_column) == column[:2]}
        columns[column] = Scores(accuracy, correct, apart)
    return columns


def compared(results: Results, scores: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    """`compare` within each column, over the entries of `table` whose status is ok."""
    parts = {column: compare(part) for column, part in scores_by_column(results, scores, table.reset_index()).items()}
    if not parts:
        return pd.DataFrame(index=table.index, columns=["rank", *AGAINST, "supported"])
    return pd.concat(parts, names=[*COLUMN, "domain"]).reorder_levels(ENTRY)
