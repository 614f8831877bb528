"""Finding and importing components by name: the file's name is the component's name; there is no registry.

A component may also lie outside the package: a path to a ``.py`` file, or an installed module announced in the
entry-point group of its kind, such as ``fedgrid.methods``.
"""

import functools
import hashlib
import importlib
import importlib.util
import os
import pkgutil
import sys
import traceback
from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES, ExtensionFileLoader, FileFinder, SourceFileLoader
from importlib.metadata import entry_points
from pathlib import Path
from types import CodeType, ModuleType

import fedgrid
from fedgrid.components import Component
from fedgrid.errors import UserError, nearest
from fedgrid.files import check_regular

OUTSIDE = "fedgrid_outside_"
"Prefix of the module name of a component in a file outside any package."
CODE = "FEDGRID_CODE"
"Environment variable: the folder in which a run keeps the code that it began with, see `fedgrid.run.pin`."
KINDS = {"methods": "method", "data": "data set", "partition": "partition", "models": "model"}

OWN = {"data": "; pictures of your own are {name: folder, path: FOLDER}"}
"By kind, the end of a sentence on an unknown name."


def names(kind: str) -> list[str]:
    """Names of the components of one kind that are installed, without importing any (`kind` as in `KINDS`)."""
    return sorted({*packaged(kind), *_announced()[kind]})


def packaged(kind: str) -> list[str]:
    """As `names`, without those that other packages announce."""
    folder = str(Path(fedgrid.__file__).parent / kind)
    return list(_modules_in(folder, os.stat(folder).st_mtime_ns))


@functools.cache  # planning asks a thousand times
def _modules_in(folder: str, changed: int) -> tuple[str, ...]:
    """Names of the modules in a folder; `changed` is when a file was last added or removed."""
    return tuple(sorted(m.name for m in pkgutil.iter_modules([folder]) if not m.ispkg and m.name != "base"))


def locate(kind: str, reference: str) -> tuple[str, str, Path | None]:
    """(name, module, file) of a component named by `reference`; `file` is None inside the package."""
    if reference.endswith(".py"):
        file = Path(reference)
        source = copy_of(file.parent, Path(os.environ[CODE])) / file.name if CODE in os.environ else file
        file = source if source.is_file() else file
        _check_file(file, f"{KINDS[kind]} '{reference}'", KINDS[kind])
        return file.stem, _module_name(kind, file), file
    if reference not in names(kind):
        raise UserError(f"unknown {KINDS[kind]} '{reference}'; {nearest(reference, names(kind))}{OWN.get(kind, '')}")
    if reference in _announced()[kind]:
        module = _announced()[kind][reference]
        origin = _file_of(module)
        if origin is None:
            raise UserError(f"{KINDS[kind]} '{reference}': its module {module} is not installed")
        return reference, module, origin
    return reference, f"fedgrid.{kind}.{reference}", None


def _check_file(file: Path, what: str, kind: str) -> None:
    """Raises UserError, which begins with `what` it is, for a path that cannot be the file of a component."""
    if not file.is_file():
        raise UserError(f"{what}: no such file")
    check_regular(file, what)
    if not file.stem.isidentifier():
        raise UserError(f"{what}: the file's name is the {kind}'s name and may have letters, digits and '_' only")


def _module_name(kind: str, file: Path) -> str:
    """The name of the module that a file becomes: a method and a model of the same name are different modules.

    A data set is called like the last part of its module's name.
    """
    return f"{OUTSIDE}{file.stem}" if kind == "methods" else f"{OUTSIDE}{kind}.{file.stem}"


def _file_of(module: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(module)
    except ImportError:  # a package above it is not there
        return None
    return Path(spec.origin) if spec and spec.origin else None


def copy_of(folder: Path, code: Path) -> Path:
    """Where the kept code of a run, in the folder `code`, holds the copy of a folder outside the package."""
    return code / "outside" / hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:16]


def load(kind: str, reference: str) -> type[Component]:
    """The component class of `reference`; UserError in one sentence where it cannot be imported."""
    _, module, file = locate(kind, reference)
    what = f"{KINDS[kind]} '{reference}'"
    if file is None:
        return _component_of(importlib.import_module(module), what)
    return _component_of(_imported(module, file, reference.endswith(".py"), what), what)


