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


def decimals(value: float, signed: bool = False) -> str:
    """A number with two decimals, with its sign if asked for, or a dash for NaN."""
    if pd.isna(value):
        return DASH
    return f"{round(value, 2) + 0.0:{'+' if signed else ''}.2f}".replace("-", "−")  # + 0.0: there is no −0.00


NUMBERS = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]


def spelled(number: int) -> str:
    """A number in a sentence: in letters up to twelve."""
    return NUMBERS[number] if number < len(NUMBERS) else str(number)


def ordinal(number: int) -> str:
    """A place: "1st", "12th", "23rd"."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def all_of(number: int, total: int, noun: str) -> str:
    """How many of all: "all six columns", "both columns", "the one column", "two of six columns"."""
    if number < total:
        return f"{spelled(number)} of {spelled(total)} {noun}s"
    return {1: f"the one {noun}", 2: f"both {noun}s"}.get(number, f"all {spelled(number)} {noun}s")
