"""What a manifest says of an experiment: the study's description, its rows and its cells, as plain values.

`fedgrid.grid.plan.manifest` makes it from a planned study; tables, figures and pages are made from it. A field with a
default may be absent from what an earlier version wrote, and then the default is what held.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from fedgrid.errors import UserError
from fedgrid.files import read_json
from fedgrid.grid.plan.searches import Choice
from fedgrid.grid.study.claim import Claim
from fedgrid.grid.study.codec import decode
from fedgrid.grid.study.external import ExternalRow
from fedgrid.grid.study.model import FULL

REPORTED = "reported"
"The point at which rows of external results are scored: whatever they report."
UNAVAILABLE = "unavailable"
"Status of a cell that cannot be computed on this machine: its data are unavailable."
LEFT_OUT = "left_out"
"The key, in the metadata of a partition, of what balancing left out: numbers, and the same in `words`."
Settings = dict[str, Any]
Column = tuple[str, str]
"Data set and heterogeneity, by label."


@dataclass(frozen=True)
class ColumnProtocol:
    """How cells are trained in columns that differ in it from the study's protocol."""

    columns: list[Column]
    protocol: Settings
    "The training settings that differ; None: not set there."
    model: str | None = None
    "None: the study's."


@dataclass(frozen=True)
class ColumnSettings:
    """The settings of a row in columns that differ from its first one; None: not set there."""

    columns: list[Column]
    settings: Settings


@dataclass(frozen=True)
class RowDescription:
    """A row of the tables: a method with its settings."""

    method: str
    title: str
    name: str = ""
    "The method's own title, whatever the row is called."
    work: str = ""
    "Formula for what a round costs a client."
    score: str = ""
    "The point of a round at which it is scored; empty: the study's."
    at: str = ""
    "The rounds at which it is scored; empty: the study's."
    settings: Settings = field(default_factory=dict)
    "Hyperparameters, and the training settings that are its own, in its first column."
    file: str | None = None
    "Where the method lies outside the package."
    elsewhere: list[ColumnSettings] = field(default_factory=list)
    code: str = ""
    "Digest of all code that can change its numbers."
    external: str = ""
    "Where its numbers come from if they were computed elsewhere: a file and its digest."


@dataclass(frozen=True)
class Shown:
    """A table or figure that an experiment shows: its kind and its options."""

    kind: str
    options: Settings = field(default_factory=dict)


@dataclass(frozen=True)
class SearchDescription:
    """How the settings of a row were chosen in a column."""

    row: str
    data: str
    heterogeneity: str
    points: list[Settings]
    "Settings by name, in the order of the grid."
    seeds: list[int]
    rounds: list[int]
    "Of each rung."
    choices: list[Choice]
    "What was chosen on each rung, as far as it is."
    chosen: int | None = None
    "The number of the point that the table has; None before it is chosen."

    @property
    def column(self) -> Column:
        """Data set and heterogeneity."""
        return self.data, self.heterogeneity


@dataclass(frozen=True)
class StudyDescription:
    """An experiment, or a study without experiments, in words and settings."""

    name: str
    title: str
    source: str = ""
    "Its place in the paper."
    lacks: str = ""
    "What a study cannot express of it yet."
    claims: list[Claim] = field(default_factory=list)
    assumed: dict[str, str] = field(default_factory=dict)
    "Setting → why this value, where the paper does not say."
    show: list[dict[str, Any]] | None = None
    "Tables and figures as the study lists them; None: the usual ones. See `shown`."
    paper: str = ""
    "Title of the study that this is an experiment of."
    score: str = "paper"
    at: str = "last"
    seeds: list[int] = field(default_factory=list)
    partition_seed: int | None = None
    train_seed: int | None = None
    rounds: int = 0
    protocol: Settings = field(default_factory=dict)
    model: str = ""
    elsewhere: list[ColumnProtocol] = field(default_factory=list)
    data: dict[str, str] = field(default_factory=dict)
    "Label → title."
    heterogeneity: dict[str, str] = field(default_factory=dict)
    "Label → the head of its columns."
    described: dict[str, str] = field(default_factory=dict)
    "Label of a heterogeneity → the whole setting as a sentence."
    partitions: dict[str, dict[str, Settings]] = field(default_factory=dict)
    "Data set → heterogeneity → the kind as ``partition``, and all its settings."
    tested: list[str] = field(default_factory=list)
    "What accuracy is measured on."
    methods: dict[str, RowDescription] = field(default_factory=dict)
    "Label → row."
    scale: str = FULL
    searches: list[SearchDescription] = field(default_factory=list)

    def shown(self, what: Literal["table", "figure"], usual: Sequence[Shown] = ()) -> list[Shown]:
        """Its tables or figures in their order; the `usual` ones where it does not say what it shows."""
        if self.show is None:
            return list(usual)
        listed = (dict(entry) for entry in self.show if what in entry)
        return [Shown(entry.pop(what), entry) for entry in listed]


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A cell of an experiment: its names, its files, and why it has no results, if it has none."""

    key: str
    label: str
    method: str
    data: str
    heterogeneity: str
    seed: int
    partition: Path
    path: Path = Path()
    "Its results; of external ones the file of the whole row."
    kept: dict[str, Path] = field(default_factory=dict)
    "Kind of artifact → its file."
    needs: list[str] = field(default_factory=list)
    "Its key and those of what it is trained on."
    images_file: Path | None = None
    "The file whose metadata have the checksum of the images that it is trained on."
    status: str = ""
    "Why it has no results, such as ``failed``; empty in a manifest where it is to have them."
    reason: str = ""

    @property
    def column(self) -> Column:
        """The data set and heterogeneity of the cell."""
        return self.data, self.heterogeneity

    @property
    def entry(self) -> tuple[str, str, str]:
        """What names its entry of a table: row, data, heterogeneity."""
        return self.label, self.data, self.heterogeneity

    @property
    def table_position(self) -> tuple[str, str, str, int]:
        """What names it among the cells of its experiment: row, data, heterogeneity, seed."""
        return *self.entry, self.seed


@dataclass(frozen=True)
class Manifest:
    """What the tables and figures of an experiment are made from."""

    study: StudyDescription
    cells: list[Cell]
    published: list[dict[str, str]] = field(default_factory=list)
    "The numbers that its paper prints."
    published_elsewhere: list[dict[str, str]] = field(default_factory=list)
    "The numbers that its paper prints of other experiments."
    external: list[ExternalRow] = field(default_factory=list)
    "Rows of external results."

    def without(self, absent: Mapping[str, tuple[str, str]]) -> "Manifest":
        """The same, where these cells, by key, have no results: a status and a reason."""
        cells = []
        for cell in self.cells:
            status, reason = absent.get(cell.key, (cell.status, cell.reason))
            cells.append(replace(cell, status=status, reason=reason))
        return replace(self, cells=cells)


def read_manifest(file: Path) -> Manifest:
    """The manifest in a file; UserError where it is none, `Damaged` where it is not what was written."""
    content = read_json(file)
    try:
        return decode(Manifest, content)
    except ValueError as error:
        raise UserError(f"{file}: not a manifest of this version of fedgrid ({error})") from error