def load_file(reference: str) -> type[Component]:
    """The class of the component of any kind that a file outside the package defines; UserError in one sentence."""
    file, what = Path(reference), f"'{reference}'"
    _check_file(file, what, "component")
    return _component_of(_imported(_module_name("file", file), file, True, what), what)


def _imported(module: str, file: Path, from_file: bool, what: str) -> ModuleType:
    """A module outside the package; UserError in one sentence for whatever it raises."""
    try:
        return _import_file(module, file) if from_file else importlib.import_module(module)
    except Exception as error:
        kind = "" if isinstance(error, UserError) else f"{type(error).__name__}: "
        problem = error.msg if isinstance(error, SyntaxError) else error
        line = f" (line {number})" if (number := line_of(error, file)) else ""
        raise UserError(f"{what} cannot be imported: {kind}{problem}{line}") from error


def line_of(error: BaseException, file: Path) -> int | None:
    """The line of a file at which an error was raised, or which led to it."""
    if isinstance(error, SyntaxError):
        return error.lineno
    lines = [line for frame, line in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename == str(file)]
    return lines[-1] if lines else None


def _component_of(loaded: ModuleType, what: str) -> type[Component]:
    classes = [c for c in vars(loaded).values() if isinstance(c, type) and issubclass(c, Component)]
    classes = [c for c in classes if c.__module__ == loaded.__name__]
    if len(classes) != 1:
        raise UserError(f"{what}: expected one component class in the file, found {len(classes)}")
    return classes[0]


class _FromSource(SourceFileLoader):
    """Compiles a file as it is now: bytecode of an earlier version is taken for current where size and time agree."""

    content: bytes | None = None
    "What the file held when it was imported."

    def get_code(self, fullname: str) -> CodeType:
        self.content = self.get_data(self.path)
        return self.source_to_code(self.content, self.path)

    def is_current(self) -> bool:
        """Whether the file holds what was imported from it."""
        try:
            return self.content in (None, self.get_data(self.path))
        except OSError:
            return False

    def folder(self, name: str) -> Path:
        """The folder in which the module of that name, or the package that it is in, lies."""
        path = Path(self.path)
        return path.parents[name.count(".") + (path.name == "__init__.py")]


def _import_file(module: str, file: Path) -> ModuleType:
    _enter(file.parent.resolve())
    spec = importlib.util.spec_from_file_location(module, file, loader=_FromSource(module, str(file)))
    assert spec is not None and spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[module] = loaded
    spec.loader.exec_module(loaded)
    return loaded


def _enter(folder: Path) -> None:
    """Lets a file import the helpers in its folder as they are now, whatever was imported under their names before."""
    importlib.invalidate_caches()
    if str(folder) in sys.path:
        sys.path.remove(str(folder))
    else:
        extensions = ExtensionFileLoader, EXTENSION_SUFFIXES
        sys.path_importer_cache[str(folder)] = FileFinder(str(folder), extensions, (_FromSource, SOURCE_SUFFIXES))
    sys.path.insert(0, str(folder))
    helpers = _helpers()
    edited = any(not loader.is_current() for name, loader in helpers.items() if loader.folder(name) == folder)
    for name, loader in helpers.items():
        top = folder / name.partition(".")[0]
        has_helper = top.with_suffix(".py").is_file() or (top / "__init__.py").is_file()
        if edited if loader.folder(name) == folder else has_helper:
            del sys.modules[name]


def _helpers() -> dict[str, _FromSource]:
    """The modules that were imported from beside files of components, by name, with what imported each."""
    loaders = {name: getattr(module, "__loader__", None) for name, module in list(sys.modules.items())}
    loaded = {name: loader for name, loader in loaders.items() if isinstance(loader, _FromSource)}
    return {name: loader for name, loader in loaded.items() if not name.startswith(OUTSIDE)}


@functools.cache  # it looks through every installed package
def _announced() -> dict[str, dict[str, str]]:
    """By kind, the modules of components that other packages announce, by name."""
    announced = entry_points()
    return {kind: {e.name: e.module for e in announced.select(group=f"fedgrid.{kind}")} for kind in KINDS}
