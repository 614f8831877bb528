"""Which tests an edit can reach, nearest first: for `make check`.

The graph of imports says which modules use an edited one, and the tests' own imports which tests use those. Methods,
data sets, models and partitions are loaded by name, so tests that name an edited one are reached too. Every edit would
reach the tests that run the whole workflow, so only edits of what runs it select them.
"""

import ast
import subprocess
import time
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

import pytest
from tiers import REPRESENTATIVES, method_of

ROOT = Path(__file__).parents[1]
TESTS, SOURCES = ROOT / "tests", ROOT / "src"
PARAMETERS = {
    "data": "(data: DataSet",
    "methods": "method_name",
    "models": "(model: Model",
    "partition": "(partition: Partition",
}
"By room of components, what stands in a file of tests that takes all of its components."
ROOMS = {f"fedgrid.{room}" for room in PARAMETERS}
SHOWN, KINDS = ("fedgrid.analysis.tables.", "fedgrid.analysis.figures."), "fedgrid.analysis.kinds"
"How modules of tables and figures begin, and the module that imports them by name."
SUITE = "fedgrid.suite."
"Modules of the package that hold tests, which files of tests import."
WHOLE_RUNS = ("cluster", "workflow")
"Folders of tests that run the whole workflow."
RUNS = (
    "workflow/",
    "profiles/",
    "src/fedgrid/run/",
    "src/fedgrid/jobs/",
    "tests/workflow/",
    "tests/cluster/",
)
"What is edited when tests of whole runs are reached."
OVER = "the time of `make check` is over"


class Reach:
    """The selection of one session: files and cases that the edit reaches, for at most so many `seconds`."""

    def __init__(self, seconds: float):
        self.end = time.monotonic() + seconds
        files = edited_files()
        modules = [module for file in files if (module := module_of(file))]
        self.modules = distances([*modules, *[KINDS] * any(module.startswith(SHOWN) for module in modules)])
        self.names = component_names(self.modules)
        self.whole_runs = any(file.startswith(RUNS) for file in files)
        self.files = {file: d for file in TESTS.rglob("test_*.py") if (d := self._distance(file, files)) is not None}

    def _distance(self, file: Path, edited: Iterable[str]) -> int | None:
        """Steps from an edited file to a file of tests; None where it is not reached."""
        if file.relative_to(TESTS).parts[0] in WHOLE_RUNS and not self.whole_runs:
            return None
        if any(ROOT / name in (file, *helpers(file)) for name in edited):
            return 0
        steps = [self.modules[name] + 1 for name in imported(file) if name in self.modules]
        return min([*steps, *([1] if self._names_one(file) else [])], default=None)

    def _names_one(self, file: Path) -> bool:
        text = _text(file)
        rooms = {name.split(".")[1] for name in self.modules if name.rpartition(".")[0] in ROOMS}
        takes_one = any(PARAMETERS[room] in text for room in rooms)
        return takes_one or any(f'"{name}"' in text for name in self.names)

    @property
    def methods(self) -> set[str]:
        """Methods that are edited themselves, or use what was."""
        return {name.rpartition(".")[2] for name in self.modules if name.startswith("fedgrid.methods.")}

    def takes(self, item: pytest.Item) -> bool:
        """Whether a case is reached: one about a method only where that method is, if any is."""
        method = method_of(item)
        return method is None or not self.methods or method in self.methods

    def order(self, item: pytest.Item) -> tuple[int, str, bool]:
        """Nearest files first, and in each the representative methods."""
        return self.files.get(item.path, 0), str(item.path), method_of(item) not in REPRESENTATIVES


def edited_files() -> list[str]:
    """Files that differ from the last commit or are not in it; those of the last commit where nothing does."""
    changed = _git("diff", "--name-only", "HEAD") + _git("ls-files", "--others", "--exclude-standard")
    return changed or _git("diff", "--name-only", "HEAD~1", "HEAD")


def _git(*arguments: str) -> list[str]:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


def module_of(file: str) -> str | None:
    """The module of a file of the package; of a template or a style sheet, the package that holds it."""
    path = ROOT / file
    if SOURCES not in path.parents:
        return None
    while path.suffix != ".py" and not (path / "__init__.py").is_file():
        path = path.parent
    parts = path.relative_to(SOURCES).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def distances(modules: Iterable[str]) -> dict[str, int]:
    """Modules that use some of these, directly or not, by the number of imports between; 0 for these themselves."""
    import grimp  # of import-linter, which the environment of the tests has

    graph = grimp.build_graph("fedgrid")
    actual = {module: 0 for module in modules if module in graph.modules}
    waiting = list(actual)
    for module in waiting:
        for user in graph.find_modules_that_directly_import(module):
            if user not in actual:
                actual[user] = actual[module] + 1
                waiting.append(user)
    return actual


def component_names(modules: Mapping[str, int]) -> set[str]:
    """Names by which edited components, and components that import them, are loaded."""
    return {name.rpartition(".")[2] for name in modules if name.rpartition(".")[0] in ROOMS}


def _text(file: Path) -> str:
    """The source of a file of tests, and of the modules of the suite that it imports."""
    suites = [SOURCES / f"{name.replace('.', '/')}.py" for name in _imports(file) if name.startswith(SUITE)]
    return "".join(path.read_text(encoding="utf-8") for path in [file, *suites] if path.is_file())


@cache
def imported(file: Path) -> frozenset[str]:
    """Modules of the package that a file of tests imports, itself or through helpers beside it."""
    names = {name for name in _imports(file) if name.startswith("fedgrid")}
    return frozenset(names).union(*(imported(helper) for helper in helpers(file)))


@cache
def helpers(file: Path) -> tuple[Path, ...]:
    """Modules of the tests' own that a file of tests imports."""
    folders = (TESTS, TESTS / "workflow", file.parent)
    names = {name.split(".")[0] for name in _imports(file) if not name.startswith("fedgrid")}
    return tuple({path for name in names for folder in folders if (path := folder / f"{name}.py").is_file()} - {file})


@cache
def _imports(file: Path) -> frozenset[str]:
    """Everything that is imported, the names behind ``from … import`` as if they were modules too."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(names)
