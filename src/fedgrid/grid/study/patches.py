"""What a component changes of fedgrid or of torch, which every other component shares: patches, defaults, switches.

The change would be part of no key but its own. A component has its own way by a subclass, or by an argument.
"""

import importlib
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from fedgrid.errors import UserError
from fedgrid.grid.study.fingerprint import imported_modules

OURS, TORCH = "fedgrid", "torch"
ELSEWHERE = "torch.distributed"
"No cell uses it, and some of its names warn whoever looks at them."
ADVICE = "which other cells share and their keys do not cover; derive a class of your own, or pass an argument"
LAZY = frozenset(
    ("__annotations__", "__doc__", "__dict__", "__weakref__", "__abstractmethods__", "__warningregistry__", "_abc_impl")
)
"Attributes that Python makes when they are first used."
OF_SWITCHES = frozenset(("Storage",))
"Names of torch that it binds anew when the default dtype is set."
DESCRIPTORS = (staticmethod, classmethod, property)
ABSENT = object()
Names = dict[str, Any]


def _settings() -> dict[str, Any]:
    """The switches of torch that change what it computes, by name; none where it is not imported."""
    torch: Any = sys.modules.get(TORCH)
    if torch is None:
        return {}
    return {
        "the default dtype": torch.get_default_dtype(),
        "the default device": torch.get_default_device(),
        "deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
        "whether gradients are recorded": torch.is_grad_enabled(),
        "the precision of float32 products": torch.get_float32_matmul_precision(),
        "the number of threads": torch.get_num_threads(),
        "torch.backends.cudnn.deterministic": torch.backends.cudnn.deterministic,
        "torch.backends.cudnn.benchmark": torch.backends.cudnn.benchmark,
        "torch.backends.cudnn.allow_tf32": torch.backends.cudnn.allow_tf32,
    }


class Shared:
    """Everything that components share as it is now; see `changes`."""

    def __init__(self) -> None:
        self.settings = _settings()
        self.holders = {name: (holder, _counted(name, holder)) for name, holder in _holders()}
        values = [value for _, names in self.holders.values() for value in names.values()]
        functions = [value for value in values if isinstance(value, FunctionType) and _package(value) == OURS]
        self.functions = {function: _inside(function) for function in functions}

    def changes(self) -> list[str]:
        """Names of what has been replaced, added or removed since, by other code than that of installed libraries."""
        return self.switches() + self.patches()

    def switches(self) -> list[str]:
        """Names of the switches of torch that have been turned since; the engine itself sets some for each cell."""
        return [f"torch: {name}" for name, value in _settings().items() if self.settings.get(name, value) != value]

    def patches(self) -> list[str]:
        """As `changes`, without the switches of torch."""
        replaced = [
            f"{name}.{attribute}"
            for name, (holder, before) in self.holders.items()
            for attribute in _differing(before, _counted(name, holder))
        ]
        edited = [
            f"{function.__module__}.{function.__qualname__}"
            for function, before in self.functions.items()
            if _inside(function) != before
        ]
        return replaced + edited


def _holders() -> Iterator[tuple[str, ModuleType | type]]:
    """The public modules of fedgrid and torch, and the classes that they define, by name."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] not in (OURS, TORCH) or "._" in name or name.startswith(ELSEWHERE):
            continue
        if isinstance(module, ModuleType):
            yield name, module
            for attribute, value in list(vars(module).items()):
                if isinstance(value, type) and value.__module__ == name:
                    yield f"{name}.{attribute}", value


def _counted(name: str, holder: ModuleType | type) -> Names:
    """The attributes of a module or a class that are compared: functions and classes, and of fedgrid's all values."""
    ours = name.partition(".")[0] == OURS
    return {
        attribute: value
        for attribute, value in list(vars(holder).items())
        if attribute not in LAZY
        and (ours or attribute not in OF_SWITCHES)
        and not isinstance(value, ModuleType)
        and (callable(value) or isinstance(value, DESCRIPTORS) or (ours and not attribute.startswith("_")))
    }


def _differing(before: Names, now: Names) -> Iterator[str]:
    for attribute in {**before, **now}:
        value, earlier = now.get(attribute, ABSENT), before.get(attribute, ABSENT)
        # torch makes some of its names, and wraps some functions, when they are first used
        lazy = _package(value) == TORCH and (earlier is ABSENT or getattr(value, "__name__", "") == attribute)
        if value is not earlier and not lazy and not _is_of_library(value):
            yield attribute


def _is_of_library(value: Any) -> bool:
    """Whether code comes from another installed library, which does what it does for all components alike."""
    if _package(value) in (OURS, TORCH):
        return False
    function = getattr(value, "__func__", getattr(value, "fget", value))
    module = sys.modules.get(getattr(value, "__module__", None) or "")
    file = getattr(getattr(function, "__code__", None), "co_filename", "") or getattr(module, "__file__", None) or ""
    return "site-packages" in file or "dist-packages" in file or file.startswith(sys.base_prefix)


def _package(value: Any) -> str:
    return str(getattr(value, "__module__", None) or type(value).__module__).partition(".")[0]


def _inside(function: FunctionType) -> tuple[Any, ...]:
    return function.__code__, function.__defaults__, str(function.__kwdefaults__)


def import_shared(module: str, file: Path) -> None:
    """Imports what a component imports of fedgrid: later, that could not be told from what the component changes."""
    with suppress(UserError, OSError, SyntaxError, ValueError, RecursionError, MemoryError):  # its own import will tell
        for name in imported_modules(module, file) if file.is_file() else ():
            importlib.import_module(name)


def refuse_changes(what: str, changes: list[str]) -> None:
    """Raises UserError, which begins with `what` made the changes, where there are any."""
    if changes:
        raise UserError(f"{what} changes {changes[0]}, {ADVICE}")
