"""Results under earlier code that are carried to today's keys, by evidence, and taken back again."""

import multiprocessing
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fedgrid
from fedgrid.files import read_metadata, read_table, replacing, write_table
from fedgrid.grid.adoption.candidates import Candidate, Circumstances, Group
from fedgrid.grid.adoption.coverage import choose_cells_to_check
from fedgrid.grid.plan.keys import modules_of_cell
from fedgrid.grid.plan.planned_study import Study
from fedgrid.jobs.evidence import difference, difference_at_start
from fedgrid.jobs.preparation import prepare
from fedgrid.jobs.retraining import computed_as, train_again
from fedgrid.settings import ARTIFACTS, ROWS, Compute

ADOPTED = "adopted"
"The metadata that say where results come from: a list, one entry for each time they were carried to another key."
IDENTITY = ("key", "spec", "code", "modules")
"The metadata of results that code and settings decide."


@dataclass(frozen=True)
class Verdict:
    """What became of a group."""

    group: Group
    checked: int
    "Cells of which results under both codes were compared."
    trained: int
    "Those of them that were trained for that."
    carried: int = 0
    refused: str = ""
    "The cell and its first difference."


def adopt(
    groups: Sequence[Group], studies: Iterable[Study], cores: int, least: int, tell: Callable[[str], None]
) -> Iterator[Verdict]:
    """Checks groups of this machine's results, and carries those whose evidence holds; `tell` hears what is trained.

    What is trained for a check stays as the result of its cell, so a call that was interrupted can be repeated.
    """
    study_of = {cell.key: study for study in studies for cell in study.known.values()}
    date = datetime.now(UTC).isoformat(timespec="microseconds")
    for cell in (candidate.cell for group in groups for candidate in group.candidates):
        prepare(cell.partition, study_of[cell.key])
    samples = [choose_cells_to_check(group, least) for group in groups]
    for group, sample in zip(groups, samples, strict=True):
        train_again([candidate.cell for candidate in sample], group.circumstances, study_of, cores, tell)
    with ProcessPoolExecutor(cores, mp_context=multiprocessing.get_context("spawn")) as processes:
        for group, sample in zip(groups, samples, strict=True):
            yield _verdict(group, sample, processes, date)


def _verdict(group: Group, sample: list[Candidate], processes: Executor, date: str) -> Verdict:
    """What is to become of a group whose `sample` has been trained; it is carried where all evidence holds."""
    pairs = [*group.checked, *sample]
    verdict = Verdict(group, checked=len(pairs), trained=len(sample))
    unchecked = [candidate for candidate in group.candidates if candidate not in sample]
    if sentence := refusal(group, pairs):
        return replace(verdict, refused=sentence)
    sentences = processes.map(
        difference_at_start, unchecked, [computed_as(group.circumstances, Compute())] * len(unchecked)
    )
    for candidate, sentence in zip(unchecked, sentences, strict=True):
        if sentence:
            return replace(verdict, refused=f"{candidate.cell.description}: {sentence}")
    for candidate in unchecked:
        carry(candidate, _evidence(group, pairs, date))
    return replace(verdict, carried=len(unchecked))


def refusal(group: Group, pairs: Iterable[Candidate]) -> str:
    """The first of these cells of a group, with results under both codes, that speaks against it, and what it says.

    Empty where none does.
    """
    sentences = ((candidate.cell.description, _difference_of_pair(candidate, group)) for candidate in pairs)
    return next((f"{description}: {sentence}" for description, sentence in sentences if sentence), "")


def _difference_of_pair(candidate: Candidate, group: Group) -> str:
    """What speaks against a group in one of its checked cells; empty: nothing does."""
    cell = candidate.cell
    if not cell.done:
        return f"could not be trained; see {cell.log}"
    now = Circumstances.of(read_metadata(cell.file))
    if not now.agrees(group.circumstances):
        return f"was computed with {now}, not with {group.circumstances}"
    return difference(candidate)


def _evidence(group: Group, pairs: Sequence[Candidate], date: str) -> dict[str, Any]:
    """What the metadata of carried results say of the check."""
    cells = {candidate.key for candidate in [*pairs, *group.candidates]}
    return {
        "checked": [{"key": pair.cell.key, "earlier": pair.key} for pair in pairs],
        "of": len(cells),
        "circumstances": asdict(group.circumstances),
        "fedgrid": fedgrid.__version__,
        "date": date,
    }


def carry(candidate: Candidate, evidence: Mapping[str, Any]) -> None:
    """Writes earlier results under the key of the planned cell; recorded with their origin, to be undone."""
    cell, component = candidate.cell, candidate.cell.row.component
    table, metadata = read_table(candidate.file)
    earlier = {name: metadata[name] for name in IDENTITY}
    path_in_store = candidate.file.relative_to(candidate.store).as_posix()
    today = {
        "key": cell.key,
        "spec": cell.spec,
        "code": cell.code,
        "modules": modules_of_cell(component.module, component.file, cell.model.module, cell.model.file),
    }
    chain = [*metadata.get(ADOPTED, []), {"earlier": earlier, "file": path_in_store, **evidence}]
    for kind, file in candidate.artifacts.items():
        copy(file, cell.kept_beside(cell.file)[kind], today)
    write_table(cell.file, table, metadata | today | {ADOPTED: chain})


def undo(store: Path) -> list[Path]:
    """Takes back the latest adoption of a store: its results have their earlier keys again. Returns their files."""
    adopted = [(file, chain[-1]) for file in results(store) if (chain := read_metadata(file).get(ADOPTED))]
    latest = max((entry["date"] for _, entry in adopted), default="")
    files = [(file, store / entry["file"]) for file, entry in adopted if entry["date"] == latest]
    for file, earlier in files:
        _take_back(file, earlier)
    return [earlier for _, earlier in files]


def _take_back(file: Path, earlier: Path) -> None:
    table, metadata = read_table(file)
    *chain, entry = metadata.pop(ADOPTED)
    artifacts = {artifact: earlier.with_suffix(kind) for kind, artifact in existing_artifacts(file).items()}
    if not earlier.is_file():
        for artifact, path_in_store in artifacts.items():
            copy(artifact, path_in_store, entry["earlier"])
        write_table(earlier, table, metadata | entry["earlier"] | ({ADOPTED: chain} if chain else {}))
    file.unlink()
    for artifact in artifacts:
        artifact.unlink()
        artifact.with_name(artifact.name + ROWS).unlink(missing_ok=True)


def results(store: Path) -> list[Path]:
    """The files of all finished cells of a store."""
    return [file for file in store.glob("cells/**/s*-*.parquet") if file.name.count(".") == 1]


def existing_artifacts(file: Path) -> dict[str, Path]:
    """The artifacts of a cell's results, by the ends of their names."""
    files = {end: file.with_suffix(end) for end in ARTIFACTS.values()}
    return {end: artifact for end, artifact in files.items() if artifact.is_file()}


def copy(file: Path, to: Path, identity: Mapping[str, Any]) -> None:
    """Copies an artifact in one step; one that names its cell is given the `identity` of another."""
    # torch takes seconds to import
    if file.name.endswith(ARTIFACTS["state"]):
        from fedgrid.engine.state.kept_state import copy_state

        copy_state(file, to, identity["key"])
    elif file.name.endswith(ARTIFACTS["models"]):
        from fedgrid.jobs.models_file import write_changed

        write_changed(file, to, identity)
    else:
        with replacing(to) as temporary:
            shutil.copyfile(file, temporary)
