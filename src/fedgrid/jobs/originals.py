"""The authors' files that a data set was built from: most have no published checksum, and no key covers them.

When a store first builds a data set from such files, it records the images and the files. Other images under the same
key are refused. Other files under `data_root` cause a notice once the store has its images.
"""

import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedgrid.data.sources.digests import digests
from fedgrid.errors import UserError, say_notice
from fedgrid.files import read_json, write_json
from fedgrid.grid.plan.model import PlannedDataset
from fedgrid.grid.plan.planned_study import Study
from fedgrid.grid.study.audit import listening, opened_path

Files = dict[Path, set[str]]
"Paths of files, each relative to the folder below which it was looked for."


@contextmanager
def recorded_files(folders: Iterable[Path | None]) -> Iterator[Files]:
    """Collects the files below the folders that are opened within it."""
    files: Files = {Path(os.path.realpath(folder)): set() for folder in folders if folder}

    def note(event: str, arguments: tuple[Any, ...]) -> None:
        opened = Path(opened_path(event, arguments) or "/")
        for folder, names in files.items():
            if opened.is_relative_to(folder):
                names.add(opened.relative_to(folder).as_posix())

    with listening(note):
        yield files


def check_first_sight(data: PlannedDataset, checksum: str, files: Files) -> None:
    """Records the images and files that this store first had under the data set's key; UserError for other images.

    Existing cells were trained on the first ones.
    """
    if not data.first_sight.exists():
        # a download has another name until it is complete
        files = {folder: {name for name in names if (folder / name).is_file()} for folder, names in files.items()}
        contents = {name: content for folder, names in files.items() for name, content in _digests(folder, names)}
        write_json(data.first_sight, {"checksum": checksum, "files": contents})
    elif read_json(data.first_sight)["checksum"] != checksum:
        raise UserError(
            f"data '{data.label}': its files hold other images than those that this store began with; put the "
            f"first ones back, or delete {data.first_sight} and the cells that were trained on them"
        )


def say_notices(study: Study) -> None:
    """Prints the notices on a study's data sets to standard error."""
    for notice in notices(study.datasets.values(), study.data_root):
        say_notice(notice)


def notices(data: Iterable[PlannedDataset], root: Path | None) -> Iterator[str]:
    """Yields a line for each data set that the store built from other files than those now under `root`."""
    for dataset in data:
        if root is None or not dataset.built or not dataset.first_sight.exists():
            continue
        built_from = read_json(dataset.first_sight).get("files", {})
        names = [name for name in built_from if (root / name).is_file()]
        others = [name for name, content in _digests(root, names) if content != built_from[name]]
        if others:
            differ = f"{len(others):,} of {len(names):,} differ, such as {others[0]}"
            why = f"the images in the store were built from other files than those under {root} ({differ})"
            advice = "the store's images are used; for the new ones set results to another folder"
            yield f"data '{dataset.label}': {why}; {advice}"


def _digests(folder: Path, names: Collection[str]) -> list[tuple[str, str]]:
    """Each name with the digest of its file, in order."""
    if not names:
        return []
    top = folder / os.path.commonpath([os.path.dirname(name) for name in names])
    contents = digests((folder / name for name in names), top)
    return [(name, contents[(folder / name).relative_to(top).as_posix()]) for name in sorted(names)]
