"""Which files of a project its study names: only those are packed as the project's, and unpacked.

Studies and code are parsed; nothing of them is run.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from fedgrid.api.archive.code_names import SOURCE
from fedgrid.errors import UserError
from fedgrid.files import check_regular
from fedgrid.grid.study.columns import PUBLISHED
from fedgrid.grid.study.fingerprint import files
from fedgrid.grid.study.method_lists import INCLUDE
from fedgrid.grid.study.yaml_file import MOST_BYTES, read, read_rows
from fedgrid.loading import OUTSIDE

SEED = "{seed}"
"Stands for a number in the path of a partition."
CLIENT = re.compile(r"(?:(.*)/)?(?:train|test)/\d{1,9}\.npz")
"A file of PFLlib's folder, which a study names as a whole."


def named_files(project: Path, study: str) -> set[str]:
    """The study, the files that it names or includes, and what their code imports and reads; paths below `project`.

    A file is named by a value or a key that is its path from the folder of the study. Raises UserError, which names the
    file, where one that has to be parsed is not what it should be; empty where the study is not among the files.
    """
    here = {file.relative_to(project).as_posix() for file in project.rglob("*") if file.is_file()}
    try:
        for file in here:
            if file.endswith(SOURCE):
                check_regular(project / file, file, MOST_BYTES)
        named = _named_by_studies(project, study, _by_path(here)) if study in here else set()
        return named.union(*(_with_imports(project, file) for file in named if file.endswith(SOURCE)))
    except UserError as error:
        raise UserError(str(error).replace(f"{project}/", "")) from error


def _by_path(here: Iterable[str]) -> dict[str, list[str]]:
    """The files by the path that names them: their own, or the one of PFLlib's folder."""
    by_path = {file: [file] for file in here}
    for file in here:
        if client := CLIENT.fullmatch(file):
            by_path.setdefault(client[1] or ".", []).append(file)
    return by_path


def _named_by_studies(project: Path, study: str, by_path: Mapping[str, list[str]]) -> set[str]:
    """The study, what it includes, and the files that these name."""
    named, parsed, todo = set[str](), set[str](), {study}
    while todo:
        file = todo.pop()
        parsed.add(file)
        for key, text in _texts(read(project / file) if file == study else read_rows(project / file)):
            of_text = [name for path in _paths(text, os.path.dirname(file), by_path) for name in by_path.get(path, ())]
            named.update(of_text)
            todo.update({*of_text} - parsed if key == INCLUDE else ())
    return named | parsed


def _texts(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Keys and values of a study that are texts, each value with its key."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, Mapping):
        for name, below in value.items():
            yield "", str(name)
            yield from _texts(below, name)
    elif isinstance(value, list):
        for entry in value:
            yield from _texts(entry)


def _paths(text: str, folder: str, by_path: Iterable[str]) -> Iterable[str]:
    """The paths that a text in a study of that folder may stand for."""
    path = text.removeprefix(PUBLISHED)
    if path.startswith(("/", "~")):  # of the computer on which the archive was made, where it lay in the project
        parts = path.split("/")
        return ["/".join(parts[start:]) for start in range(1, len(parts))]
    path = os.path.normpath(os.path.join(folder, path))
    if SEED not in path:
        return [path]
    before, *after = map(re.escape, path.split(SEED))
    form = re.compile(rf"{before}([0-9]+)" + r"\1".join(after))
    return filter(form.fullmatch, by_path)


def _with_imports(project: Path, file: str) -> set[str]:
    """A file of code, what it imports from beside it, and what its classes read."""
    path = project / file
    if not path.stem.isidentifier():
        return {file}  # not a component
    try:
        code = files(f"{OUTSIDE}{path.stem}", path)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UserError(f"{file}: cannot be read as Python ({error})") from error
    return {file, *(used.relative_to(project).as_posix() for used in code if used.is_file())}
