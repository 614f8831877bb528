"""Finding and importing components by name: the file's name is the component's name; there is no registry.

A method may also lie outside the package: a path to a ``.py`` file, or an installed module announced in the entry-point
group ``fedgrid.methods``.
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
"Prefix of the module name of a method in a file outside any package."
CODE = "FEDGRID_CODE"
"Environment variable: the folder in which a run keeps the code that it began with, see `fedgrid.run.pin`."
KINDS = {"methods": "method", "data": "data set", "partition": "partition", "models": "model"}


def names(kind: str) -> list[str]:
    """Names of the components of one kind that the package holds, without importing any (`kind` as in `KINDS`)."""
    folder = str(Path(fedgrid.__file__).parent / kind)
    inside = {m.name for m in pkgutil.iter_modules([folder]) if not m.ispkg and m.name != "base"}
    return sorted(inside | set(_announced() if kind == "methods" else ()))


def locate(kind: str, reference: str) -> tuple[str, str, Path | None]:
    """(name, module, file) of a component named by `reference`; `file` is None inside the package."""
    if kind == "methods" and reference.endswith(".py"):
        file = Path(reference)
        source = copy_of(file.parent, Path(os.environ[CODE])) / file.name if CODE in os.environ else file
        file = source if source.is_file() else file
        if not file.is_file():
            raise UserError(f"method '{reference}': no such file")
        check_regular(file, f"method '{reference}'")
        if not file.stem.isidentifier():
            raise UserError(
                f"method '{reference}': the file's name is the method's name and may have letters, digits and '_' only"
            )
        return file.stem, f"{OUTSIDE}{file.stem}", file
    if reference not in names(kind):
        raise UserError(f"unknown {KINDS[kind]} '{reference}'; {nearest(reference, names(kind))}")
    if kind == "methods" and reference in _announced():
        module = _announced()[reference]
        spec = importlib.util.find_spec(module)
        if spec is None or spec.origin is None:
            raise UserError(f"method '{reference}': its module {module} is not installed")
        return reference, module, Path(spec.origin)
    return reference, f"fedgrid.{kind}.{reference}", None


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
    if not file.is_file():
        raise UserError(f"{what}: no such file")
    check_regular(file, what)
    if not file.stem.isidentifier():
        raise UserError(f"{what}: the file's name is the component's name and may have letters, digits and '_' only")
    return _component_of(_imported(f"{OUTSIDE}{file.stem}", file, True, what), what)


def _imported(module: str, file: Path, from_file: bool, what: str) -> ModuleType:
    """A module outside the package; UserError in one sentence for whatever it raises."""
    try:
        return _import_file(module, file) if from_file else importlib.import_module(module)
    except Exception as error:
        kind = "" if isinstance(error, UserError) else f"{type(error).__name__}: "
        problem = error.msg if isinstance(error, SyntaxError) else error
        line = f" (line {number})" if (number := _line_of(error, file)) else ""
        raise UserError(f"{what} cannot be imported: {kind}{problem}{line}") from error


def _line_of(error: Exception, file: Path) -> int | None:
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

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


def _import_file(module: str, file: Path) -> ModuleType:
    folder = str(file.parent.resolve())
    if folder not in sys.path:
        sys.path.insert(0, folder)  # a method outside the package may have helper files beside it
        extensions = ExtensionFileLoader, EXTENSION_SUFFIXES
        sys.path_importer_cache[folder] = FileFinder(folder, extensions, (_FromSource, SOURCE_SUFFIXES))
    spec = importlib.util.spec_from_file_location(module, file, loader=_FromSource(module, str(file)))
    assert spec is not None and spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[module] = loaded
    spec.loader.exec_module(loaded)
    return loaded


@functools.cache  # it looks through every installed package
def _announced() -> dict[str, str]:
    return {e.name: e.module for e in entry_points(group="fedgrid.methods")}
