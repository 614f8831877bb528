"""A study as it is parsed: its experiments, each with parts of rows, data, kinds of heterogeneity, model and seeds."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, TypeVar

from fedgrid.grid.study.claim import Claim
from fedgrid.grid.study.codec import Limits
from fedgrid.grid.study.external import ExternalRow
from fedgrid.grid.study.sections import Origin
from fedgrid.grid.study.shown import Shown
from fedgrid.settings import Compute, Training

Settings = Mapping[str, Any]
WITHOUT_FILE = ("hub", "random")
"Weights of a pre-trained model that are no file: those that are downloaded, and drawn ones."
FULL = "full"
"The scale at which a study is as it stands."


@dataclass(frozen=True)
class Configured:
    """A component with all its settings."""

    name: str
    settings: Settings
    identity: Settings
    "Those of its settings that enter keys; see `fedgrid.components.identity`."
    title: str
    reference: str
    "How the study names it: a name, or the path of its file."
    module: str
    file: str | None = None
    "Where it lies outside the package."
    weights: str = ""
    "SHA-256 of the file that its setting `weights` names; of a pre-trained model."

    @property
    def spec(self) -> dict[str, Any]:
        """Name and settings, as they stand in a cell's specification, and the digest of a file of weights."""
        spec = {"name": self.name, "settings": dict(self.identity)}
        return spec | ({"weights": self.weights} if self.weights else {})


@dataclass(frozen=True)
class Heterogeneity:
    """A kind of heterogeneity, as a study names it."""

    component: Configured
    label: str
    "Its name in tables and commands: the study's own where it is `named`, else made of the settings."
    store_folder: str
    "Kind and settings, in letters that a path takes: what folders of its partitions in the store begin with."
    named: bool


@dataclass(frozen=True)
class MethodRow:
    """A row of the tables: a method with its hyperparameters, and the training settings that it is run with."""

    label: str
    title: str
    component: Configured
    training: Training
    work: str
    "What its method costs a client in a round, a formula for the cost table; no part of a cell's identity."
    score: str = "paper"
    "The point of a round at which its cells are read; not part of the key, as `at` is not."
    at: str = "last"
    "The rounds at which its cells are read."
    common: Training = field(default_factory=Training)
    "The training settings of its part of the study, of which it may have some of its own."


OWN_FILE = " (own file)"
"Behind the printed name of a method outside the package, which may have the title of one of the package's."


def printed_names(rows: Iterable[tuple[str, str, str, str | None]]) -> dict[str, str]:
    """Label → the name to print, of rows of (label, method, title, file).

    That is the title, or the label of a row that shares its title and is not called like its method.
    """
    rows = list(rows)
    titles = [title for _, _, title, _ in rows]
    return {
        label: (title if label == method or titles.count(title) == 1 else label) + (OWN_FILE if file else "")
        for label, method, title, file in rows
    }


Value = TypeVar("Value")
Seeds = tuple[int, int, int]
"Seed, seed of the partition, seed of training."


@dataclass(frozen=True)
class Placed(Generic[Value]):
    """A value of a study, with the place where its user can change it."""

    value: Value
    origin: Origin


@dataclass(frozen=True)
class DataEntry:
    """A data set as a study names it."""

    label: str
    component: Configured
    backbone: Settings | None = None
    "Settings of the network whose frozen features stand for the images; None: the images themselves."


@dataclass(frozen=True)
class ModelEntry:
    """A model, and what it can be trained on."""

    component: Configured
    smallest: int
    "Height and width that images need at least."
    modalities: tuple[str, ...] = ()
    "Of the data that it is for; none: of one kind of sample alone."
    kinds: tuple[str, ...] = ("image",)
    "Of samples that it takes: image, text, signal, tabular."
    pretrained: bool = False
    "Whether it is a network of timm that starts from given weights; see `fedgrid.models.base.Model`."


POINTS = ("paper", "global", "received", "adapted", "trained", "validated")
"Points of a round at which cells are read, that of the method's paper first."


