"""The modules of fedgrid and of users as their source shows them: their code, what they import, what no key covers.

Nothing is imported.
"""

import ast
import functools
import hashlib
import importlib.util
import os
import sys
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import fedgrid
from fedgrid.errors import UserError
from fedgrid.grid.study.canonical import digest
from fedgrid.loading import OUTSIDE

PACKAGE = "fedgrid"
RUNNING = {"importlib", "runpy", "pkgutil", "__import__", "exec", "eval", "compile", "sys.path"}
"With these, code runs that no import statement names."
ADVICE = (
    "no key covers what that brings in: put it beside the file, or install it, and import it with an import statement"
)
WRITTEN_OUT = "write the names of files in its folder out in the class, as in files = ('prior.txt',)"
HARMLESS = ("importlib.metadata", "importlib.resources")
NOT_COUNTED: Mapping[str, str] = {
    "fedgrid": "names the version, and hands on what users import",
    "fedgrid.components": "declares and checks settings; their values stand in the key themselves",
    "fedgrid.data.sources.digests": "digests of the user's files; they stand in the key themselves",
    "fedgrid.data.sources.download": "fetches files; what they hold is checked, and read by modules that count",
    "fedgrid.data.sources.sizes": "compares the sizes of pictures; modules that count read them and compare them again",
    "fedgrid.errors": "sentences for users",
    "fedgrid.files": "writes files whole or not at all; what stands in them comes from modules that count",
    "fedgrid.loading": "finds components by name; those that are found count",
    "fedgrid.settings": "declares the settings of a study; their values stand in the key themselves",
}
"""Modules that counted code imports, and that no key covers, each with the reason. None of them does arithmetic.

The rooms `grid`, `jobs`, `run`, `analysis` and `cli` need not stand here: counted code may not import them.
"""
FACTS: Set[str] = {
    *("carries", "cite", "cost_settings", "down", "family", "identities", "product_limits", "shares"),
    *("similar_sizes", "source", "title", "up", "work"),
}
"What a component's class states about itself for pages, estimates and tests; no number depends on it."
PLAIN = (ast.Constant, ast.Tuple, ast.List, ast.Dict, ast.Call, ast.keyword, ast.Load, ast.UnaryOp, ast.USub)
"Syntax of a fact: constants, and calls of `Identity`, whose name is checked besides."


def is_ours(name: str) -> bool:
    """Whether a module of that name is one of fedgrid."""
    return name.partition(".")[0] == PACKAGE


@dataclass(frozen=True)
class Sources:
    """The modules of fedgrid and, for a component elsewhere, of its folder or of the package that announces it."""

    ours: str
    "The folder above fedgrid."
    root: str | None = None
    "The folder above the component's modules; None inside fedgrid."
    package: str | None = None
    "The package that announces the component."
    alias: tuple[str, str] = ("", "")
    "The name of the module that a file becomes, and that by which others in its folder import it."

    @classmethod
    def of(cls, module: str = PACKAGE, file: Path | None = None) -> "Sources":
        """Those that a module reaches: of fedgrid, and of the user's where it has a `file`."""
        ours = str(Path(fedgrid.__file__).parents[1])
        if file is None:
            return cls(ours)
        if module.startswith(OUTSIDE):
            return cls(ours, str(file.parent), alias=(module, file.stem))
        depth = module.count(".") + (file.name == "__init__.py")
        return cls(ours, str(file.parents[depth]), module.partition(".")[0])

    def data(self, name: str) -> list[Path]:
        """The files that the classes of a module outside this package say they read; UserError where one is no file."""
        file = self.file(name)
        if file is None or is_ours(name):
            return []
        files = [file.parent / data for data in self.node(name).data]
        for data in files:
            if data.exists() and not data.is_file():  # a device may have no end
                raise UserError(f"{file}: its `files` name {data}, which is not a regular file")
        return files

    def below(self, package: str) -> list[str]:
        """The names of all modules of a package of fedgrid, its own included."""
        folder = Path(self.ours, *package.split("."))
        files = (file.relative_to(self.ours).with_suffix("") for file in sorted(folder.rglob("*.py")))
        return [".".join(file.parts).removesuffix(".__init__") for file in files]

    def node(self, name: str) -> "Node":
        file = self.file(name)
        assert file is not None  # `closure` names what has one
        return _read(file, os.stat(file).st_mtime_ns, name)

    def file(self, name: str) -> Path | None:
        if is_ours(name):
            return _module_file(self.ours, name)
        outside = self.root and name and (not self.package or f"{name}.".startswith(f"{self.package}."))
        return _module_file(self.root, name) if outside else None

    def closure(self, entries: Iterable[str]) -> dict[str, "Node"]:
        """The modules of `entries` and all that they import and that count, in the order of their names."""
        nodes: dict[str, Node] = {}
        entries = [self.alias[1] if entry == self.alias[0] else entry for entry in entries]
        todo = [*entries]
        while todo:
            name = todo.pop()
            if name not in nodes and (name in entries or name not in NOT_COUNTED):
                nodes[name] = self.node(name)
                todo += _having_files(self, nodes[name].imported)
        return dict(sorted(nodes.items()))


@functools.cache  # thousands of modules are walked for a study, always the same ones
def _having_files(sources: Sources, imported: frozenset[str]) -> tuple[str, ...]:
    """Those of the imported modules whose source belongs to `sources`."""
    return tuple(name for name in imported if sources.file(name))


@functools.cache
def _module_file(root: str, name: str) -> Path | None:
    """The file of a module below `root`; a text, for it is asked for a hundred thousand times, and a path is slow."""
    path = Path(root, *name.split("."))
    return next((f for f in (path / "__init__.py", path.with_suffix(".py")) if f.is_file()), None)


@functools.cache
def is_installed(name: str) -> bool:
    """Whether a module comes with Python or from an installed distribution; one that is not there at all is too."""
    if name in sys.stdlib_module_names or name == PACKAGE:
        return True
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return True
    if spec is None:
        return True  # the import fails and says so
    places = [spec.origin or "", *(spec.submodule_search_locations or ())]
    if any(part in ("site-packages", "dist-packages") for folder in places for part in Path(folder).parts):
        return True
    return name in packages_distributions()  # installed so that its source can be edited where it lies


def forget_files() -> None:
    """Looks again, from now on, which modules have files: a session may have added or removed some."""
    for known in (_having_files, _module_file, is_installed):
        known.cache_clear()


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


@functools.cache
def _read(file: Path, mtime: int, name: str) -> Node:
    source = file.read_bytes()
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
