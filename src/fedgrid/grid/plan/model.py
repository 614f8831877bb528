"""Planned data sets, partitions and cells, each with its key and its path in the store.

Plain values and paths, so that a plan can be written to a file and read back without resolving the study again; see
`fedgrid.grid.plan.plan_file`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedgrid.data.common.images import PARTS
from fedgrid.files import check_identity, read_metadata
from fedgrid.grid.plan.cell_metadata import CellResults
from fedgrid.grid.study.model import Configured, MethodRow, Settings
from fedgrid.settings import ARTIFACTS, identity_of_backbone, identity_of_training


@dataclass(frozen=True)
class PlannedDataset:
    """A data set in the store: its images, or the features that a backbone makes of them."""

    store: Path
    label: str
    component: Configured
    key: str
    copy: str = ""
    "Identity of a local copy that is not the original."
    images: "PlannedDataset | None" = None
    "Where these are features: the images that they are made of."
    backbone: Settings | None = None
    "Where these are features: settings of the backbone."
    unavailable: str = ""
    "Why it cannot be had here; a study with experiments is run without it."

    @property
    def name(self) -> str:
        """The name of its component, which is that of its folder in the store."""
        return self.component.name

    @property
    def kind(self) -> str:
        """The rule that makes it, and its folder in the store."""
        return "features" if self.images else "data"

    @property
    def files(self) -> dict[str, Path]:
        """By part: training and test images. Labels belong to the study, so the store does not contain them."""
        return {part: self.store / self.kind / f"{self.name}-{self.key}" / f"{part}.parquet" for part in PARTS}

    @property
    def first_sight(self) -> Path:
        """Notes the checksum of the images that the store first had under this key."""
        return self.store / "originals" / f"{self.name}-{self.key}.json"

    @property
    def built(self) -> bool:
        """Whether the converted files are in the store."""
        return all(file.is_file() for file in self.files.values())

    @property
    def images_file(self) -> Path:
        """The file whose metadata have the checksum of its images; of features, that of what they are made of."""
        return self.stages[0].files["train"]

    @property
    def images_checksum(self) -> str | None:
        """Of the images that the store holds; None where they are not built."""
        return read_metadata(self.images_file)["checksum"] if self.images_file.is_file() else None

    def check(self) -> None:
        """Raises `Damaged` where a file of it is absent, or another one than its name says."""
        for part, file in self.files.items():
            check_identity(file, key=self.key, part=part)

    @property
    def stages(self) -> tuple["PlannedDataset", ...]:
        """What is made, in order: the images, and then the features where these are features."""
        return (self.images, self) if self.images else (self,)

    @property
    def title(self) -> str:
        """The name in tables and figures: a label of the study's own, else that of the data set, and of features."""
        if self.label != self.name:
            return self.label
        title = self.component.title
        return f"{title} ({self.backbone['backbone']} features)" if self.backbone else title

    @property
    def spec(self) -> dict[str, Any]:
        """Its description in a cell's specification."""
        spec = self.component.spec | ({"copy": self.copy} if self.copy else {})
        return spec | ({"backbone": identity_of_backbone(self.backbone)} if self.backbone else {})


@dataclass(frozen=True)
class PlannedPartition:
    """A partition of a data set with a seed."""

    component: Configured
    data: PlannedDataset
    seed: int
    key: str
    label: str
    "Its heterogeneity's name in tables and commands."
    store_folder: str
    "What its folder in the store begins with."
    description: str
    "The head of a column: a label of the study's own, else the whole setting."
    sentence: str
    "The full setting in words."
    tested: str
    "What clients are tested on: ``own``, ``official`` or ``weighted``."

    @property
    def file(self) -> Path:
        """The Parquet file of the partition in the store."""
        folder = self.data.store / "partitions" / self.data.name / f"{self.store_folder}-{self.key}"
        return folder / f"seed={self.seed}.parquet"

    def check(self) -> None:
        """Raises `Damaged` where its file is absent, or another one than its name says."""
        check_identity(self.file, key=self.key, seed=self.seed)

    @property
    def spec(self) -> dict[str, Any]:
        """Everything that its key is made of, apart from the code."""
        return self.component.spec | {"data": self.data.spec, "seed": self.seed}

    @property
    def title(self) -> str:
        """The title of its picture."""
        return f"{self.data.title}: {self.description}, seed {self.seed}"


