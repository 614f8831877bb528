"""The form of a study: its keys and what each may hold, as dataclasses that `fedgrid.grid.study.codec` decodes.

An open form may have further keys, such as settings of a component, which are checked against the component itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from fedgrid.components import LARGEST
from fedgrid.grid.study.codec import KEY, RAW, Limits
from fedgrid.grid.study.model import FULL, Presentation, Reading, Seeds, Settings
from fedgrid.grid.study.sections import Section, StudyError
from fedgrid.settings import ARTIFACTS

NAME = r"[A-Za-z0-9_][A-Za-z0-9_.-]*"
ONE_LINE = r"[^\x00-\x1f\x7f]*[^\x00-\x20\x7f][^\x00-\x1f\x7f]*"
WAS = {"keep": "artifacts"}
"Keys of earlier versions, each with its name now."
FORM = "letters, digits, '_', '.' and '-'"
Id = Annotated[str, Limits(pattern=NAME, form=FORM, longest=100)]
StudyName = Annotated[str, Limits(pattern=f"(?!store$){NAME}", form=f"{FORM}, and not store", longest=100)]
ScaleName = Annotated[str, Limits(pattern=f"(?!{FULL}$){NAME}", form=f"{FORM}, and not {FULL}", longest=100)]
NO_BRACES = "a path without braces, which Snakemake would take for wildcards"
Folder = Annotated[str, Limits(filled=True, longest=1000, pattern="[^{}]*", form=NO_BRACES)]
Filled = Annotated[str, Limits(filled=True)]
Texts = Filled | Annotated[list[Filled], Limits(filled=True)]
Label = Annotated[str, Limits(filled=True, longest=100, pattern=ONE_LINE, form="a text of one line")]
Positive = Annotated[int, Limits(low=1)]
Seed = Annotated[int, Limits(low=0, high=LARGEST)]
SeedList = Annotated[list[Seed], Limits(filled=True, unique=True, example="[0, 1, 2]")]
Artifacts = Annotated[list[Annotated[str, Limits(choices=tuple(ARTIFACTS))]], Limits(unique=True)]


@dataclass(frozen=True, kw_only=True)
class Open:
    """A form with further keys, each of which may hold anything."""

    others: ClassVar[Any] = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Dataset(Open):
    """A data set with its settings."""

    name: str
    label: Label | None = None


@dataclass(frozen=True, kw_only=True)
class ImportedPartition:
    """The files of another program's partition."""

    path: Texts = field(metadata={KEY: "import"})


@dataclass(frozen=True, kw_only=True)
class Kind(Open):
    """A kind of heterogeneity with its settings."""

    partition: str | ImportedPartition
    label: Label | None = None


@dataclass(frozen=True, kw_only=True)
class Model(Open):
    """A model with its settings."""

    name: str


@dataclass(frozen=True, kw_only=True)
class Search(Open):
    """Settings with the values to choose from on validation images; or switched off."""

    grid: Annotated[Settings, Limits(filled=True)] | None = None
    seeds: SeedList | None = None
    rungs: Annotated[list[Positive], Limits(filled=True, unique=True)] | None = None


SearchOrNot = Annotated[Search, Limits(filled=True)] | bool


@dataclass(frozen=True, kw_only=True)
class Row(Reading, Open):
    """A method with its hyperparameters and its own settings of training, or external results."""

    method: str = ""
    results: Texts | None = None
    title: Label | None = None
    training: Settings = field(default_factory=dict)
    search: SearchOrNot = False


@dataclass(frozen=True, kw_only=True)
class Rows(Open):
    """Rows by label, and a file with more of them."""

    others: ClassVar[Any] = Mapping[Label, Row | None]
    include: Filled | None = None


Methods = str | Annotated[list[str | Rows], Limits(filled=True, unique=True)] | Annotated[Rows, Limits(filled=True)]
Kinds = Annotated[list[Kind], Limits(filled=True)]
Datasets = str | Dataset | Annotated[list[str | Dataset], Limits(filled=True, unique=True)]


