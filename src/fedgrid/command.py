"""What command lines share: their first argument, how a user's mistake ends, and what other programs print."""

import os
import subprocess
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from pathlib import Path

from fedgrid.errors import Damaged, UserError, complain, escape_unprintable

DEFAULT = Path("config/study.yaml")
"The study that commands are about where none is named."


def exclude_working_folder() -> None:
    """Keeps the working folder off the import path of all processes that this one starts, as ``python -P`` does.

    A file there may be called like a module that a process imports, such as ``yaml.py``.
    """
    os.environ["PYTHONSAFEPATH"] = "1"


def plan_parser(module: str, description: str) -> ArgumentParser:
    """The command line of a module that is run on a plan; the plan's file is its first argument."""
    parser = ArgumentParser(prog=f"python -m {module}", description=description)
    parser.add_argument("file", type=Path, metavar="PLAN", help="the plan of the run")
    return parser


def output_of(command: Sequence[str], seconds: float, environment: Mapping[str, str] | None = None) -> str | None:
    """What a program prints; None where there is no such program, it fails, or it takes more than so many seconds."""
    try:
        run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=seconds)
    except (OSError, subprocess.SubprocessError):
        return None
    return run.stdout


def run(parser: ArgumentParser, argv: Sequence[str] | None) -> int:
    """Calls the parser's default `action` with the other arguments as keywords.

    Returns the exit code: 0, or 2 after a `UserError` or with a full disk, say, and one line on stderr. A damaged file
    is removed, so that the next run makes it again.
    """
    arguments = vars(parser.parse_args(argv))
    action = arguments.pop("action")
    escape_unprintable()
    try:
        action(**arguments)
    except Damaged as error:
        return complain(error.removed())
    except (UserError, OSError) as error:
        return complain(error)
    return 0
