"""Processes that die (SIGKILL) in the middle of writing a file.

Files are written beside their targets and renamed, so that is where they die: with a share of the file on the disk.
"""

import os
import re
import signal
from pathlib import Path

VARIABLE = "DIE_WRITING"
"Pattern and folder, separated by a line break, for processes that Python starts with `STARTUP`."
STARTUP = "import dying\ndying.as_environment_says()\n"
"A sitecustomize.py."


def die_writing(pattern: str, share: float, once: Path | None = None) -> None:
    """From now on this process dies where it writes a file whose path fits.

    Of the file that `share` is written then; with a share above 1 it also has its name already. With a folder `once`,
    each file kills a single process.
    """
    rename = os.replace

    def replace(written, target):
        if not re.search(pattern, str(target)) or (once and not _first(once / re.sub(r"\W", "_", str(target)))):
            return rename(written, target)
        os.truncate(written, int(min(share, 1) * os.path.getsize(written)))
        if share > 1:
            rename(written, target)
        os.kill(os.getpid(), signal.SIGKILL)

    os.replace = replace


def _first(mark: Path) -> bool:
    actual = mark.exists()
    mark.touch()
    return not actual


def as_environment_says() -> None:
    if os.environ.get(VARIABLE):
        pattern, once = os.environ[VARIABLE].split("\n")
        die_writing(pattern, 0.5, Path(once))


def main(argv: list[str]) -> int:
    """PATTERN SHARE and the arguments of a cell: a job for the warm worker."""
    from fedgrid.jobs import cell

    die_writing(argv[0], float(argv[1]))
    return cell.main(argv[2:])
