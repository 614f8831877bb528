"""Files of sources, copied into a folder and checked there, before anything is put into the store."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedgrid.api.archive.checking import refusing
from fedgrid.api.archive.placing import place
from fedgrid.api.archive.seals import check_seal
from fedgrid.api.merging.differences import CellContent, read_content
from fedgrid.api.merging.sources import CELL, ORIGINAL, PARTITION, Source
from fedgrid.errors import Damaged, UserError
from fedgrid.files import read_json, read_metadata, read_table, reading_errors
from fedgrid.grid.plan.cell_origin import Merge, origin_file, read_origin
from fedgrid.partition.common.rows import digest_of
from fedgrid.settings import ARTIFACTS, ROWS


class Stage:
    """A store as it will be: files that are to be put into it, and behind them those that it has.

    `folder` is where copies of sources are kept meanwhile.
    """

    def __init__(self, store: Path, folder: Path):
        self.store, self.folder = store, folder
        self.added: dict[str, Path] = {}
        "By name below the store, the copies that will be put into it."
        self.removed: set[str] = set()
        "Names of artifacts and origins of cells that others take the place of."
        self.copies = 0

    def copied(self, source: Source, name: str) -> Path:
        """A checked copy of a file of a source; UserError where it is not what its name says."""
        self.copies += 1
        target = self.folder / str(self.copies) / Path(name).name
        target.parent.mkdir(parents=True)
        source.copy(name, target)
        with refusing(source.path):
            check_seal(name, target)
        return target

    def current(self, name: str) -> Path | None:
        """The file that the store will have under a name so far; None for none."""
        if name in self.added:
            return self.added[name]
        file = self.store / name
        return file if file.is_file() and name not in self.removed else None

    def replace_cell(self, name: str) -> None:
        """Forgets what was beside the results of a cell, which others take the place of."""
        stem = name.removesuffix("parquet")
        folder = (self.store / name).parent
        there = [f"{Path(name).parent.as_posix()}/{file.name}" for file in folder.glob(f"{Path(stem).name}*")]
        self.removed |= {other for other in there if other != name}
        self.added = {other: file for other, file in self.added.items() if not other.startswith(stem)}

    def put_into_store(self) -> None:
        """Moves the copies into the store; the results of a cell come last, after all that belongs to them."""
        for name in sorted(self.removed - set(self.added)):
            (self.store / name).unlink(missing_ok=True)
        for name in sorted(self.added, key=lambda name: (CELL.fullmatch(name) is not None, name)):
            place(self.added[name], self.store / name)


def stored_content(stage: Stage, name: str) -> CellContent | None:
    """The results of a cell that the store will have so far; None without any, and where they are damaged."""
    file = stage.current(name)
    try:
        return read_content(file) if file else None
    except Damaged:
        return None


def cell_content(source: Source, name: str, file: Path) -> CellContent:
    """The results of a cell in a copy of a source's file; UserError, naming it, where they are of another cell."""
    with refusing(source.path):
        try:
            content = read_content(file)
            spec, folders = content.metadata.spec, name.split("/")
            if [spec["method"]["name"], spec["partition"]["data"]["name"]] != folders[1:3]:
                raise UserError(f"'{name}': its content does not belong to its name")
        except (KeyError, TypeError) as error:
            raise UserError(f"'{name}': its settings are incomplete") from error
        except UserError as error:
            raise UserError(str(error).replace(str(file), f"'{name}'")) from error
        return content


def earlier_merges(source: Source, stage: Stage, name: str, results: Path) -> Sequence[Merge]:
    """From where the source has the results of a cell, of which `results` is the copy; none where they are its own."""
    origin = origin_file(Path(name)).as_posix()
    if origin not in source.names:
        return []
    stage.copied(source, origin).replace(origin_file(results))
    with refusing(source.path):
        try:
            earlier = read_origin(results)
        except UserError as error:
            raise UserError(f"'{origin}' is not an origin that fedgrid merge wrote") from error
    return earlier.merges if earlier else []


class Inputs:
    """What the cells of a source were trained on: its partitions, and which images it first had."""

    def __init__(self, source: Source, stage: Stage):
        self.source, self.stage = source, stage
        self.partitions: dict[str, list[tuple[str, Path]]] = {}
        "By `_canonical` settings: names and copies."
        self.other_partitions: set[str] = set()
        "Settings of those that are other ones in the store."
        self.images: dict[str, tuple[str, Path]] = {}
        "By checksum: name and copy of the note."
        self.other_images: set[str] = set()
        "Checksums of those under whose key the store has others."
        for match in source.matching(PARTITION):
            self._read_partition(match[0])
        for match in source.matching(ORIGINAL):
            self._read_original(match[0])

    def _read_partition(self, name: str) -> None:
        copy, stored = self.stage.copied(self.source, name), self.stage.current(name)
        with refusing(self.source.path):
            table, about = read_table(copy)
            try:
                identity, settings = (about["digest"], about["data_checksum"]), _canonical(about["spec"])
                intact = identity[0] == digest_of(table)
            except IndexError:
                intact = False
            except reading_errors():
                intact = False
            if not intact:
                raise UserError(f"'{name}' is not the partition that it says it is")
        self.partitions.setdefault(settings, []).append((name, copy))
        if stored:
            here = read_metadata(stored)
            if identity != (here.get("digest"), here.get("data_checksum")):
                self.other_partitions.add(settings)

    def _read_original(self, name: str) -> None:
        copy, stored = self.stage.copied(self.source, name), self.stage.current(name)
        checksum = str(read_json(copy).get("checksum"))
        self.images[checksum] = name, copy
        if stored and read_json(stored).get("checksum") != checksum:
            self.other_images.add(checksum)

    def obstacle(self, content: CellContent) -> str:
        """Why results cannot be used with what the store has; empty where they can."""
        if _canonical(content.metadata.spec["partition"]) in self.other_partitions:
            return "trained on another partition than the store's of this key"
        if content.metadata.images in self.other_images:
            return "trained on another copy of the data set than the store's"
        return ""

    def add(self, content: CellContent) -> None:
        """Adds to the store what a cell was trained on, apart from the data set itself, where the store lacks it."""
        files = list(self.partitions.get(_canonical(content.metadata.spec["partition"]), []))
        files += [self.images[key] for key in [content.metadata.images] if key in self.images]
        for name, copy in files:
            if self.stage.current(name) is None:
                self.stage.added[name] = copy
                statistics = name.removesuffix("parquet") + "json"
                if PARTITION.fullmatch(name) and statistics in self.source.names:
                    self.stage.added[statistics] = self.stage.copied(self.source, statistics)


def artifacts_of(source: Source, name: str) -> list[str]:
    """The names of the artifacts of a cell in a source."""
    suffixes = [*ARTIFACTS.values(), ARTIFACTS["state"] + ROWS]
    names = [name.removesuffix(".parquet") + suffix for suffix in suffixes]
    return [artifact for artifact in names if artifact in source.names]


def _canonical(settings: Mapping[str, Any]) -> str:
    return json.dumps(settings, sort_keys=True)
