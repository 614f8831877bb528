"""Errors that a user can mend: shown as one sentence, without a traceback, with exit code 2."""

import difflib
import sys
from collections.abc import Iterable


class UserError(Exception):
    """A mistake in a study, a command or the user's files; the message is one sentence naming what to change."""


def complain(error: UserError) -> int:
    """Says the sentence on standard error and returns the exit code of a user's mistake."""
    print(f"fedgrid: {error}", file=sys.stderr)
    return 2


MOST_NAMES = 60
"Names that a sentence may list."


def nearest(word: object, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown `word`: the closest of the `known` names, or all where they are few."""
    names = sorted(known)
    close = difflib.get_close_matches(str(word), names, n=1, cutoff=0.6)
    if close:
        return f"did you mean '{close[0]}'?"
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"known: {', '.join(names[:MOST_NAMES])}{more}"