@dataclass(frozen=True, kw_only=True)
class MethodsFile:
    """A file of methods that a study includes."""

    methods: Methods


@dataclass(frozen=True, kw_only=True)
class Cells:
    """A part of an experiment, laid over its study; what a mapping or a list in it holds is checked there."""

    was: ClassVar[Mapping[str, str]] = WAS
    data: str | Settings | list[Any] = ""
    heterogeneity: Settings | list[Any] = field(default_factory=dict)
    methods: Methods = ""
    model: str | Settings = ""
    training: Settings = field(default_factory=dict)
    search: SearchOrNot = False
    partition_seed: Seed | None = None
    train_seed: Seed | None = None


@dataclass(frozen=True, kw_only=True)
class ScaledExperiment(Cells):
    """What a scale says of an experiment."""

    seeds: SeedList = field(default_factory=list)
    report: Settings = field(default_factory=dict)
    cells: list[Cells] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Scale(Cells):
    """A study's scale, laid over all of it."""

    seeds: SeedList = field(default_factory=list)
    report: Settings = field(default_factory=dict)
    only: Annotated[list[str], Limits(filled=True)] = field(default_factory=list)
    "Experiments that this scale has."
    experiments: Mapping[str, ScaledExperiment | None] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Experiment(Presentation, ScaledExperiment):
    """An experiment, laid over its study."""

    artifacts: Artifacts = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Protocol(Open):
    """How rows are trained and read, among other keys of a study."""

    section: Section = field(metadata={RAW: True})
    methods: Methods = ""
    model: str | Model = "mlp"
    training: Section = field(default_factory=Section)
    search: SearchOrNot = False
    seeds: SeedList = field(default_factory=lambda: [0])
    partition_seed: Seed | None = None
    "One partition for all seeds; None: each seed has its own."
    train_seed: Seed | None = None
    "One seed of training for all partitions."
    artifacts: Artifacts = field(default_factory=list)
    report: Reading = field(default_factory=Reading)

    @property
    def table_seeds(self) -> list[Seeds]:
        """The seeds of the tables; StudyError where all of them would give the same run."""
        if len(self.seeds) > 1 and self.partition_seed is not None and self.train_seed is not None:
            problem = "with both partition_seed and train_seed fixed, all seeds would give the same run"
            raise StudyError(self.section.origin_of("seeds"), problem)
        return self.with_fixed(self.seeds)

    def with_fixed(self, seeds: Sequence[int]) -> list[Seeds]:
        """Each seed with those of the partition and of training that follow from it, or that are held fixed."""
        partition, train = self.partition_seed, self.train_seed
        return [(seed, seed if partition is None else partition, seed if train is None else train) for seed in seeds]


@dataclass(frozen=True, kw_only=True)
class Part(Protocol):
    """Some of an experiment's cells, with everything laid over the study."""

    data: Datasets
    heterogeneity: Kinds
    methods: Methods = field()  # without the default that it has above


@dataclass(frozen=True, kw_only=True)
class StudyFile(Presentation, Protocol):
    """A study's file, in which experiments may say what a `Part` needs."""

    others: ClassVar[Any] = None
    was: ClassVar[Mapping[str, str]] = WAS
    name: StudyName
    data: Datasets = ""
    heterogeneity: Kinds = field(default_factory=list)
    results: Folder = "results"
    data_root: Filled | None = None
    download: bool = True
    compute: Section = field(default_factory=Section)
    "How cells are computed; see `fedgrid.settings.Compute`."
    published: Filled | None = None
    "CSV of printed numbers, beside the study's file."
    experiments: Annotated[Mapping[Id, Experiment | None], Limits(filled=True)] | None = None
    scales: Mapping[ScaleName, Scale | None] = field(default_factory=dict)
    scale: str = FULL
    "`FULL`, or one of the study's scales."
    only: str | list[str] = ""
    "Experiments to run."
