"""The collected results of one study, as the other modules of this package read them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from fedgrid.analysis.scores.cells import FinishedCell, from_header
from fedgrid.errors import UserError, nearest
from fedgrid.files import read_table
from fedgrid.grid.plan.manifest_model import Cell, Column, StudyDescription
from fedgrid.grid.study.codec import decode
from fedgrid.grid.study.model import printed_names

DASH = "–"
"""What is printed for an absent value."""
COLUMN = ["data", "heterogeneity"]
"""What names one column group of a table."""
ROW = ["label", *COLUMN]
"""What names one entry of a table."""
CELL = [*ROW, "seed"]
"""What names one cell: one entry and one seed."""
PAPERS = "paper"
"""The study's `score` where each method is scored as its own paper does."""
METRIC = re.compile(
    "^(?:(?P<clients>sample|new)_)?(?:(?P<images>validation)_|(?P<attack>fgsm|pgd20)_)?"
    "(?P<quantity>accuracy|loss|bytes)_(?P<point>.+)$"
)
"""The name of a metric in parts, such as ``sample_validation_accuracy_received``; the point of bytes is up or down."""
MEMBERS, SAMPLE, NEW = "members", "sample", "new"
"""Clients that are scored: all that train, those scored between evaluations of all, and those who join afterwards."""
CLEAN = "clean"
"""No attack."""


