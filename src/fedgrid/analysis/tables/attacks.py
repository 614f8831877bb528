"""Accuracy on clean images and under attack: rows by data set, heterogeneity and what was done to the images."""

from dataclasses import dataclass, replace

from fedgrid.analysis.kinds import TableOptions
from fedgrid.analysis.scores.results import CLEAN, Results
from fedgrid.analysis.tables.common.grid import Table
from fedgrid.analysis.tables.common.pivot import side_by_side

WORDS = {CLEAN: "Clean", "fgsm": "FGSM", "pgd20": "PGD-20"}
"""What models may be scored on → its words in a header."""
METRIC = "_accuracy"
"""What the name of a printed metric ends with that is of one of them: ``fgsm_accuracy``."""

EXPLAINED = (
    "FGSM: one step of length ε against the model that is scored, by its own scores and the true label. PGD-20: 20 "
    "steps of ε/10 within ε. Bold compares the numbers of its own column."
)


@dataclass(frozen=True)
class Options(TableOptions):
    """What a study may say of it."""

    ranks: bool = False
    "Marks of the first three of a column."


def make_table(results: Results, options: Options) -> Table:
    """One row an entry and attack, with `pivot`'s columns, and the table to print."""
    kinds = {name: (replace(results, attack=name), WORDS[name]) for name in evaluated(results)}
    return side_by_side(kinds, options.ranks, "images", EXPLAINED)


def evaluated(results: Results) -> list[str]:
    """What models of any cell were scored on."""
    return [name for name in WORDS if name == CLEAN or replace(results, attack=name).score_metrics("test")]


def split_metric(metric: str) -> tuple[str, str]:
    """On what a metric is measured, and which one it is there: ``fgsm_accuracy`` is the accuracy under FGSM."""
    return (metric.removesuffix(METRIC), METRIC[1:]) if metric.endswith(METRIC) else (CLEAN, metric)
