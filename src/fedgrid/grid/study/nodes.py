"""A module as its source shows it, without importing it: its code, what it imports, what no key covers.

Parsing all modules that a study reaches takes seconds. So what a source shows is kept as JSON in the user's cache under
the digest of that source, of the name it is imported by, and of this module.
"""

import ast
import functools
import hashlib
import os
import sys
from collections.abc import Iterable, Set
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedgrid.errors import UserError
from fedgrid.files import cache, read_json, write_json
from fedgrid.grid.study.canonical import digest

RUNNING = {"importlib", "runpy", "pkgutil", "__import__", "exec", "eval", "compile", "sys.path"}
"With these, code runs that no import statement names."
ADVICE = (
    "no key covers what that brings in: put it beside the file, or install it, and import it with an import statement"
)
WRITTEN_OUT = "write the names of files in its folder out in the class, as in files = ('prior.txt',)"
HARMLESS = ("importlib.metadata", "importlib.resources")
FACTS: Set[str] = {
    *("carries", "cite", "cost_settings", "down", "family", "identities", "product_limits", "shares"),
    *("similar_sizes", "source", "title", "up", "work"),
}
"What a component's class states about itself for pages, estimates and tests; no number depends on it."
PLAIN = (ast.Constant, ast.Tuple, ast.List, ast.Dict, ast.Call, ast.keyword, ast.Load, ast.UnaryOp, ast.USub)
"Syntax of a fact: constants, and calls of `Identity`, whose name is checked besides."


@dataclass(frozen=True)
class Node:
    """A module as its source shows it."""

    digest: str
    "Of its code, without comments, docstrings and `FACTS`."
    text: str
    "Of its file."
    imported: frozenset[str]
    "Names that it may import, its parent packages included."
    flaws: tuple[tuple[int, str], ...]
    "Line and description of what no key can cover."
    data: tuple[str, ...]
    "Files that its classes read, relative to its folder."


def read(file: Path, name: str) -> Node:
    """What the source of a module shows; raises what `ast.parse` does where it is no Python."""
    source = file.read_bytes()
    identity = [hashlib.sha256(source).hexdigest(), name, file.name, *_reader()]
    memory = cache("sources") / f"{digest(identity)}.json"
    try:
        return _decoded(read_json(memory))
    except UserError:
        node = _parsed(source, file, name)
    with suppress(UserError):  # it only saves time, and others' studies may be read where nothing can be written
        write_json(memory, asdict(node) | {"imported": sorted(node.imported)})
    return node


@functools.cache
def _reader() -> tuple[str, str]:
    """What decides what a source shows, beside itself: this module, and the Python that parses it."""
    return hashlib.sha256(Path(__file__).read_bytes()).hexdigest(), sys.version


def _decoded(values: dict[str, Any]) -> Node:
    flaws = tuple((line, what) for line, what in values["flaws"])
    return Node(values["digest"], values["text"], frozenset(values["imported"]), flaws, tuple(values["data"]))


def _parsed(source: bytes, file: Path, name: str) -> Node:
    tree = ast.parse(source, filename=str(file))
    imported = {".".join(name.split(".")[:i]) for i in range(1, name.count(".") + 1)}
    flaws: list[tuple[int, str]] = []
    data: list[str] = []
    for node in ast.walk(tree):
        imported.update(_imported(node, name, file.name == "__init__.py"))
        flaws += [(node.lineno, f"{what}; {ADVICE}") for what in _hidden(node) if isinstance(node, ast.stmt | ast.expr)]
        for line, value in _files_of(node):
            names = _texts(value)
            data += names or []
            flaws += [] if names is not None else [(line, WRITTEN_OUT)]
    _drop_facts(tree)
    text = hashlib.sha256(source).hexdigest()
    return Node(digest(_plain(tree)), text, frozenset(imported), tuple(flaws), tuple(data))


def _drop_facts(tree: ast.Module) -> None:
    """Removes from classes the `FACTS` that they state in plain values, unless the module reads them."""
    read = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            node.body = [statement for statement in node.body if not _is_fact(statement, FACTS - read)]


def _is_fact(statement: ast.stmt, facts: Set[str]) -> bool:
    if not isinstance(statement, ast.Assign) or not {getattr(t, "id", "") for t in statement.targets} <= facts:
        return False
    return all(isinstance(node, PLAIN) or getattr(node, "id", "") == "Identity" for node in ast.walk(statement.value))


def _hidden(node: ast.AST) -> Iterable[str]:
    """What runs code that no import statement names."""
    imported = list(_imported(node, "", False))
    imported = imported[1:] if isinstance(node, ast.ImportFrom) else imported
    names = [name if name in RUNNING else name.partition(".")[0] for name in imported if not name.startswith(HARMLESS)]
    if isinstance(node, ast.Name) and node.id in RUNNING:
        names.append(node.id)
    if isinstance(node, ast.Attribute) and node.attr == "path" and getattr(node.value, "id", "") == "sys":
        names.append("sys.path")
    return sorted({name for name in names if name in RUNNING})


def _files_of(node: ast.AST) -> list[tuple[int, ast.expr]]:
    """Line and value of what the body of a class assigns to ``files``."""
    body = node.body if isinstance(node, ast.ClassDef) else []
    assignments = [s for s in body if isinstance(s, ast.Assign | ast.AnnAssign) and "files" in assigned_names(s)]
    return [(assignment.lineno, assignment.value) for assignment in assignments if assignment.value]


def assigned_names(node: ast.AST) -> set[str]:
    """The names, but those in tuples, to which a statement or the loop of a comprehension assigns."""
    targets = [*getattr(node, "targets", []), getattr(node, "target", None)]
    return {target.id for target in targets if isinstance(target, ast.Name)}


def _texts(value: ast.expr) -> list[str] | None:
    """The paths below the file's folder in a tuple or list that is written out; None for any other expression."""
    try:
        paths = ast.literal_eval(value)
    except ValueError:
        return None
    if not isinstance(paths, tuple | list) or not all(path and isinstance(path, str) for path in paths):
        return None
    return None if any(os.path.isabs(path) or ".." in Path(path).parts for path in paths) else list(paths)


def _imported(node: ast.AST, name: str, is_package: bool) -> Iterable[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    base = node.module or ""
    if node.level:
        parents = name.split(".")
        parents = parents[: len(parents) - node.level + is_package]
        base = ".".join([*parents, base] if base else parents)
    return [base, *(f"{base}.{alias.name}" for alias in node.names)]


def _plain(node: Any) -> Any:
    """A syntax tree as plain lists, without positions, comments, docstrings and other bare strings.

    Absent and empty fields are left out, so that a Python release that adds a field to a node changes nothing.
    """
    if isinstance(node, list):
        return [_plain(item) for item in node if not _is_bare_string(item) and not _is_version(item)]
    if not isinstance(node, ast.AST):
        return node if isinstance(node, str | int | bool | None) else [type(node).__name__, repr(node)]
    fields = {k: _plain(v) for k, v in ast.iter_fields(node) if k != "kind" and v is not None and v != []}
    return [type(node).__name__, fields]


def _is_version(node: Any) -> bool:
    """A release changes the number; what it does to results is in the code."""
    return isinstance(node, ast.Assign) and [getattr(t, "id", "") for t in node.targets] == ["__version__"]


def _is_bare_string(node: Any) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
