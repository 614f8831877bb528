"""The collected results of one study, as the other modules of this package read them."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from fedgrid.errors import UserError, nearest
from fedgrid.files import read_table

DASH = "–"
"""What is printed for an absent value."""
COLUMN = ["data", "heterogeneity"]
"""What names one column group of a table."""
ROW = ["label", *COLUMN]
"""What names one entry of a table."""
CELL = [*ROW, "seed"]
"""What names one cell: one entry and one seed."""
WAITING = ("running", "queued", "missing")
"""Statuses of cells that may still get results by themselves, or by the next run."""
PAPERS = "paper"
"""The study's `score` where each method is scored as its own paper does."""
OWN_FILE = " (own file)"
"""What stands behind the name of a method that is not the package's, which may have the same title."""
FULL = "full"
"""The scale at which a study is as it stands."""
UNSAID: dict[str, Any] = {
    **dict.fromkeys(["partition_seed", "train_seed"]),
    **dict.fromkeys(["source", "lacks"], ""),
    **{"scale": FULL, "described": {}, "partitions": {}, "assumed": {}, "elsewhere": []},
}
"""What holds of a study that does not say otherwise."""
UNSAID_OF_METHOD: dict[str, Any] = {"code": "", "file": None, "elsewhere": []}
"""What holds of a method that does not say otherwise."""
UNAVAILABLE = "unavailable"
"""Status of a cell that cannot be computed here: what it needs is not at hand."""
ABSENT = ("failed", UNAVAILABLE, *WAITING)
"""Statuses of cells without results."""


@dataclass(frozen=True)
class Results:
    """One study with all its cells.

    `study` is the study's part of the manifest, `cells` holds one dictionary a cell (key, label, status, costs, …) and
    `rows` one row per (cell, round, client, metric) with its value. A cell whose status is in `ABSENT` has only names,
    status and reason. `published` are the numbers that a paper prints, as texts.
    """

    study: dict[str, Any]
    cells: list[dict[str, Any]]
    rows: pd.DataFrame
    published: list[dict[str, str]] = field(default_factory=list)

    @property
    def names(self) -> dict[str, str]:
        """Label → the name to print, in study order: the method's title, or the label where that would be ambiguous.

        A method from a file of one's own says so behind it.
        """
        methods = self.study["methods"]
        titles = [method["title"] for method in methods.values()]
        return {
            label: (method["title"] if label == method["method"] or titles.count(method["title"]) == 1 else label)
            + (OWN_FILE if method["file"] else "")
            for label, method in methods.items()
        }

    @property
    def finished(self) -> list[dict[str, Any]]:
        """The cells that have results, be it that they diverged."""
        return [cell for cell in self.cells if cell["status"] not in ABSENT]

    @property
    def columns(self) -> list[tuple[str, str]]:
        """All (data, heterogeneity) that have a cell, in study order, each data set's side by side."""
        found = dict.fromkeys((cell["data"], cell["heterogeneity"]) for cell in self.cells)
        order = list(dict.fromkeys(data for data, _ in found))
        return sorted(found, key=lambda column: order.index(column[0]))

    def column(self, data: str, heterogeneity: str) -> str:
        """The name of a column in a sentence: its heterogeneity, after the data set's title where there are several."""
        several = len({name for name, _ in self.columns}) > 1
        return f"{self.title(data)}, {self.words(heterogeneity)}" if several else self.words(heterogeneity)

    def heterogeneities(self, data: str) -> list[str]:
        """The heterogeneities with which data set `data` was run; `UserError` when it was not run at all."""
        choose(data, [name for name, _ in self.columns], "data set")
        return [heterogeneity for name, heterogeneity in self.columns if name == data]

    def words(self, heterogeneity: str) -> str:
        """A heterogeneity in human words."""
        return self.study["heterogeneity"].get(heterogeneity, heterogeneity)

    def title(self, data: str) -> str:
        """A data set's title, or its name where the study has no title for it."""
        title = self.study["data"].get(data)
        return title if isinstance(title, str) else data

    def point(self, cell: dict[str, Any]) -> str | None:
        """The point of a round at which `cell` is scored: the row's or the study's choice, or its paper's.

        None for a cell without results.
        """
        if cell["status"] in ABSENT:
            return None
        score = self.study["methods"][cell["label"]].get("score") or self.study["score"]
        return cell["score"] if score == PAPERS else score

    def rescored(self, score: str) -> "Results":
        """The same results with every row scored at the point `score`, whatever study and row ask for."""
        methods = {label: {**method, "score": score} for label, method in self.study["methods"].items()}
        return replace(self, study={**self.study, "score": score, "methods": methods})


def choose(name: str, known: list[str], kind: str) -> str:
    """Return `name` when it is among `known`, else raise a `UserError` that names the nearest one."""
    if name in known:
        return name
    raise UserError(f"the study has no {kind} '{name}'; {nearest(name, known)}")


def load(path: Path) -> Results:
    """Read a file that `fedgrid.analysis.scores.collect` wrote."""
    table, head = read_table(path)
    if not {"study", "cells"} <= head.keys():
        raise UserError(f"{path} holds no collected study.")
    return whole(head, table.to_pandas())


def whole(head: dict[str, Any], rows: pd.DataFrame) -> Results:
    """Results of what a collected file says of its cells, and their rows."""
    study = UNSAID | head["study"]
    study["title"] = study["title"].removesuffix(".")  # a sentence goes on behind it
    study["methods"] = {label: UNSAID_OF_METHOD | method for label, method in study["methods"].items()}
    return Results(study, head["cells"], rows, head.get("published", []))
