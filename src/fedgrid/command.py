"""What command lines share: a user's mistake ends in one line, and nothing is imported from the working folder."""

import os
from argparse import ArgumentParser
from collections.abc import Sequence

from fedgrid.errors import Damaged, UserError, complain, escape_unprintable


def exclude_working_folder() -> None:
    """Keeps the working folder off the import path of all processes that this one starts, as ``python -P`` does.

    A file there may be called like a module that a process imports, such as ``yaml.py``.
    """
    os.environ["PYTHONSAFEPATH"] = "1"


def run(parser: ArgumentParser, argv: Sequence[str] | None) -> int:
    """Call the parser's default `action` with the other arguments as keywords.

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
