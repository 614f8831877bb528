"""How long cells took, as a multiple of what was forecast: measured on the small run of the five papers.

`benchmarks/forecast_error.py` measures it and writes `benchmarks/results/forecast-error.csv`.
"""

from collections.abc import Collection
from dataclasses import dataclass

from fedgrid.grid.costs.forecast import Prospect


@dataclass(frozen=True)
class Spread:
    """Actual over forecast seconds: 8 of 10 cells lie between `low` and `high`, a tenth on either side."""

    low: float
    high: float


MEASURED = Spread(0.60, 1.50)
"Of cells that were forecast from finished ones like them."
COUNTED = Spread(0.56, 2.11)
"Of cells that were forecast from their images and the speed of a core."


def spread_of(prospects: Collection[Prospect]) -> Spread | None:
    """The spread of the time that some cells take together, by their share of it; None where they take none."""
    total = sum(prospect.seconds for prospect in prospects)
    if not total:
        return None
    shares = [(prospect.seconds / total, MEASURED if prospect.measured else COUNTED) for prospect in prospects]
    return Spread(sum(share * of.low for share, of in shares), sum(share * of.high for share, of in shares))