@dataclass(frozen=True)
class Cell:
    """One training job."""

    row: MethodRow
    partition: PlannedPartition
    model: Configured
    seed: int
    train_seed: int
    code: str
    "Fingerprint of all code that can change its numbers."
    key: str
    artifacts: tuple[str, ...] = ()
    "Artifacts that the study keeps of it; not part of its key."
    pending: bool = False
    "Whether a search has yet to choose its settings; till then they are the grid's first, and no cell has its key."

    @property
    def store(self) -> Path:
        """The folder that holds data, partitions and cells."""
        return self.partition.data.store

    @property
    def components(self) -> tuple[Configured, ...]:
        """Its method, model, kind of partition and data set."""
        return self.row.component, self.model, self.partition.component, self.partition.data.component

    @property
    def heterogeneity(self) -> str:
        """The label of the cell's heterogeneity."""
        return self.partition.label

    @property
    def _folder(self) -> Path:
        return Path("cells", self.row.component.name, self.partition.data.name, self.partition.store_folder)

    @property
    def file(self) -> Path:
        """Its results."""
        return self.store / self._folder / f"s{self.seed}-{self.key}.parquet"

    @property
    def files(self) -> list[Path]:
        """Its results and its artifacts."""
        return [self.file, *self.kept_beside(self.file).values()]

    def kept_beside(self, results: Path) -> dict[str, Path]:
        """The files of the artifacts of `results` by kind: ``x.clusters.parquet`` beside ``x.parquet``."""
        return {kind: results.with_suffix(ARTIFACTS[kind]) for kind in self.artifacts}

    @property
    def done(self) -> bool:
        """Whether all its files are there."""
        return all(file.is_file() for file in self.files)

    @property
    def waiting(self) -> bool:
        """Whether it is to be trained, and can be."""
        return not self.done and not self.partition.data.unavailable

    @property
    def lacks_artifacts(self) -> bool:
        """Whether it has results, but not all of its artifacts."""
        return self.file.is_file() and not self.done

    @property
    def state(self) -> Path:
        """Its state before the last round, where a study has kept it."""
        return self.file.with_suffix(ARTIFACTS["state"])

    @property
    def has_state(self) -> bool:
        """Whether its state is kept, so that the last round alone has to be done for artifacts."""
        return self.state.is_file() or self.set_aside.is_file()

    @property
    def log(self) -> Path:
        """The log of its last attempt."""
        return self.store / "logs" / self._folder / f"s{self.seed}-{self.key}.log"

    @property
    def status(self) -> Path:
        """What its process notes while it has no results; see `fedgrid.jobs.status.Status`."""
        return self.store / "status" / f"{self.key}.json"

    @property
    def checkpoint(self) -> Path:
        """Not an output of its job: it outlives a failed attempt."""
        return self.store / "checkpoints" / f"{self.key}.pt"

    @property
    def set_aside(self) -> Path:
        """A link to its state while artifacts are made that were asked for later; Snakemake deletes a job's outputs."""
        return self.store / "checkpoints" / f"{self.key}.state.pt"

    @property
    def keys(self) -> list[str]:
        """Its key and those of what it is trained on."""
        return [self.key, self.partition.key, *(stage.key for stage in self.partition.data.stages)]

    @property
    def needs(self) -> list[Path]:
        """The files that it is trained on."""
        return [self.partition.file, *self.partition.data.files.values()]

    @property
    def spec(self) -> dict[str, Any]:
        """All that the result depends on, but the code: plain values."""
        return {
            "method": self.row.component.spec,
            "model": self.model.spec,
            "training": identity_of_training(self.row.training),
            "partition": self.partition.spec,
            "seed": self.train_seed,
        }

    @property
    def table_position(self) -> tuple[str, str, str, int]:
        """What names it in a table: row, data, heterogeneity, seed."""
        return self.row.label, self.partition.data.label, self.heterogeneity, self.seed

    def is_of_other_images(self, metadata: CellResults) -> bool:
        """Whether results with these metadata were trained on other images than the store's, if both are known."""
        built, trained_on = self.partition.data.images_checksum, metadata.images
        return None not in (built, trained_on) and built != trained_on

    @property
    def unavailable(self) -> str:
        """Why it cannot be trained here; empty where it can be, or is."""
        return "" if self.done else self.partition.data.unavailable

    @property
    def description(self) -> str:
        """The cell as a person names it."""
        return f"{self.row.label}, {self.partition.data.label}, {self.heterogeneity}, seed {self.seed}"
