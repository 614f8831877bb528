"""Numbers and times as sentences have them."""

import re


def counted(number: int, singular: str, plural: str = "") -> str:
    """A number with its noun: "1 cell", "1,200 cells"."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def estimate(seconds: float) -> str:
    """An estimated time in its largest unit: "3.4 h", "12 h", "25 min", "8 s"."""
    if seconds >= 3600:
        return f"{seconds / 3600:.1f} h" if seconds < 9.5 * 3600 else f"{seconds / 3600:,.0f} h"
    if seconds >= 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds:.0f} s" if seconds >= 1 or not seconds else "1 s"


def duration(seconds: float) -> str:
    """A time in its two largest units: "2 h 5 min", "3 min 10 s", "8 s"."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"


def without_numbers(text: str) -> str:
    """What two sentences have in common that differ in numbers alone."""
    return re.sub(r"\d+(?:[.,]\d+)*", "", text)
