"""Which names the files of an archive may have.

No archive brings a file into a project that a program runs or obeys though nobody told it of the file.
"""

import sys
import unicodedata
from collections.abc import Sequence
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import packages_distributions

from fedgrid.api.archive.layout import FORMS, OUTSIDE, PROJECT, RESULT_KINDS, RESULTS, STEERING, STORED, TOP
from fedgrid.errors import UserError

LONGEST_NAME, LONGEST_PART = 1000, 255
"Characters of a name; bytes of a part of it."
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


def check_name(name: str) -> None:
    """Raises UserError for a name that is not of an archive, or that leads out of the folder that it is unpacked to."""
    shown, parts = f"{name[:80]!r}", name.split("/")
    if name.startswith("/") or name[1:2] == ":":
        raise UserError(f"the name {shown} is absolute")
    if ".." in parts:
        raise UserError(f"the name {shown} leads out of the archive")
    if len(name) > LONGEST_NAME or any(len(part.encode(errors="replace")) > LONGEST_PART for part in parts):
        raise UserError(f"the name {shown} is too long")
    if any(unicodedata.category(character) in ("Cc", "Cf", "Cs") or character in '\\:*?"<>|' for character in name):
        raise UserError(f"the name {shown} has a character that no name here has")
    if any(not part.strip(" ") or part.startswith(".") or part.endswith((".", " ")) for part in parts):
        raise UserError(f"the name {shown} has a part that is empty or hidden")
    if not _is_known(parts):
        raise UserError(f"{shown} is not a file that an archive of fedgrid bundle has")
    if parts[0] == PROJECT and (problem := _objection(name.removeprefix(f"{PROJECT}/"))):
        raise UserError(f"{shown} {problem}")


def allowed(name: str) -> bool:
    """Whether `check_name` lets the name pass."""
    try:
        check_name(name)
    except UserError:
        return False
    return True


def _is_known(parts: Sequence[str]) -> bool:
    top, *below = parts
    if top == RESULTS:
        in_place = bool(below) and (below[0] != "store" or (len(below) > 2 and below[1] in STORED))
        return in_place and below[-1].endswith(RESULT_KINDS)
    if top == PROJECT:
        return bool(below) and below[0].casefold() not in STEERING
    return bool(below) if top == OUTSIDE else not below and top in (*TOP, *FORMS)


def check_different(names: Sequence[str]) -> None:
    """Raises UserError for a name that comes twice, on some file system, or that is also a folder."""
    known: dict[str, str] = {}
    for name in names:
        folded = unicodedata.normalize("NFC", name).casefold()
        if folded in known:
            same = "comes twice" if known[folded] == name else f"is the same as '{known[folded]}' on some systems"
            raise UserError(f"'{name}' {same}")
        known[folded] = name
    folders = {folded.rpartition("/")[0] for folded in known}
    folders |= {folder[:i] for folder in folders for i, letter in enumerate(folder) if letter == "/"}
    if both := next((name for folded, name in known.items() if folded in folders), ""):
        raise UserError(f"'{both}' is a file and a folder")


def is_code(name: str) -> bool:
    """Whether a file of this name is a program."""
    return _folded(name).endswith((SOURCE, *SCRIPTS))


def _objection(name: str) -> str:
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
