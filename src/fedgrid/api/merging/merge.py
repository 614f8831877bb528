"""Merges cells of archives and stores into one store: what is new is taken, what is there stays, conflicts are named.

Every file of every source is copied and checked before the first is put into place.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from fedgrid.api.archive.checking import room_in
from fedgrid.api.merging.differences import difference, machine_of
from fedgrid.api.merging.sources import CELL, Source, open_source, store_in
from fedgrid.api.merging.staging import Inputs, Stage, artifacts_of, cell_content, earlier_merges, stored_content
from fedgrid.errors import UserError
from fedgrid.files import check_writable
from fedgrid.grid.plan import manifest
from fedgrid.grid.plan.cell_origin import Merge, origin_file, write_origin
from fedgrid.grid.plan.manifest_model import read_manifest
from fedgrid.run.lock import StoreLock

TAKEN, KEPT, LEFT = "taken", "kept", "left out"
"What became of a conflict: the source's results are taken, the store's are kept, or it has none and gets none."
OF_RESULTS = ("*", "*/*")
"Depths, below a folder of results, of the folders of plain studies and of experiments."


@dataclass(frozen=True)
class Conflict:
    """A cell that the store and a source both have, with other numbers, or that cannot be used in the store."""

    key: str
    cell: str
    "In words: method, data set, heterogeneity, seed."
    difference: str
    here: str
    "Processor, device and versions of the store's results; empty where it has none."
    there: str
    "Those of the source's."
    replaceable: bool
    "Whether the source's results can be used in the store, so that they can be preferred."
    outcome: str
    "`TAKEN`, `KEPT` or `LEFT`."
    resolved: bool
    "Whether the user chose whose results the store has."


@dataclass
class Merged:
    """What became of the cells of a source."""

    source: Path
    new: int = 0
    same: int = 0
    "Cells that the store has with the same numbers."
    conflicts: list[Conflict] = field(default_factory=list)


class Choice:
    """Whose results the user prefers, where numbers differ: those of a source, of the store, or of nobody."""

    def __init__(self, store: Path, into: Path, prefer: Path | None):
        self.store, self.into, self.prefer = store, into, prefer
        self.keeps_store = prefer is not None and prefer.resolve() in (into.resolve(), store.resolve())
        self.names: set[str] = set()
        "Of cells whose results in the store will have the numbers of the preferred source."

    def is_for(self, source: Path) -> bool:
        """Whether a source is the preferred one."""
        return self.prefer is not None and self.prefer.resolve() == source.resolve()

    def has_made(self, name: str) -> bool:
        """Whether the choice decides whose results of a cell the store has."""
        return name in self.names or (self.keeps_store and (self.store / name).is_file())


def merge(sources: Sequence[Path], into: Path, prefer: Path | None = None, dry_run: bool = False) -> list[Merged]:
    """Merges the cells of sources into the store of a folder of results; returns what became of those of each.

    Of a cell with conflicting numbers, the results of the source `prefer` are taken; otherwise the store's stay, by
    the user's choice where `prefer` is `into`. With `dry_run` nothing is written. Raises UserError where a source is
    refused or a run uses the store; then nothing is written either.
    """
    store = store_in(into)
    choice = Choice(store, into, prefer)
    _check_sources(sources, store, choice)
    ordered = sorted(sources, key=lambda path: not choice.is_for(path))  # others are then compared with its cells
    with _staging(store, dry_run) as folder, ExitStack() as stack:
        stage = Stage(store, folder)
        merged = [
            _merge_source(stack.enter_context(open_source(path, room_in(folder))), stage, choice) for path in ordered
        ]
        if not dry_run:
            taken = {one.key for of_source in merged for one in of_source.conflicts if one.outcome == TAKEN}
            _remove_manifests(store, taken)
            stage.put_into_store()
    return sorted(merged, key=lambda one: sources.index(one.source))


def _check_sources(sources: Sequence[Path], store: Path, choice: Choice) -> None:
    known = [path.resolve() for path in sources]
    for path in sources:
        if path.is_dir() and store_in(path).resolve() == store.resolve():
            raise UserError(f"{path}: this is the store that cells are merged into")
        if known.count(path.resolve()) > 1:
            raise UserError(f"{path}: named twice")
    if choice.prefer and not choice.keeps_store and not any(map(choice.is_for, sources)):
        raise UserError(f"--prefer: name one of the sources, or {choice.into} to keep what is there")


@contextmanager
def _staging(store: Path, dry_run: bool) -> Iterator[Path]:
    """A folder for copies: within the locked store or, where nothing may be written there, elsewhere."""
    if dry_run:
        with TemporaryDirectory() as folder:
            yield Path(folder)
        return
    check_writable(store, "--into")
    lock = StoreLock(store)
    lock.acquire()
    try:
        with TemporaryDirectory(dir=store, prefix=".merge.", suffix=".tmp") as folder:
            yield Path(folder)
    finally:
        lock.release()


def _merge_source(source: Source, stage: Stage, choice: Choice) -> Merged:
    """Stages the cells of a source that the store is to have, and notes what becomes of all of them."""
    merged, inputs = Merged(source.path), Inputs(source, stage)
    for match in source.matching(CELL):
        name, copy = match[0], stage.copied(source, match[0])
        content, stored = cell_content(source, name, copy), stored_content(stage, name)
        obstacle = inputs.obstacle(content)
        reason = difference(stored, content) if stored else ""
        is_taken = not obstacle and (not reason or choice.is_for(source.path))
        if is_taken and choice.is_for(source.path):
            choice.names.add(name)
        if stored and not reason:
            merged.same += 1
            _stage_artifacts(source, stage, name)  # the store may lack some; they belong to the same numbers
            continue
        if obstacle or reason:
            outcome = TAKEN if is_taken else KEPT if stored else LEFT
            machines = machine_of(stored.metadata) if stored else "", machine_of(content.metadata)
            words = f"{match[1]}, {match[2]}, {match[3]}, seed {match[4]}"
            conflict = Conflict(
                match[5], words, obstacle or reason, *machines, not obstacle, outcome, choice.has_made(name)
            )
            merged.conflicts.append(conflict)
        if is_taken:
            merged.new += not stored
            inputs.add(content)
            _stage_cell(source, stage, name, copy)
    return merged


def _stage_cell(source: Source, stage: Stage, name: str, results: Path) -> None:
    """Stages the results of a cell, its artifacts, and where they come from, in place of what is there."""
    stage.replace_cell(name)
    stage.added[name] = results
    _stage_artifacts(source, stage, name)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    merges = [*earlier_merges(source, stage, name, results), Merge(source.name, source.archive, now)]
    stage.added[origin_file(Path(name)).as_posix()] = write_origin(results, merges)


def _stage_artifacts(source: Source, stage: Stage, name: str) -> None:
    """Stages the artifacts of a cell that the store lacks."""
    for artifact in artifacts_of(source, name):
        if stage.current(artifact) is None:
            stage.added[artifact] = stage.copied(source, artifact)


def _remove_manifests(store: Path, keys: set[str]) -> None:
    """Removes the manifests of tables that have cells with replaced results: these tables are out of date."""
    folders = OF_RESULTS if store.name == "store" and keys else ()
    for file in [file for depth in folders for file in store.parent.glob(f"{depth}/{manifest.NAME}")]:
        if keys & {cell.key for cell in read_manifest(file).cells}:
            file.unlink()