@dataclass(frozen=True, eq=False)
class Results:
    """One study with all its cells.

    `rows` has one row per (cell, round, client, metric) with its value. `published` are the numbers that a paper
    prints, as texts; `published_elsewhere` are those of other experiments of the paper.
    """

    study: StudyDescription
    cells: list[Cell]
    rows: pd.DataFrame
    published: list[dict[str, str]] = field(default_factory=list)
    published_elsewhere: list[dict[str, str]] = field(default_factory=list)
    clients: str = MEMBERS
    "Whose models are scored: all `MEMBERS`, a `SAMPLE` or `NEW` clients."
    attack: str = CLEAN
    "What is done to test images: `CLEAN`, or the name of an attack."
    quantity: str = "accuracy"
    "What scores models on test images: ``accuracy``, or ``loss`` (cross entropy, nats)."
    scores: dict[bool, pd.DataFrame] = field(default_factory=dict, init=False, repr=False)
    "What `summary.cell_scores` has computed of these results, without and with domains."

    @cached_property
    def metrics(self) -> pd.DataFrame:
        """The parts of `METRIC` by name of those metrics that have them; `images` are ``test`` or ``validation``."""
        names = self.rows["metric"].unique().astype(str)
        parts = pd.Series(names, index=names, dtype=str).str.extract(METRIC).dropna(subset="quantity")
        return parts.fillna({"clients": MEMBERS, "images": "test", "attack": CLEAN})

    def score_metrics(self, images: str) -> dict[str, str]:
        """The metrics that score these results on some `images` → ``accuracy_`` with the point of a round.

        On validation images models and rounds are chosen by accuracy, whatever the quantity on test images.
        """
        known, quantity = self.metrics, self.quantity if images == "test" else "accuracy"
        wanted = {"clients": self.clients, "images": images, "attack": self.attack, "quantity": quantity}
        chosen = known[(known[list(wanted)] == list(wanted.values())).all(axis=1)]
        return {str(name): f"accuracy_{point}" for name, point in chosen["point"].items()}

    @property
    def names(self) -> dict[str, str]:
        """Label → the name to print, in study order."""
        rows = self.study.methods.items()
        return printed_names((label, row.method, row.title, row.file) for label, row in rows)

    @property
    def finished(self) -> list[FinishedCell]:
        """The cells that have results, including those that diverged."""
        return [cell for cell in self.cells if isinstance(cell, FinishedCell)]

    @property
    def completed(self) -> list[FinishedCell]:
        """The cells that fedgrid trained to their end."""
        return [cell for cell in self.trained if cell.status == "ok"]

    @property
    def trained(self) -> list[FinishedCell]:
        """The finished cells that were computed by fedgrid, not taken from a file of others."""
        return [cell for cell in self.finished if not cell.external]

    @property
    def to_train(self) -> list[Cell]:
        """All cells but those of external results."""
        return [cell for cell in self.cells if not (isinstance(cell, FinishedCell) and cell.external)]

    @property
    def own(self) -> list[str]:
        """The rows of methods in files of the user's own, by label."""
        return [label for label, row in self.study.methods.items() if row.file]

    @property
    def columns(self) -> list[Column]:
        """All (data, heterogeneity) that have a cell, in study order, each data set's side by side."""
        columns = dict.fromkeys(cell.column for cell in self.cells)
        order = list(dict.fromkeys(data for data, _ in columns))
        return sorted(columns, key=lambda column: order.index(column[0]))

    def column(self, data: str, heterogeneity: str) -> str:
        """The name of a column in a sentence: its heterogeneity, after the data set's title where there are several."""
        several = len({name for name, _ in self.columns}) > 1
        return ", ".join(self.titles(data, heterogeneity)) if several else self.heterogeneity_title(heterogeneity)

    def heterogeneities(self, data: str) -> list[str]:
        """The heterogeneities with which data set `data` was run; `UserError` when it was not run at all."""
        choose(data, [name for name, _ in self.columns], "data set")
        return [heterogeneity for name, heterogeneity in self.columns if name == data]

    def panel_titles(self, data: str) -> dict[str, str]:
        """Heterogeneity → its title, as `heterogeneities`."""
        return {heterogeneity: self.heterogeneity_title(heterogeneity) for heterogeneity in self.heterogeneities(data)}

    def titles(self, data: str, heterogeneity: str) -> tuple[str, str]:
        """The titles of a column's data set and heterogeneity."""
        return self.title(data), self.heterogeneity_title(heterogeneity)

    def heterogeneity_title(self, heterogeneity: str) -> str:
        """A heterogeneity in human words."""
        return self.study.heterogeneity.get(heterogeneity, heterogeneity)

    def title(self, data: str) -> str:
        """A data set's title, or its name where the study has no title for it."""
        return self.study.data.get(data, data)

    def point(self, cell: Cell) -> str | None:
        """The point of a round at which `cell` is scored: the row's or the study's choice, or its paper's.

        None for a cell without results. Those of others are scored as they are reported.
        """
        if not isinstance(cell, FinishedCell):
            return None
        if cell.external:
            return cell.score
        score = self.study.methods[cell.label].score or self.study.score
        return cell.score if score == PAPERS else score

    def rescored(self, score: str) -> "Results":
        """The same results with every row scored at the point `score`, whatever study and row ask for."""
        methods = {label: replace(method, score=score) for label, method in self.study.methods.items()}
        return replace(self, study=replace(self.study, score=score, methods=methods))


def choose(name: str, known: list[str], kind: str) -> str:
    """Return `name` when it is among `known`, else raise a `UserError` that names the nearest one."""
    if name in known:
        return name
    raise UserError(f"the study has no {kind} '{name}'; {nearest(name, known)}")


def load(path: Path) -> Results:
    """Read a file that `fedgrid.analysis.scores.collect` wrote."""
    table, head = read_table(path)
    try:
        return from_parts(head, table)
    except ValueError as error:
        raise UserError(f"{path}: not the results of a study, or of another version of fedgrid ({error})") from error


def from_parts(head: Mapping[str, Any], rows: pa.Table) -> Results:
    """The results of the metadata and the rows of a file; ValueError where the metadata are not those of results."""
    study = decode(StudyDescription, head.get("study"), "study")
    cells = [from_header(cell, f"cells[{i}]") for i, cell in enumerate(head.get("cells", []))]
    printed = head.get("published", []), head.get("published_elsewhere", [])
    return Results(in_sentences(study), cells, rows.to_pandas(), *printed)


def in_sentences(study: StudyDescription) -> StudyDescription:
    """The study, with a title that a sentence can continue."""
    return replace(study, title=study.title.removesuffix("."))
