"""The kinds of tables and figures that a study may show: one file each, whose name is the kind's, in their rooms.

Each file has a dataclass `Options`, which declares what an entry of `show` may say in the hints that
`fedgrid.grid.study.codec` decodes, and the function `make_table` or `draw_figure`. The options of all tables are
``{kind: options("tables", kind) for kind in names("tables")}``.
"""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal

from fedgrid.grid.plan.manifest_model import StudyDescription
from fedgrid.loading import packaged

Room = Literal["tables", "figures"]


@dataclass(frozen=True)
class TableOptions:
    """Base of what a study may say of a kind of tables."""

    needs_cells: ClassVar[bool] = True
    "Whether there is nothing to show of a study without cells."


@dataclass(frozen=True)
class FigureOptions:
    """Base of what a study may say of a kind of figures."""

    subject: ClassVar[Literal["data", "method", "partition", "study"]] = "data"
    "What there is a figure of: each ``data`` set, each ``method`` on it, each ``partition``, or the ``study``."
    of_lines: ClassVar[bool] = False
    "Whether it is drawn for narrow screens too, and with all lines in colour where some are grey."


def names(room: Room) -> list[str]:
    """The kinds of a room, without importing any."""
    return packaged(f"analysis/{room}")


def module(room: Room, kind: str) -> Any:
    """The module that makes a kind of tables or figures."""
    return importlib.import_module(f"fedgrid.analysis.{room}.{kind}")


def options(room: Room, kind: str) -> Any:
    """The class that declares the options of a kind."""
    return module(room, kind).Options


def chosen(room: Room, kind: str, said: Mapping[str, Any]) -> Any:
    """The options of a kind with what a study says of it; what it does not know, of an earlier version, is left out."""
    declared = options(room, kind)
    return declared(**{field.name: said[field.name] for field in fields(declared) if field.name in said})


def first_tables(study: StudyDescription) -> dict[str, Any]:
    """Kind → the options of the first table of it that a study shows."""
    return {table.kind: chosen("tables", table.kind, table.options) for table in reversed(study.shown("table"))}
