"""What a component outside the package does when it runs that its key does not cover.

Python announces every file that it opens and all code that it runs by *audit events* (PEP 578), however the source
spells it. While a component is imported and used, an event that its own code caused is a flaw where it concerns code or
data that are neither covered by its key nor installed. Libraries that open files outside Python (Arrow, safetensors,
HDF5) cause no event, and neither does reading an environment variable. What it replaces in fedgrid or torch is seen
when it has ended; see `fedgrid.grid.study.patches`.
"""

import functools
import importlib.util
import itertools
import os
import site
import sys
import sysconfig
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import packages_distributions
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import fedgrid
from fedgrid.errors import UserError
from fedgrid.grid.study.fingerprint import files
from fedgrid.grid.study.nodes import ADVICE
from fedgrid.grid.study.patches import Shared, import_shared, refuse_changes
from fedgrid.loading import KINDS

OPENING, RUNNING, LOADING = ("open", "sqlite3.connect"), "exec", ("import", "ctypes.dlopen")
NETWORK = "socket.connect"
STARTING = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn")
LEAVING: Mapping[str, str] = dict.fromkeys(STARTING, "starts another program") | {NETWORK: "uses the network"}
EVENTS = {*OPENING, RUNNING, *LOADING, *LEAVING}
SYSTEM = ("/proc", "/sys", "/dev", "/etc", "/usr", "/lib", "/lib64", "/System", "/Library")
"Folders of the operating system."
DATA_ADVICE = "no key covers what it holds: put it in the file's folder and name it there in files = ('prior.txt',)"
Listener = Callable[[str, tuple[Any, ...]], None]
_listeners: list[Listener] = []
_thread = threading.local()
_install = functools.cache(sys.addaudithook)  # a hook cannot be taken away again
_distributed = functools.cache(packages_distributions)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Calls `listener` with the name and the arguments of every one of `EVENTS` that happens within it."""
    _install(_hear)
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if event not in EVENTS or not _listeners or getattr(_thread, "listening", False):
        return
    _thread.listening = True  # what a listener does itself causes events too
    try:
        for listener in tuple(_listeners):
            listener(event, arguments)
    finally:
        _thread.listening = False


def opened_path(event: str, arguments: tuple[Any, ...]) -> str | None:
    """The absolute path that an event of `OPENING` opens for reading; None for any other event, and for descriptors."""
    if event not in OPENING or isinstance(arguments[0], int) or _starts_empty(*arguments[1:]):
        return None
    return os.path.realpath(os.fsdecode(arguments[0]))


def _starts_empty(mode: str | None = None, flags: int = 0) -> bool:
    """Whether nothing can be read from a file that is opened so but what is written to it."""
    if mode is None:
        return bool(flags & (os.O_TRUNC | os.O_EXCL)) or flags & os.O_ACCMODE == os.O_WRONLY
    return "w" in mode or "x" in mode or (mode.startswith("a") and "+" not in mode)


class Watch:
    """A context in which the component of `module`, in `file`, is imported and used; see `check`.

    `kind` is as in `fedgrid.loading.KINDS`. A component that `reads` may open any file and use the network: something
    else covers what it reads. The context ends with the UserError of `check` in place of an error of the component's.
    """

    def __init__(self, module: str, file: Path, kind: str = "methods", reads: bool = False):
        self.covered: dict[str, str] = {}
        "By path of every file that a key covers, the component that it belongs to."
        self.reads = reads
        self.folders: set[str] = set()
        self.written: set[str] = set()
        self.flaws: list[str] = []
        self.listening = listening(self._see)
        self.component = f"{KINDS[kind]} '{file}'"
        self.cover(module, file, kind)

    def cover(self, module: str, file: Path, kind: str) -> None:
        """Watches one more component, whose code the same key covers."""
        import_shared(module, file)
        self.covered |= {os.path.realpath(path): f"{KINDS[kind]} '{file}'" for path in files(module, file)}
        self.folders.add(os.path.realpath(file.parent) + os.sep)

    def __enter__(self) -> "Watch":
        self.shared = Shared()
        self.listening.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        self.listening.__exit__(None, None, None)
        if error is None or isinstance(error, Exception):
            self.check()
            refuse_changes(self.component, self.shared.patches())

    def check(self) -> None:
        """Raises UserError, with file and line, for the first thing that was done and the key does not cover."""
        if self.flaws:
            raise UserError(self.flaws[0])

    def _see(self, event: str, arguments: tuple[Any, ...]) -> None:
        # those that led to the event, the innermost first, without those of this module
        frames = [f for f, _ in traceback.walk_stack(sys._getframe()) if f.f_code.co_filename != __file__]
        culprits = [frame for frame in _outside_imports(frames) if self._is_covered(frame)]
        if culprits and (flaw := self._flaw(event, arguments, frames)):
            path = culprits[0].f_code.co_filename
            self.flaws.append(f"{self.covered[os.path.realpath(path)]}: {path}, line {culprits[0].f_lineno}: {flaw}")

    def _flaw(self, event: str, arguments: tuple[Any, ...], frames: list[FrameType]) -> str:
        """What is wrong with an event that a component caused; empty where nothing is."""
        if event in OPENING:  # what an import opens it also runs, which is another event
            return "" if self.reads or _is_importing(frames[0]) else self._flaw_of_opening(event, arguments)
        if self.reads and event == NETWORK:
            return ""
        if event in LEAVING:
            return f"{LEAVING[event]}; {ADVICE}" if self._is_direct(frames) else ""
        code: Any = arguments[0] if event == RUNNING else arguments[LOADING.index(event) ^ 1]
        path = code.co_filename if isinstance(code, CodeType) else code
        if not isinstance(path, str) or not os.path.isfile(path):
            from_text = event == RUNNING and self._is_covered(frames[0])
            return f"runs code from a text (exec or eval); {ADVICE}" if from_text else ""
        return "" if self._is_allowed(os.path.realpath(path)) else f"runs {path}; {ADVICE}"

    def _flaw_of_opening(self, event: str, arguments: tuple[Any, ...]) -> str:
        path = opened_path(event, arguments)
        if path is None:
            if not isinstance(arguments[0], int):
                self.written.add(os.path.realpath(os.fsdecode(arguments[0])))
            return ""
        is_beside = not path.endswith(".pyc") and path.startswith(tuple(self.folders))
        missing = not os.path.exists(path) and is_beside  # a run's copy of the code lacks it
        refused = missing or (os.path.isfile(path) and not self._is_allowed(path))
        return f"opens {path}; {DATA_ADVICE}" if refused else ""

    def _is_covered(self, frame: FrameType) -> bool:
        return os.path.realpath(frame.f_code.co_filename) in self.covered

    def _is_direct(self, frames: list[FrameType]) -> bool:
        """Whether a component's code caused an event with nothing but Python's own library between."""
        library = tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib"))
        outer = [frame for frame in frames if not frame.f_code.co_filename.startswith(("<", *library))]
        return any(map(self._is_covered, outer[:1]))

    def _is_allowed(self, path: str) -> bool:
        if path.endswith(".pyc"):
            path = importlib.util.source_from_cache(path)
        return path in self.covered or path in self.written or _is_installed(path)


def _outside_imports(frames: list[FrameType]) -> Iterator[FrameType]:
    """The frames up to the first import that is under way: what a library does while it is imported is its own affair.

    Where the event is the import itself, it is the next one out.
    """
    outer = itertools.dropwhile(_is_importing, frames)
    return itertools.takewhile(lambda frame: not _is_importing(frame), outer)


def _is_importing(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith("<frozen importlib")


def _is_installed(path: str) -> bool:
    """Whether a file belongs to the system, to Python or to an installed distribution.

    The folder of an imported package may be elsewhere, where it is installed so that its source can be edited.
    """
    if path.startswith(_installed_folders()):
        return True
    packages = [sys.modules[name] for name in _distributed() if name in sys.modules]
    folders = [os.path.realpath(folder) for package in packages for folder in getattr(package, "__path__", ())]
    return any(path.startswith(folder + os.sep) for folder in folders)


@functools.cache
def _installed_folders() -> tuple[str, ...]:
    folders = {*SYSTEM, sys.prefix, sys.base_prefix, site.getusersitepackages(), str(Path(fedgrid.__file__).parent)}
    folders |= {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return tuple(folder.rstrip(os.sep) + os.sep for folder in {*folders, *map(os.path.realpath, folders)})
