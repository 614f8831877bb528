"""Accuracy on clean images and under attack: rows by data set, heterogeneity and what was done to the images."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from fedgrid.analysis.prose import captions
from fedgrid.analysis.prose.footnotes import Footnotes
from fedgrid.analysis.scores.domains import Column
from fedgrid.analysis.scores.results import Results
from fedgrid.analysis.scores.summary import cell_scores
from fedgrid.analysis.tables.accuracy import of_entry
from fedgrid.analysis.tables.grid import Entry, Grid, levels
from fedgrid.analysis.tables.pivot import Pivot, pivot

CLEAN = "clean"
"""What models are always scored on."""
WORDS = {CLEAN: "Clean", "fgsm": "FGSM", "pgd20": "PGD-20"}
"""What models may be scored on → its words in a header."""
METRIC = "_accuracy"
"""What the name of a printed metric ends with that is of one of them: ``fgsm_accuracy``."""


def attacks(results: Results, options: Mapping[str, Any]) -> tuple[pd.DataFrame, Grid]:
    """One row an entry and attack, with `pivot`'s columns, and the table to print; the option is `ranks`."""
    pivoted = {name: pivot(results_under_attack(results, name)) for name in evaluated(results)}
    clean = pivoted[CLEAN]
    notes, several = Footnotes(results, clean.table.reset_index()), len(results.study.seeds) > 1
    columns = [(column, name) for column in clean.columns for name in pivoted]
    entries = {name: part.table.to_dict("index") for name, part in pivoted.items()}
    means = {name: part.averaged.to_dict("index") for name, part in pivoted.items()}

    def printed(label: str, column: Column, name: str) -> list[Entry]:
        letter = notes.letter(label, *column[:2])
        return of_entry(entries[name][label, *column], means[name][column], letter, options, column[2], several)

    rows = [
        (row, [entry for column in columns for entry in printed(label, *column)]) for label, row in clean.rows.items()
    ]
    leaves = [
        (results.title(data), results.heterogeneity_title(heterogeneity), WORDS[name])
        for (data, heterogeneity, _), name in columns
    ]
    tidy = pd.concat([part.tidy(averaged=False).assign(images=name) for name, part in pivoted.items()])
    return tidy, Grid(caption(results, clean, bool(options.get("ranks"))), "Method", levels(leaves), rows, notes.texts)


def evaluated(results: Results) -> list[str]:
    """What models of any cell were scored on."""
    metrics = set(results.rows["metric"].unique())
    return [CLEAN, *(name for name in WORDS if any(metric.startswith(f"{name}{METRIC}_") for metric in metrics))]


def of_images(metric: str) -> tuple[str, str]:
    """On what a metric is measured, and which one it is there: ``fgsm_accuracy`` is the accuracy under FGSM."""
    return (metric.removesuffix(METRIC), METRIC[1:]) if metric.endswith(METRIC) else (CLEAN, metric)


def results_under_attack(results: Results, name: str) -> Results:
    """The results with the images under an attack as test images; `CLEAN` returns them unchanged."""
    if name == CLEAN:
        return results
    metric = results.rows["metric"].astype(str)
    wanted = metric.str.startswith(f"{name}_") | metric.isin(["train_samples", "test_samples"])
    rows = results.rows[wanted].assign(metric=metric[wanted].str.removeprefix(f"{name}_"))
    return replace(results, rows=rows)


def caption(results: Results, pivoted: Pivot, ranks: bool) -> str:
    """What the numbers are; `pivoted` are those of clean images."""
    return " ".join(
        [
            captions.accuracy_table(results, cell_scores(results), pivoted.table.reset_index(), False, ranks),
            "FGSM: one step of length ε against the model that is scored, by its own scores and the true label. "
            "PGD-20: 20 steps of ε/10 within ε. Bold compares the numbers of its own column.",
        ]
    )
