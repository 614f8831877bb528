"""Our numbers seed by seed, under the names and in the units in which papers print them."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pandas as pd

from fedgrid.analysis import kinds
from fedgrid.analysis.scores.results import CELL, ROW, Results
from fedgrid.analysis.scores.summary import SCORED, cell_scores, entry_statuses
from fedgrid.analysis.tables import phases, rounds
from fedgrid.analysis.tables.attacks import METRIC, evaluated

PRINTED_COLUMN = ["data", "heterogeneity", "domain", "metric"]
"""What names one column of printed numbers."""
COORDINATES = ["row", *PRINTED_COLUMN]
"""What names one printed number."""
DELTA = "accuracy_delta_vs_"
"""What the name of a metric begins with that is a difference of accuracies to a row, whose name follows."""


def statuses(results: Results) -> pd.DataFrame:
    """`summary.entry_statuses` by label, data and heterogeneity."""
    return entry_statuses(results, cell_scores(results), "accuracy").droplevel("domain")


def by_seed(results: Results) -> pd.DataFrame:
    """One row per `COORDINATES` and seed with the `value`: percent, points, rounds or seconds; `row` is a printed name.

    There are numbers of all clients, and where clients have domains of each domain and of their mean; accuracies under
    attack, rounds and seconds where the study shows such a table.
    """
    scores = pd.concat([cell_scores(results), cell_scores(results, domains=True)])
    scores = scores.drop_duplicates([*CELL, "domain"])
    by_metric = [scores.assign(metric=name, value=100 * scores[name]) for name in ("accuracy", "std_clients")]
    for title in dict.fromkeys(entry["metric"] for entry in results.published):
        label = compared_with(results, title)
        if label:
            by_metric.append(scores.assign(metric=title, value=100 * difference(scores, label)))
    shown = kinds.first_tables(results.study)
    for name in evaluated(results) if "attacks" in shown else []:
        of_images = cell_scores(replace(results, attack=name))
        by_metric.append(of_images.assign(metric=name + METRIC, value=100 * of_images["accuracy"]))
    if "rounds" in shown:
        cells = rounds.first_rounds(results, shown["rounds"])
        by_metric.append(cells.assign(metric="rounds", value=cells["rounds"]))
    numbers = pd.concat(by_metric)
    entries = pd.MultiIndex.from_frame(numbers[ROW])
    scored = np.isin(statuses(results)["status"].reindex(entries), SCORED)
    numbers = numbers[scored & (numbers["status"] == "ok") & numbers["value"].notna()]
    numbers = numbers.assign(row=numbers["label"].map(results.names))
    numbers = pd.concat([numbers, *timings(results, shown.get("phases"))])
    return numbers[[*COORDINATES, "seed", "value"]].reset_index(drop=True)


def compared_with(results: Results, title: str) -> str | None:
    """The label of the row that a metric with the name `title` is a difference to."""
    suffix = title.removeprefix(DELTA)
    names = {name.casefold().replace(" ", "_"): label for label, name in results.names.items()}
    return names.get(suffix.casefold()) if suffix != title else None


def difference(scores: pd.DataFrame, label: str) -> pd.Series:
    """The accuracy of every row of `scores` less that of the row `label` with the same seed."""
    keys = ["data", "heterogeneity", "domain", "seed"]
    there = scores[(scores["label"] == label) & (scores["status"] == "ok")].set_index(keys)["accuracy"]
    return scores["accuracy"] - there.reindex(pd.MultiIndex.from_frame(scores[keys])).to_numpy()


def timings(results: Results, shown: phases.Options | None) -> Iterator[pd.DataFrame]:
    """Seconds of phases, each a row; where several rows are timed, with the name of the row in front."""
    if shown is not None:
        cells = phases.seconds(results, shown)
        several = cells["label"].nunique() > 1
        names = [f"{results.names[label]}: " if several else "" for label in cells["label"]]
        yield cells.assign(row=names + cells["phase"], metric="seconds", domain="", value=cells["seconds"])


def over_seeds(numbers: pd.DataFrame) -> pd.DataFrame:
    """`ours`, `ours_std_seeds` and `seeds` by `COORDINATES`.

    Rounds are the median over seeds, without a spread, all others the mean with the sample standard deviation.
    """
    groups = numbers.groupby(COORDINATES, sort=False)["value"]
    table = pd.DataFrame({"ours": groups.mean(), "ours_std_seeds": groups.std(), "seeds": groups.size()})
    of_rounds = table.index.get_level_values("metric") == "rounds"
    table.loc[of_rounds, "ours"] = groups.median()[of_rounds]
    table.loc[of_rounds, "ours_std_seeds"] = np.nan
    return table