@dataclass(frozen=True)
class Reading:
    """How cells are read: the point of a round, and the rounds."""

    score: Annotated[str, Limits(choices=POINTS, was_choice={"main": "paper"})] = "paper"
    at: Annotated[str, Limits(choices=("last", "last5", "validation"))] = "last"


@dataclass(frozen=True)
class SearchedRow:
    """A row some of whose settings are chosen by a search: the row at each point of its grid."""

    points: Sequence[tuple[Settings, MethodRow]]
    "The settings of each point by name, as in ``training.lr``, and the row with them; in the order of the grid."
    seeds: list[Seeds]
    "Those of the search, none of which is one of the table's."
    rungs: tuple[int, ...]
    "Numbers of rounds after which the best points go on; none: every point is trained for the table's rounds."
    origin: Origin


@dataclass(frozen=True)
class Part:
    """Some of an experiment's cells: the product of rows, data, heterogeneities and seeds."""

    origin: Origin
    rows: list[Placed[MethodRow]]
    external: list[Placed[ExternalRow]]
    "Rows of external results."
    data: list[Placed[DataEntry]]
    heterogeneity: list[Placed[Heterogeneity]]
    model: Placed[ModelEntry]
    seeds: list[Seeds]
    reading: Placed[Reading]
    artifacts: tuple[str, ...]
    "Artifacts of the cells."
    notices: list[str]
    "What a reader of its rows might not expect, each in one sentence."
    searches: Mapping[str, SearchedRow] = field(default_factory=dict)
    "By label of a row, the search that chooses its settings; `rows` has that row at the first point of its grid."

    @property
    def partition_seeds(self) -> list[int]:
        """The seeds of the partitions: those of the study's seeds, then those of searches."""
        seeds = [*self.seeds, *(seed for search in self.searches.values() for seed in search.seeds)]
        return list(dict.fromkeys(seed for _, seed, _ in seeds))


@dataclass(frozen=True, kw_only=True)
class Presentation:
    """What a study's file says of an experiment, or of the whole study, beside cells."""

    title: str = ""
    source: str = ""
    "Its place in the paper."
    lacks: Annotated[str, Limits(filled=True)] = ""
    "What a study cannot express of it yet."
    claims: tuple[Claim, ...] = ()
    show: tuple[Shown, ...] | None = None
    "Tables and figures; None: the usual ones."
    assumed: Mapping[str, str] = field(default_factory=dict)
    "Setting → why this value, where the paper does not say."


@dataclass(frozen=True, kw_only=True)
class About(Presentation):
    """The description of an experiment without its cells; a study without experiments is one."""

    others: ClassVar[Any] = Mapping[str, Any]
    report: Reading = field(default_factory=Reading)
    seeds: tuple[int, ...] = (0,)
    partition_seed: int | None = None
    "One partition for all seeds; None: each seed has its own."
    train_seed: int | None = None


@dataclass(frozen=True, kw_only=True)
class ExperimentSettings:
    """What a study says of an experiment beside its cells; the same before and after planning."""

    id: str
    "Empty for a study without experiments."
    about: About
    published: list[dict[str, str]] = field(default_factory=list)
    "The numbers that its paper prints."
    published_elsewhere: list[dict[str, str]] = field(default_factory=list)
    "The numbers that its paper prints of other experiments; claims may be about several."
    listed: list[MethodRow] = field(default_factory=list)
    "Its rows where it has no cells, only a table of settings."


@dataclass(frozen=True, kw_only=True)
class StudySettings:
    """Settings of a study outside its experiments; the same before and after planning."""

    name: str
    results: Path
    "The folder of all studies."
    compute: Compute
    title: str = ""
    scale: str = FULL
    download: bool = True
    "Whether data and weights may be downloaded."
    data_root: Path | None = None
    "The folder of data sets on this machine."
    published: str = ""
    "The file of the numbers that its paper prints."
    assumed: Mapping[str, str] = field(default_factory=dict)
    "Of all experiments: setting → why this value, where the paper does not say."
    notices: tuple[str, ...] = ()
    "What a reader of the study's file might not expect, each in one sentence."
