"""The commit of the code, as far as git knows it: recorded in every result, and part of no key."""

from pathlib import Path

import fedgrid
from fedgrid.command import output_of
from fedgrid.grid.plan.cell_metadata import Commit

PATIENCE = 10
"Seconds that git may take."


def commit() -> Commit | None:
    """The commit that the package lies in; None where it is in no clone."""
    package = Path(fedgrid.__file__).parent
    if not _git(package, "ls-files", "--", "__init__.py"):  # it may be installed inside of another repository
        return None
    revision, changed = _git(package, "rev-parse", "HEAD"), _git(package, "status", "--porcelain", "--", str(package))
    return Commit(revision.strip(), changed == "") if revision else None


def text_at(revision: str, file: Path) -> str | None:
    """The text of a file as a commit has it; None where the file lies in no clone of that repository, or not there."""
    return _git(file.parent, "show", f"{revision}:./{file.name}")


def _git(folder: Path, *arguments: str) -> str | None:
    """The output of a git command; None where it fails or git is missing."""
    return output_of(["git", "-C", str(folder), *arguments], PATIENCE)
