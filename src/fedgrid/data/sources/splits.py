"""Tables that the library `datasets` opens: of the Hugging Face hub, or of a folder in one of its formats.

A folder is what `save_to_disk` wrote, or holds Parquet, Arrow, CSV or JSON files, or pictures in folders of their
classes or beside a file of metadata. The library keeps what it converts in its own cache (`HF_HOME`), where later
calls find it.
"""

import contextlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from fedgrid.data.sources.digests import digests
from fedgrid.errors import UserError, nearest, reason

AT_ONCE = 1_000
"Rows that are read together."
MISSING = -1
"The class of a row without one, as in sets of the hub whose test part is secret."
COMMIT = re.compile("[0-9a-f]{40}")
"A revision that names one state of a set for ever."
SAVED = ("dataset_dict.json", "dataset_info.json")
"Files that `save_to_disk` leaves: in the folder of several splits, and in that of each."


class Rows:
    """Columns of a split, row by row; pictures stay encoded, and numbers of classes become their names."""

    def __init__(self, split: Any, name: str):
        self.split, self.name = split, name
        "A `datasets.Dataset`, and the name of its split in sentences."

    def __len__(self) -> int:
        return len(self.split)

    @property
    def columns(self) -> list[str]:
        """The names of all columns."""
        names: list[str] = list(self.split.column_names)
        return names

    def is_picture(self, column: str) -> bool:
        """Whether a column holds pictures."""
        return type(self.split.features[column]).__name__ == "Image"

    @property
    def commit(self) -> str:
        """The commit of the set of the hub that this is, where the library says so; else empty."""
        folders = [Path(file["filename"]).parent.name for file in self.split.cache_files]
        return next((name for name in folders if COMMIT.fullmatch(name)), "")

    def classes(self, column: str) -> list[str]:
        """The names of the classes of a column of labels that states them, in the order of their numbers; else none."""
        names: list[str] = list(getattr(self.split.features[column], "names", None) or ())
        return names

    def batches(self, columns: Sequence[str]) -> Iterator[tuple[int, pa.Table]]:
        """The number of the first row, and those columns of so many rows at a time."""
        from datasets import Image

        chosen = self.split.select_columns(list(columns))
        for column in filter(self.is_picture, columns):
            chosen = chosen.cast_column(column, Image(decode=False))
        for number, table in enumerate(chosen.with_format("arrow").iter(AT_ONCE)):
            for place, column in enumerate(table.column_names):
                if names := self.classes(column):
                    table = table.set_column(place, column, _named(table[column], names))
            yield number * AT_ONCE, table

    def check(self, column: str, setting: str) -> None:
        """Raises UserError where there is no such column."""
        if column not in self.columns:
            raise UserError(f"{setting}: no column '{column}'; {nearest(column, self.columns)}")


def in_folder(folder: Path, splits: Mapping[str, str], kept: Path) -> dict[str, Rows]:
    """The splits of a folder by part; UserError where one is missing or the folder is none of this kind.

    `kept` is where the library keeps what it converts, of files with this content alone: it knows files by their times.
    """
    import datasets

    with _naming(str(folder)):
        if any((folder / name).is_file() for name in SAVED):
            found = datasets.load_from_disk(str(folder))
        else:
            found = datasets.load_dataset(str(folder), cache_dir=str(kept))
    return _by_part(found, splits, str(folder))


def of_hub(name: str, subset: str, revision: str, splits: Mapping[str, str], download: bool) -> dict[str, Rows]:
    """The splits of a set of the hub by part; without `download`, from what an earlier download left in the cache.

    Raises UserError where what the cache has is not of the commit that is named.
    """
    import datasets

    before = datasets.config.HF_HUB_OFFLINE
    datasets.config.HF_HUB_OFFLINE = before or not download
    try:
        with _naming(f"'{name}' of the hub"):
            found = datasets.load_dataset(name, subset or None, revision=revision or None)
    finally:
        datasets.config.HF_HUB_OFFLINE = before
    parts = _by_part(found, splits, f"'{name}' of the hub")
    if COMMIT.fullmatch(revision) and any(rows.commit not in ("", revision) for rows in parts.values()):
        raise UserError(f"revision: the hub cannot be reached, and of '{name}' another commit is in the cache")
    return parts


def _named(column: pa.ChunkedArray, names: Sequence[str]) -> pa.Array:
    """The names of classes that a column has the numbers of; null where it has no class."""
    numbers = column.combine_chunks().fill_null(MISSING).to_numpy()
    known = np.array([*names, None], object)[np.where((numbers >= 0) & (numbers < len(names)), numbers, len(names))]
    return pa.array(known.tolist(), pa.string())


def digests_of_folder(folder: Path) -> dict[str, str]:
    """By relative path, the digest of every file of a folder; hidden files and folders are left out."""
    files: list[Path] = []
    for inner, folders, names in os.walk(folder, followlinks=True):
        folders[:] = [name for name in folders if not name.startswith(".")]
        files += [Path(inner, name) for name in names if not name.startswith(".")]
    return digests(files, folder)


def _by_part(found: Any, splits: Mapping[str, str], where: str) -> dict[str, Rows]:
    if not isinstance(found, Mapping):  # one split, saved by itself
        return {"train": Rows(found, "train")}
    for part, name in splits.items():
        if name not in found and (part == "train" or name != "test"):
            raise UserError(f"{part}: {where} has no split '{name}'; {nearest(name, list(found))}")
    return {part: Rows(found[name], name) for part, name in splits.items() if name in found}


@contextlib.contextmanager
def _naming(where: str) -> Iterator[None]:
    """Turns what `datasets` raises, in many ways, into one sentence; its progress bars are off."""
    import datasets

    datasets.disable_progress_bars()
    try:
        yield
    except (UserError, KeyboardInterrupt):
        raise
    except Exception as error:  # the library documents no common base of what its readers raise
        what = reason(error) if isinstance(error, OSError) else str(error).strip().splitlines()[0]
        raise UserError(f"{where} cannot be opened as a data set ({type(error).__name__}: {what})") from error
