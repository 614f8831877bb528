"""Data sets and partitions at work, those of files outside the package included.

Whatever goes wrong in the code of such a file is one sentence with the file and the line, and so is what it returns
where nothing can be planned with that.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedgrid.data.base import DataSet
from fedgrid.data.common.images import PARTS, DatasetInfo
from fedgrid.errors import UserError
from fedgrid.grid.study.audit import Watch
from fedgrid.grid.study.fingerprint import check_files
from fedgrid.grid.study.model import Configured
from fedgrid.loading import KINDS, line_of, load, locate
from fedgrid.partition.base import Expected, Partition

TESTED = ("own", "official", "weighted")


@contextmanager
def creating_dataset(component: Configured) -> Iterator[DataSet]:
    """The data set itself; see `_guarded`."""
    with _guarded("data", component) as data:
        yield data


@contextmanager
def creating_partition(component: Configured) -> Iterator[Partition]:
    """The kind of partition itself; see `_guarded`."""
    with _guarded("partition", component) as kind:
        yield kind


@contextmanager
def watched(kind: str, component: Configured) -> Iterator[Watch | None]:
    """Watches a component outside the package at work, so that what no key covers is refused; None inside it.

    What a data set reads is compared with what the store first had; a partition with an identity of its own names what
    it reads there.
    """
    _, module, file = locate(kind, component.reference)
    if file is None:
        yield None
        return
    cls = load(kind, component.reference)
    check_files(cls, module, file)
    reads = kind == "data" or getattr(cls, "identity", None) is not Partition.identity
    with Watch(module, file, kind, reads) as watch:
        yield watch


@contextmanager
def _guarded(kind: str, component: Configured) -> Iterator[Any]:
    """A component; within it, whatever the code of a file outside the package raises is a UserError."""
    _, _, file = locate(kind, component.reference)
    cls = load(kind, component.reference)
    if file is None:
        yield cls(**component.settings)
        return
    try:
        yield cls(**component.settings)
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        line = f" ({file}, line {number})" if (number := line_of(error, file)) else ""
        raise UserError(f"{_named(kind, component)}: {type(error).__name__}: {error}{line}") from error


def info_of(component: Configured, root: Path | None) -> DatasetInfo:
    """What a data set whose local files lie under `root` holds; UserError where it states nothing of the kind."""
    with creating_dataset(component) as data:
        info = data.info(root)
        if component.file and (flaw := _flaw_of(info)):
            raise UserError(f"{_named('data', component)}: {flaw}")
    return info


def _flaw_of(info: DatasetInfo) -> str:
    """What is wrong with what a data set states of itself; empty where nothing is."""
    images, shape, classes = info.images, info.shape, info.classes
    if not isinstance(images, Mapping) or {*images} != {*PARTS} or not _are_counts(images.values(), 0):
        return f"image_counts = {images!r} has to be the number of images of each part, {{'train': 100, 'test': 20}}"
    if not isinstance(shape, tuple) or len(shape) != 3 or not _are_counts(shape, 1):
        return f"shape = {shape!r} has to be (height, width, channels)"
    if not isinstance(classes, tuple) or not classes or not all(isinstance(name, str) for name in classes):
        return f"classes = {classes!r} has to be the names of the classes, ('cat', 'dog')"
    if not isinstance(info.kept, Mapping) or not _are_counts(info.kept.values(), 0):
        return f"kept = {info.kept!r} has to be the number of values of each column that is kept, {{'writer': 50}}"
    return ""


def _are_counts(values: Any, least: int) -> bool:
    return all(type(value) is int and value >= least for value in values)


def description_of(component: Configured, seed: int) -> tuple[str, str]:
    """The setting of a partition in words, and what clients are tested on; UserError for anything else."""
    with creating_partition(component) as kind:
        sentence, tested = kind.sentence_with_origin(seed), kind.tested(seed)
    if not isinstance(sentence, str) or not sentence:
        raise UserError(f"{_named('partition', component)}: its sentence is {sentence!r}, and has to be a text")
    if tested not in TESTED:
        raise UserError(
            f"{_named('partition', component)}: `tested` is {tested!r}, and has to be {' or '.join(TESTED)}"
        )
    return sentence, tested


def check_partition(component: Configured, info: DatasetInfo, seeds: list[int]) -> None:
    """Raises UserError where a data set of this form cannot be dealt out so."""
    with creating_partition(component) as kind:
        kind.check_feasible(info, seeds)


def expected_of(component: Configured, info: DatasetInfo, seed: int) -> Expected:
    """How many images a partition deals out; UserError where it says anything else."""
    with creating_partition(component) as kind:
        expected = kind.expected(info, seed)
    if not isinstance(expected, Expected) or not _are_counts(expected[:4], 0) or not expected.clients:
        raise UserError(f"{_named('partition', component)}: `expected` gives {expected!r}, and has to give an Expected")
    return expected


def _named(kind: str, component: Configured) -> str:
    return f"{KINDS[kind]} '{component.reference}'"
