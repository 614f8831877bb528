"""Which files of a project its study names: only those are packed as the project's, and unpacked.

Studies and code are parsed; nothing of them is run.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from fedgrid.api.archive.names import SOURCE
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
    paths = {file.relative_to(project).as_posix() for file in project.rglob("*") if file.is_file()}
    try:
        for path in paths:
            if path.endswith(SOURCE):
                check_regular(project / path, path, MOST_BYTES)
        named = _named_by_studies(project, study, _by_name(paths)) if study in paths else set()
        return named.union(*(_with_imports(project, file) for file in named if file.endswith(SOURCE)))
    except UserError as error:
        raise UserError(str(error).replace(f"{project}/", "")) from error


def _by_name(paths: Iterable[str]) -> dict[str, list[str]]:
    """Files by the path that a study names them by: their own, or that of PFLlib's folder."""
    by_name = {path: [path] for path in paths}
    for path in paths:
        if client := CLIENT.fullmatch(path):
            by_name.setdefault(client[1] or ".", []).append(path)
    return by_name


def _named_by_studies(project: Path, study: str, by_name: Mapping[str, list[str]]) -> set[str]:
    """The study, what it includes, and the files that these name."""
    named, parsed, todo = set[str](), set[str](), {study}
    while todo:
        file = todo.pop()
        parsed.add(file)
        for key, text in keyed_texts(read(project / file) if file == study else read_rows(project / file)):
            names = _possible_names(text, os.path.dirname(file), by_name)
            matches = {path for name in names for path in by_name.get(name, ())}
            named |= matches
            todo |= matches - parsed if key == INCLUDE else set()
    return named | parsed


def keyed_texts(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Keys and values of a study that are texts, each value with its key."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, Mapping):
        for name, below in value.items():
            yield "", str(name)
            yield from keyed_texts(below, name)
    elif isinstance(value, list):
        for entry in value:
            yield from keyed_texts(entry)


def _possible_names(text: str, folder: str, known: Iterable[str]) -> Iterable[str]:
    """The paths that a text in a study of that folder may stand for; those with a seed are among the `known` ones."""
    path = text.removeprefix(PUBLISHED)
    if path.startswith(("/", "~")):  # of the computer on which the archive was made, where it lay in the project
        parts = path.split("/")
        return ["/".join(parts[start:]) for start in range(1, len(parts))]
    path = os.path.normpath(os.path.join(folder, path))
    if SEED not in path:
        return [path]
    before, *after = map(re.escape, path.split(SEED))
    form = re.compile(rf"{before}([0-9]+)" + r"\1".join(after))
    return filter(form.fullmatch, known)


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
