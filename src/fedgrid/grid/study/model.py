"""What a study names, resolved: components with all their settings, kinds of heterogeneity, rows of its tables."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Settings = Mapping[str, Any]
FULL = "full"
"The scale at which a study is as it stands."


@dataclass(frozen=True)
class Configured:
    """A component with all its settings."""

    name: str
    settings: Settings
    title: str
    reference: str
    "How the study names it: a name, or the path of a method's file."
    module: str
    file: str | None = None
    "Where it lies outside the package."

    @property
    def spec(self) -> dict[str, Any]:
        """Name and settings, as they stand in a cell's specification."""
        return {"name": self.name, "settings": dict(self.settings)}


@dataclass(frozen=True)
class Heterogeneity:
    """A kind of heterogeneity, as a study names it."""

    component: Configured
    label: str
    "Its name in tables and commands: the study's own where it is `named`, else made of the settings."
    place: str
    "Kind and settings, in letters that a path takes: what folders of its partitions in the store begin with."
    named: bool


@dataclass(frozen=True)
class MethodRow:
    """A row of the tables: a method with its hyperparameters, and the training settings that it is run with."""

    label: str
    title: str
    component: Configured
    training: Settings
    work: str
    "What its method costs a client in a round, a formula for the cost table; no part of a cell's identity."
    score: str = "paper"
    "The point of a round at which its cells are read; no part of their identity, as `at` is none."
    at: str = "last"
    "The rounds at which its cells are read."
    common: Settings = field(default_factory=dict)
    "The training settings of its part of the study, of which it may have some of its own."
