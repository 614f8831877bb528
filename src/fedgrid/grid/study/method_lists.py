"""What the entries of a study's `methods` stand for: rows by name, whole families, the rows of another file.

A family is ``all``, ``all personalised``, ``all global``, or ``all`` before a family that ``fedgrid methods`` prints.
The first words of it are enough: ``all split model``.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedgrid.errors import UserError, nearest
from fedgrid.files import path_of
from fedgrid.grid.study.catalog import description
from fedgrid.grid.study.external import is_external
from fedgrid.grid.study.sections import Entries, Origin, Section, StudyError, located
from fedgrid.grid.study.validation import check_rows
from fedgrid.grid.study.yaml_file import read_rows
from fedgrid.loading import names

ALL, INCLUDE = "all", "include"
KINDS: Mapping[str, Callable[[Mapping[str, Any]], bool]] = {
    "personalised": lambda facts: bool(facts["score"] != "global"),
    "global": lambda facts: bool(facts["score"] == "global"),
}
"Methods by whose model their paper scores: one that each client has of its own, or the server's one model."
Methods = str | Section | Entries
"The value of `methods`: one entry, a list of entries, or a mapping of them to their settings."


@dataclass(frozen=True)
class Listed:
    """A row that an entry of `methods` stands for."""

    label: str
    settings: Section | None
    origin: Origin
    "A member of a family has the family's words as its `word`."
    files: int
    "Files that include one another on the way to the entry."


def listed_rows(
    methods: Methods, origin: Origin, known: Mapping[str, Section | None] | None = None, files: tuple[Path, ...] = ()
) -> Iterator[Listed]:
    """The rows that `methods`, written at `origin`, stands for, in the order of its entries; a row may come again.

    Members of a family come by name. Families are of all methods or, where rows are `known`, of those of them; `files`
    include one another. Raises StudyError for an unknown family, for a name that comes twice, and for a file that is
    missing or includes itself.
    """
    rows: Mapping[str, Section | None] = dict.fromkeys(names("methods")) if known is None else known
    named: set[str] = set()
    for label, settings, entry_origin in _entries(methods, origin):
        if label == INCLUDE and isinstance(settings, str):
            yield from _included(settings, entry_origin, rows, files)
        elif settings is None and label.split()[:1] == [ALL]:
            for member in _members(label.partition(ALL)[2].strip(), rows, entry_origin):
                yield Listed(member, None, replace(entry_origin, word=label), len(files))
        elif label in named:
            raise StudyError(entry_origin, f"duplicate row '{label}'")
        else:
            named.add(label)
            yield Listed(label, settings, entry_origin, len(files))


def _entries(methods: Methods, origin: Origin) -> Iterator[tuple[str, Any, Origin]]:
    """Every entry with its settings and its origin; a list may hold names and mappings of names."""
    if isinstance(methods, str):
        yield methods, None, origin
    elif isinstance(methods, Section):
        yield from ((label, settings, methods.origins[label]) for label, settings in methods.items())
    else:
        for entry, entry_origin in zip(methods, methods.origins, strict=True):
            yield from _entries(entry, entry_origin)


def _included(
    name: str, origin: Origin, rows: Mapping[str, Section | None], files: tuple[Path, ...]
) -> Iterator[Listed]:
    """The rows of another file, whose name counts from the folder of the file that names it."""
    with located(origin):
        file = path_of(origin.input_path(name), INCLUDE)
        if file.resolve() in files:
            raise UserError(f"{file} includes itself")
        if not file.is_file():
            raise UserError(f"there is no file {file}")
    methods = read_rows(file)
    check_rows(methods)
    yield from listed_rows(methods, methods.origin, rows, (*files, file.resolve()))


def _members(family: str, rows: Mapping[str, Section | None], origin: Origin) -> list[str]:
    """The rows of which the methods belong to a family; all where it is empty."""
    if not family:
        return list(rows)
    rows = {label: row for label, row in rows.items() if not is_external(row)}
    with located(origin):
        methods = {label: str(row.get("method", label) if row else label) for label, row in rows.items()}
        facts = {label: description("methods", method)["facts"] for label, method in methods.items()}
    belongs = KINDS.get(family) or (lambda of_method: _begins(of_method["family"], family))
    members = [label for label in rows if belongs(facts[label])]
    if not members and family in KINDS:
        raise StudyError(origin, f"no row of the study is {family}")
    if not members:
        families = [of_method["family"] for of_method in facts.values() if of_method["family"]]
        known = {*KINDS, *families, *map(group, families)}
        raise StudyError(origin, f"no family '{family}' of methods; {nearest(family, known)}")
    return members


def group(family: str) -> str:
    """The group of methods that a family belongs to: its words up to a colon or a comma."""
    return re.split("[,:]", family)[0]


def _begins(text: str, words: str) -> bool:
    """Whether a text is these words, or begins with them."""
    return text.startswith(words) and not text.removeprefix(words)[:1].isalnum()
