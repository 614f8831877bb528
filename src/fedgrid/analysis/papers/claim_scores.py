"""The numbers that claims are about, by row, column and seed: measured ones, and those that the paper prints."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, cached_property
from itertools import combinations

import numpy as np
import pandas as pd

from fedgrid.analysis import kinds
from fedgrid.analysis.papers.measured import timings
from fedgrid.analysis.papers.published import Known, column_of, with_our_keys
from fedgrid.analysis.scores.comparisons import Exact, Scores
from fedgrid.analysis.scores.domains import AVERAGE, EVERY, Column, columns
from fedgrid.analysis.scores.points import RECEIVED, accuracies, client_series
from fedgrid.analysis.scores.results import CELL, ROW, Results
from fedgrid.analysis.scores.summary import cell_scores, entry_statuses
from fedgrid.analysis.tables import rounds
from fedgrid.analysis.tables.attacks import METRIC, WORDS, split_metric
from fedgrid.analysis.tables.common.pivot import AVERAGED
from fedgrid.analysis.tables.costs import mean_traffic

AT = "accuracy@"
"""What a metric begins with that is an accuracy on the curve; the share of the rounds follows."""
LOW_IS_GOOD = ("std_clients", "roughness", "loss_roughness", "rounds", "bytes", "seconds")
UNITS = {"loss_roughness": "nats", "rounds": "rounds", "bytes": "KiB", "seconds": "s"}
"""Metric → its unit, where that is not points of per cent."""
PHRASES = {
    "accuracy": "accuracy",
    "std_clients": "spread over clients",
    "worst_tenth": "accuracy of the worst tenth of the clients",
    "worst_client": "accuracy of the worst client",
    "jain": "Jain's index of the clients' accuracies",
    "roughness": "roughness of the accuracy curve",
    "loss_roughness": "roughness of the loss curve",
    "rounds": "number of rounds to the target",
    "bytes": "traffic of a client in a round",
    "seconds": "time of a round",
    **{name + METRIC: f"accuracy ({words})" for name, words in WORDS.items()},
}
"""Metric → its words in a sentence."""
EXACT = ("bytes",)
"""Metrics without chance."""
WITHOUT_MODELS = ("bytes", "seconds")
"""Metrics that do not depend on what models have learned."""
LEAST_LEARNED = 0.02
"""Share of the way from the accuracy of untrained models to 100 % from which on a row has learned something."""
SETTLED = ("diverged", "unscored", "missing")
"""Statuses of entries without a number that will stay as they are; "missing" is what was never planned."""


class ExactScores(Scores):
    """Scores without chance: one number a row, whose differences are what they are."""

    def between(self, first: str, second: str) -> Exact:
        """The first row less the second."""
        return Exact(self.mean(first) - self.mean(second))

    def of_row(self, row: str) -> Exact:
        """The row against 0."""
        return Exact(self.mean(row))


class Measured:
    """What was measured here."""

    def __init__(self, results: Results):
        self.results = results
        accuracies = (table.options for table in results.study.shown("table") if table.kind == "accuracy")
        self.domains = any(options.get("domains") for options in accuracies)
        self.shown = kinds.first_tables(results.study)
        self.columns = columns(results, self.domains)
        self.labels = {name: label for label, name in results.names.items()}
        parts = timings(results, self.shown.get("phases"))
        self.timed = pd.concat([pd.DataFrame(columns=["row", *CELL, "value"]), *parts])
        self.rows = [*self.labels, *dict.fromkeys(self.timed["row"])]
        printed = results.published or results.published_elsewhere
        self.printed = Printed(results, self.domains) if printed else None
        self.unpaired = {cell.entry for cell in results.finished if not cell.same_partition}
        self.scores = cache(self._scores)
        self._values = cache(self._read)

    @cached_property
    def status(self) -> Mapping[tuple[str, str, str, str], str]:
        """Label, data set, heterogeneity and domain → status, as in `summary`."""
        table = entry_statuses(self.results, cell_scores(self.results, self.domains), "accuracy")
        status: dict[tuple[str, str, str, str], str] = table["status"].to_dict()
        return status

    def _scores(self, metric: str, column: Column) -> Scores:
        values = self._values(metric)
        of_column = values[(values[["data", "heterogeneity", "domain"]] == list(column)).all(axis=1)]
        final = np.array([self._is_final(name, column) for name in of_column["row"]], dtype=bool)
        numbers, correct = (
            of_column[final].pivot(index="row", columns="seed", values=name) for name in ("value", "correct")
        )
        if metric in EXACT:
            return ExactScores(numbers)
        apart = {self.results.names[label] for label, *place in self.unpaired if tuple(place) == column[:2]}
        return Scores(numbers, correct if correct.notna().any(axis=None) else None, apart)

    def _is_final(self, name: str, column: Column) -> bool:
        return name not in self.labels or self.status[self.labels[name], *column] == "ok"

    def planned(self, metric: str, column: Column) -> list[str]:
        """The rows that have or may still have a number; phases of a round have only seconds, and nothing else has."""
        if metric == "seconds":
            return [name for name in self.rows if name not in self.labels]
        return [name for name, label in self.labels.items() if self.status[label, *column] not in SETTLED]

    def rivals(self, name: str, metric: str, column: Column) -> list[str]:
        """The other rows: those that the paper prints there, or else all."""
        others = [other for other in self.planned(metric, column) if other != name]
        printed = self.printed.planned(metric, column) if self.printed else ()
        return [other for other in others if other in printed] or others

    def learned(self, metric: str, column: Column, name: str) -> bool:
        """Whether a row has reached the target, or its models are clearly better than they were before round 1."""
        if metric in WITHOUT_MODELS:
            return True
        of_accuracy = metric == "rounds" or metric.startswith(AT)
        values = self.scores(metric if of_accuracy else "accuracy", column).values
        if name not in values.index or name not in self.labels:
            return True
        if metric == "rounds":
            return bool(values.loc[name].min() <= self.last_round)
        untrained = self.untrained.get((self.labels[name], *column[:2]), 0.0)
        return bool(values.loc[name].mean() >= untrained + LEAST_LEARNED * (100 - untrained))

    @cached_property
    def last_round(self) -> int:
        """The last evaluated round of any cell; a larger number of rounds stands for a target that was not reached."""
        return int(self.results.rows["round"].max())

    @cached_property
    def untrained(self) -> Mapping[tuple[str, str, str], float]:
        """Label, data set and heterogeneity → accuracy in % of the initial model, the mean over clients and seeds."""
        received = accuracies(self.results, [RECEIVED], "test")
        at_start = received[received["round"] == 0]
        means: dict[tuple[str, str, str], float] = (100 * at_start.groupby(ROW)["accuracy"].mean()).to_dict()
        return means

    def _read(self, metric: str) -> pd.DataFrame:
        """One row per row, column and seed with the `value`, and `correct` test images where it is an accuracy."""
        if metric.startswith(AT):
            share = float(metric.removeprefix(AT))
            table = self._on_the_curve(lambda curve: at_share(100 * curve, share))
        elif metric in READERS:
            table = READERS[metric](self)
        else:
            attack, name = split_metric(metric)
            scores = cell_scores(replace(self.results, attack=attack), self.domains)
            scores = scores[scores["status"] == "ok"]
            correct = scores["correct"] if name == "accuracy" else np.nan
            table = scores.assign(value=100 * scores[name], correct=correct)
        if "row" not in table:
            table = table.assign(row=table["label"].map(self.results.names))
        return table.reindex(columns=["row", "data", "heterogeneity", "domain", "seed", "value", "correct"])

    def _on_the_curve(self, statistic: Callable[[pd.Series], float], results: Results | None = None) -> pd.DataFrame:
        """A `statistic` of the curve of each cell: its mean score over clients by evaluated round."""
        curves = client_series(results or self.results).groupby([*CELL, "round"])["accuracy"].mean()
        values = [(*cell, statistic(curve.droplevel(CELL))) for cell, curve in curves.groupby(level=CELL, sort=False)]
        return pd.DataFrame(values, columns=[*CELL, "value"]).merge(self._domains())

    def _domains(self) -> pd.DataFrame:
        """The domain that stands for all clients, by data set and heterogeneity."""
        of_all = [column for column in self.columns if column[2] in (EVERY, AVERAGE)]
        return pd.DataFrame(of_all, columns=["data", "heterogeneity", "domain"])

    def _roughness(self) -> pd.DataFrame:
        return self._on_the_curve(lambda curve: roughness(100 * curve))

    def _loss_roughness(self) -> pd.DataFrame:
        return self._on_the_curve(roughness, replace(self.results, quantity="loss"))

    def _rounds(self) -> pd.DataFrame:
        if "rounds" not in self.shown:
            return pd.DataFrame(columns=[*CELL, "domain", "value"])
        cells = rounds.first_rounds(self.results, self.shown["rounds"]).drop(columns="domain")
        reached = cells["rounds"].where(np.isfinite(cells["rounds"]), self.last_round + 1).where(cells["last"].notna())
        return cells.assign(value=reached).merge(self._domains())

    def _bytes(self) -> pd.DataFrame:
        traffic = mean_traffic(self.results).sum(axis=1).rename("value").reset_index()
        return traffic.merge(self._domains(), on="data").assign(seed=0)

    def _seconds(self) -> pd.DataFrame:
        return self.timed[["row", *CELL, "value"]].merge(self._domains())


READERS: dict[str, Callable[[Measured], pd.DataFrame]] = {
    "roughness": Measured._roughness,
    "loss_roughness": Measured._loss_roughness,
    "rounds": Measured._rounds,
    "bytes": Measured._bytes,
    "seconds": Measured._seconds,
}
"""Metric → its values, for those that are not scores of a cell's clients."""


