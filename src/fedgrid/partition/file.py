"""A published partition: a file says which client holds which images.

In a study: ``partition: "file:path/to/partition.parquet"``; ``{seed}`` in the path stands for the partition's seed. The
file is one that fedgrid wrote or that ``fedgrid export-partition`` published. It counts only beside the very same
images: the checksum of the data set is compared, and the rows with the file's own digest.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fedgrid.components import hp
from fedgrid.data.common.images import DatasetInfo
from fedgrid.data.common.store import Labels
from fedgrid.errors import UserError
from fedgrid.files import path_of
from fedgrid.partition.base import Expected, Partition
from fedgrid.partition.common.publish import checked, facts
from fedgrid.partition.common.rows import EVERYONE, SPLITS, split_numbers
from fedgrid.partition.importing.forms import refuse_foreign


def name_of(path: str) -> str:
    """The name of a published partition: of one file a seed, that of their folder."""
    file = Path(path)
    return file.parent.name if "{seed}" in path else file.stem


class File(Partition):
    title = "published partition"
    source = "whoever published it"
    from_file = True

    path: str = hp("")
    "The Parquet file; {seed} stands for the partition's seed."

    def sentence(self) -> str:
        return f"published partition {name_of(self.path)}"

    def sentence_with_origin(self, seed: int) -> str:
        published = facts(self.file_of(seed))
        return self.sentence() + (f", {published['words']}" if "origin" in published else "")

    def file_of(self, seed: int) -> Path:
        """The file of a seed."""
        return path_of(self.path.replace("{seed}", str(seed)), "partition.path")

    def identity(self, seed: int) -> dict[str, Any]:
        published = facts(self.file_of(seed))
        return {name: published[name] for name in ("digest", "test", "clients", "classes")}

    def tested(self, seed: int) -> str:
        test: str = facts(self.file_of(seed))["test"]
        return test

    def validated(self, seed: int) -> bool:
        table, _ = checked(self.file_of(seed))
        return "validation" in pc.unique(table["split"]).to_pylist()

    def check_feasible(self, info: DatasetInfo, seeds: list[int]) -> None:
        if not self.path:
            raise UserError("partition: 'file' needs a path, as in file:published/partition.parquet")
        for file in map(self.file_of, seeds):
            refuse_foreign(file)
            classes = facts(file)["classes"]
            if len(classes) != len(info.classes):
                raise UserError(f"{file}: made for {len(classes)} classes, the data set has {len(info.classes)}")

    def expected(self, info: DatasetInfo, seed: int) -> Expected:
        table, metadata = checked(self.file_of(seed))
        shared = pc.sum(pc.equal(table["client"], EVERYONE)).as_py() or 0
        train, validation, test = np.bincount(split_numbers(table), minlength=len(SPLITS)).tolist()
        testers = metadata["clients"] // (len(info.modalities) or 1)  # a client is tested on its own modality
        return Expected(metadata["clients"], train, validation, test + (testers - 1) * shared)

    def about(self, pool: Labels, seed: int) -> dict[str, Any]:
        published = facts(self.file_of(seed))
        return {name: published[name] for name in ("clients", "words", "test", "names") if name in published}

    def split(self, pool: Labels, seed: int) -> pa.Table:
        table, metadata = checked(self.file_of(seed))
        if metadata["data_checksum"] != pool.checksum:
            raise UserError(
                f"{self.file_of(seed)}: made for other images of '{metadata['data']}' (data checksum "
                f"{metadata['data_checksum'][:16]}…, here {pool.checksum[:16]}…)"
            )
        return table
