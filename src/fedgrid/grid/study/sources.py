"""The modules of fedgrid and of users as their source shows them: their code, what they import, what no key covers.

Nothing is imported.
"""

import functools
import importlib.util
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import packages_distributions
from pathlib import Path

import fedgrid
from fedgrid.errors import UserError
from fedgrid.grid.study.nodes import Node, read
from fedgrid.loading import OUTSIDE

PACKAGE = "fedgrid"
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
        return sorted(name for name in _own_files(self.ours) if f"{name}.".startswith(f"{package}."))

    def node(self, name: str) -> Node:
        file = self.file(name)
        assert file is not None  # `closure` names what has one
        return _own(file, name) if is_ours(name) else _read(file, os.stat(file).st_mtime_ns, name)

    def file(self, name: str) -> Path | None:
        if is_ours(name):
            return _own_files(self.ours).get(name)
        outside = self.root and name and (not self.package or f"{name}.".startswith(f"{self.package}."))
        return _module_file(self.root, name) if outside else None

    def closure(self, entries: Iterable[str]) -> dict[str, Node]:
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
def _own_files(root: str) -> Mapping[str, Path]:
    """The files of all modules of fedgrid by their names, from one walk: to ask for thousands one by one is slow."""
    files = (file.relative_to(root) for file in Path(root, PACKAGE).rglob("*.py"))
    return {".".join(file.with_suffix("").parts).removesuffix(".__init__"): Path(root, file) for file in files}


@functools.cache
def _module_file(root: str, name: str) -> Path | None:
    """The file of a module below `root`; a text, for it is asked for often, and a path is slow."""
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
    for known in (_having_files, _own, _own_files, _module_file, is_installed):
        known.cache_clear()


@functools.cache
def _own(file: Path, name: str) -> Node:
    """A module of fedgrid, whose file is looked at once, until `forget_files`."""
    return _read(file, os.stat(file).st_mtime_ns, name)


@functools.cache
def _read(file: Path, mtime: int, name: str) -> Node:
    return read(file, name)
