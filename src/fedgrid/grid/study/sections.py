"""The mappings and lists of a study, with the file, the line and the key that each of their values comes from."""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedgrid.errors import UserError

COMMAND_LINE = "command line"
"In place of a file's name, for values that are given to a command."


@dataclass(frozen=True)
class Origin:
    """Where a value comes from: file and line, and the key below which it is written there."""

    file: str = ""
    "As its user names it; empty where a study is made by code."
    line: int = 0
    "Counted from 1; 0 where there are no lines."
    key: str = ""
    "With dots, as in ``experiments.table2.training``; empty for a whole study."
    word: str = ""
    "The family, such as ``all global``, for which the study has a row; empty for what it names itself."

    @property
    def position(self) -> str:
        """File and line, as in ``study.yaml:14``."""
        return f"{self.file}:{self.line}" if self.line else self.file

    @property
    def label(self) -> str:
        """File, line and key, as in ``study.yaml:14: training.lr``."""
        return ": ".join(filter(None, [self.position, self.key]))

    def child(self, key: Any, line: int = 0) -> "Origin":
        """The origin of a value below this one, on the same line unless another one is given."""
        return Origin(self.file, line or self.line, f"{self.key}.{key}" if self.key else str(key))

    def input_path(self, text: str) -> str:
        """The path in `text`, which was written here, as it is from the working folder.

        In a study's file paths are relative to that file, on a command line to the working folder. Raises UserError for
        one that is there only relative to the working folder: it names the path to write instead.
        """
        if not self.file or self.file == COMMAND_LINE or text.startswith("~") or os.path.isabs(text):
            return text
        folder = Path(self.file).parent
        path = os.path.normpath(folder / text)
        if path != text and os.path.exists(text) and not os.path.exists(path):
            where = f"'{text}' is looked up beside the study's file, where there is no such file"
            raise UserError(f"{where}; write '{os.path.relpath(text, folder)}'")
        return path


class StudyError(UserError):
    """A wrong value of a study; the arguments are its origin and the problem."""

    def __str__(self) -> str:
        origin, problem = self.args
        return ": ".join(filter(None, [origin.label, problem]))


@contextmanager
def located(origin: Origin) -> Iterator[None]:
    """Turns a UserError into a StudyError at `origin`; a key that the error already begins with is not repeated."""
    try:
        yield
    except UserError as error:
        problem = str(error)
        if origin.key and problem.startswith((f"{origin.key}: ", f"{origin.key}.")):
            origin = Origin(origin.file, origin.line)
        raise StudyError(origin, problem) from error


class Section(dict[Any, Any]):
    """A mapping of a study: an ordinary dict, which also holds where it and each of its values are written.

    Mappings and lists among its values become sections and entries too. `section | changes` and `section - keys` keep
    the origins; a value that is changed to one without an origin keeps that of the value which it replaces.
    """

    def __init__(
        self,
        values: Mapping[Any, Any] | Iterable[tuple[Any, Any]] = (),
        origin: Origin = Origin(),
        origins: Mapping[Any, Origin] = {},
    ):
        super().__init__(values)
        self.origin = origin
        "Of the mapping itself."
        self.origins: dict[Any, Origin] = {}
        "Of each of its values."
        for key, value in self.items():
            written = origins.get(key) or origin.child(key)
            self[key], self.origins[key] = _with_origins(value, written)

    def origin_of(self, key: Any) -> Origin:
        """Where a value is written, or would be."""
        return self.origins.get(key) or self.origin.child(key)

    def with_input_path(self, key: str) -> "Section":
        """The section with the path below a key, where it has one, as it is from the working folder."""
        if not isinstance(self.get(key), str) or not self[key]:
            return self
        with located(self.origins[key]):
            return self | {key: self.origins[key].input_path(self[key])}

    def __or__(self, changes: Mapping[Any, Any]) -> "Section":
        origins = changes.origins if isinstance(changes, Section) else {}
        return Section({**self, **changes}, self.origin, {**self.origins, **origins})

    def __sub__(self, keys: Iterable[Any]) -> "Section":
        return Section({key: self[key] for key in self if key not in keys}, self.origin, self.origins)


class Entries(list[Any]):
    """A list of a study, which also holds where it and each of its entries are written; else as `Section`."""

    def __init__(self, values: Iterable[Any] = (), origin: Origin = Origin(), origins: Iterable[Origin] = ()):
        super().__init__(values)
        self.origin = origin
        self.origins = list(origins) or [origin.child(i) for i in range(len(self))]
        for i, value in enumerate(self):
            self[i], self.origins[i] = _with_origins(value, self.origins[i])


def _with_origins(value: Any, origin: Origin) -> tuple[Any, Origin]:
    if isinstance(value, Section | Entries):
        return value, value.origin
    if isinstance(value, Mapping):
        return Section(value, origin), origin
    return (Entries(value, origin) if isinstance(value, list | tuple) else value), origin


def merge_files(files: Iterable[Section]) -> Section:
    """Several files of a study, each over those before it, as Snakemake does: mappings merge, all else replaces."""
    merged = Section()
    for file in files:
        merged = _merged(merged, file) if merged else file
    return merged


def _merged(base: Section, over: Section) -> Section:
    merging = [k for k in over if isinstance(over[k], Section) and isinstance(base.get(k), Section)]
    return base | over | {key: _merged(base[key], over[key]) for key in merging}


def with_origins(config: Mapping[Any, Any], files: Section) -> Section:
    """The study that Snakemake made of its `files` and its command line, each value with the place it comes from."""
    values, origins = {}, {}
    for key, value in config.items():
        if key in files and files[key] == value:
            values[key], origins[key] = files[key], files.origins[key]
        else:
            origins[key] = Origin(COMMAND_LINE, key=files.origin.child(key).key)
            below = files[key] if isinstance(files.get(key), Section) else Section((), origins[key])
            values[key] = with_origins(value, below) if isinstance(value, Mapping) else value
    return Section(values, files.origin, origins)
