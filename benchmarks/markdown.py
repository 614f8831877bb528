"""Numbers and tables as pages show them."""

import statistics
from collections.abc import Iterable, Sequence


def spread(values: Sequence[float], digits: int) -> str:
    """Median, and in brackets the smallest and the largest."""
    if not values:
        return "–"
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}–{max(values):.{digits}f})"


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table, or a dash where it would have no rows."""
    lines = [f"| {' | '.join(str(cell).replace('|', '/') for cell in row)} |" for row in rows]
    return "\n".join([f"| {' | '.join(header)} |", "|---" * len(header) + "|", *lines]) if lines else "–"