def at_share(curve: pd.Series, share: float) -> float:
    """The value of a curve, indexed by round, in the last evaluated round of a share of the rounds.

    NaN where none was evaluated until then but that of the initial models.
    """
    until = curve[(curve.index > 0) & (curve.index <= share * curve.index.max())]
    return float(until.iloc[-1]) if len(until) else float("nan")


def roughness(curve: pd.Series) -> float:
    """The mean of |a[r+1] − 2 a[r] + a[r−1]| over the evaluated rounds; NaN for fewer than three."""
    trained = curve[curve.index > 0].to_numpy()
    return float(np.abs(np.diff(trained, n=2)).mean()) if len(trained) > 2 else float("nan")


def column_names(results: Results, column: Column) -> set[str]:
    """What a column may be called: by its data set, its heterogeneity, its domain, and any of them with a comma."""
    parts = [results.title(column[0]), results.heterogeneity_title(column[1]), *filter(None, [column[2]])]
    return {", ".join(some) for number in range(1, 4) for some in combinations(parts, number)}


class Printed:
    """What the paper prints of these rows and columns; of `domains` only where they are columns here."""

    def __init__(self, results: Results, domains: bool):
        self.results = results
        table = with_our_keys([*results.published, *results.published_elsewhere], Known(results))
        own = table.head(len(results.published))
        self._own = own[own["number"].notna()].to_dict("records")
        known = table[table["data_key"].notna() & table["heterogeneity_key"].notna() & (table["row"] != AVERAGED)]
        self.numbers: dict[tuple[str, Column], dict[str, float]] = {}
        for entry in known.to_dict("records"):
            data, heterogeneity, domain, metric = column_of(entry)
            if not np.isnan(entry["number"]) and (domains or domain in (EVERY, AVERAGE)):
                column = (data, heterogeneity, domain if domains else EVERY)
                self.numbers.setdefault((metric, column), {}).setdefault(entry["row"], entry["number"])
        self.rows = list(dict.fromkeys(row for numbers in self.numbers.values() for row in numbers))
        printed = dict.fromkeys(column for _, column in self.numbers)
        self.columns = [column for place in results.columns for column in printed if column[:2] == place]

    @property
    def columns_not_run(self) -> set[tuple[str, str]]:
        """Data set and heterogeneity of the columns that the paper prints for this experiment and that are not here."""
        return {
            (entry["data"], entry["heterogeneity"])
            for entry in self._own
            if (entry["data_key"], entry["heterogeneity_key"]) not in self.results.columns
        }

    def printed_rows(self, metric: str) -> set[str]:
        """The rows that the paper prints for this experiment, whether or not they were run."""
        return {entry["row"] for entry in self._own if entry["metric"] == metric} - {AVERAGED}

    def planned(self, metric: str, column: Column) -> list[str]:
        """The rows that have a number."""
        return list(self.numbers.get((metric, column), {}))

    def scores(self, metric: str, column: Column) -> ExactScores:
        """The printed numbers."""
        return ExactScores(pd.DataFrame({"printed": self.numbers.get((metric, column), {})}, dtype=float))

    def rivals(self, name: str, metric: str, column: Column) -> list[str]:
        """The other rows that have a number."""
        return [row for row in self.planned(metric, column) if row != name]

    def learned(self, metric: str, column: Column, name: str) -> bool:
        """Always: papers print no numbers of untrained models."""
        return True


ClaimScores = Measured | Printed
"""Scores by metric and column, in points of per cent or the metric's own unit; rows by their printed names."""
