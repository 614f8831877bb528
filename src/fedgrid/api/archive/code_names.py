"""Which names make a program run or obey a file that nobody told it of: no archive brings one into a project."""

import sys
import unicodedata
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import packages_distributions

SOURCE, PACKAGE = ".py", "__init__.py"
SCRIPTS = (".bash", ".bat", ".cmd", ".ipynb", ".jl", ".js", ".pl", ".ps1", ".pyw", ".r", ".rb", ".sh")
"How the names of other programs end, which run only where somebody calls them."
COMPILED = (*EXTENSION_SUFFIXES, ".pyc", ".pyo", ".pyd", ".so", ".pth", ".egg", ".whl")
"How the names of files end that Python runs, or adds to what it imports, and that nobody can read."
STEERING_FILES = (
    *("makefile", "gnumakefile", "bsdmakefile", "snakefile"),
    *("matplotlibrc", "pyproject.toml", "pytest.ini", "setup.cfg", "tox.ini"),
)
STEERING_SUFFIXES = (".mk", ".smk")
"What make, Snakemake, Matplotlib and pytest obey where they find it."
PROFILES = "profiles"
"A folder in which Snakemake looks for its options."
STORE = "store"
"A folder below results, in which a run keeps the code that it began with."
METADATA_SUFFIXES = (".dist-info", ".egg-info")
"How the names of folders and files end by which a package, and its plugins, are taken for installed."
IMPORTED_UNASKED = ("conftest", "fedgrid", "sitecustomize", "usercustomize")
PLUGIN = "snakemake_"
"What the names of modules begin with that Snakemake imports wherever it finds them."


def is_code(name: str) -> bool:
    """Whether a file of this name is a program."""
    return _folded(name).endswith((SOURCE, *SCRIPTS))


def objection(name: str) -> str:
    """Why no project may have a file of this name, in words that follow the name; empty where it may."""
    *folders, file = _folded(name).split("/")
    if file.endswith(COMPILED):
        return "is compiled code"
    if file in STEERING_FILES or file.endswith(STEERING_SUFFIXES) or PROFILES in folders:
        return "would steer other programs"
    if any(part.endswith(METADATA_SUFFIXES) for part in (*folders, file)):
        return "would be taken for a part of an installed package"
    if not file.endswith(SOURCE):
        return ""
    if STORE in folders:
        return "is code in a store of results"
    module = folders[-1] if file == PACKAGE and folders else file.removesuffix(SOURCE)
    if module in _modules() or module.startswith(PLUGIN):
        return f"would be imported in place of the module '{module}'"
    return ""


def _folded(name: str) -> str:
    """The name as a file system that does not tell letters apart has it."""
    return unicodedata.normalize("NFKC", name).casefold()


@cache  # it looks through every installed package
def _modules() -> frozenset[str]:
    """Names of the modules of Python, and of those that are installed."""
    return frozenset(map(_folded, {*sys.stdlib_module_names, *packages_distributions(), *IMPORTED_UNASKED}))
