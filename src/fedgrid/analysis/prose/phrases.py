"""Small words of captions and sentences: lists, percentages, points, intervals."""

from collections.abc import Iterable

import pandas as pd

from fedgrid.analysis.scores.results import DASH


def listing(items: Iterable[str]) -> str:
    """The items in one phrase: "a, b and c"."""
    *most, last = items
    return f"{', '.join(most)} and {last}" if most else last


def percent(fraction: float) -> str:
    """A fraction in percent with two decimals, or a dash for NaN."""
    return DASH if pd.isna(fraction) else f"{100 * fraction:.2f}"


def signed(fraction: float) -> str:
    """A difference of fractions in points with two decimals and a minus that is as wide as a plus."""
    return percent(fraction).replace("-", "−")


def counted(number: int, singular: str, plural: str = "") -> str:
    """A number with its noun: "1 seed", "3 seeds"."""
    return f"{number} {singular if number == 1 else plural or singular + 's'}"
