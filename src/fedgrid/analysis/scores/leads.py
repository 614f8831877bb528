"""The ranks of the methods of one column, and whether the seeds support the lead of the best one."""

from collections.abc import Sequence
from math import nan

import pandas as pd

from fedgrid.analysis.scores.comparisons import FEWEST_SEEDS, LEVEL, ROUNDING, Comparison, Scores

AGAINST = ["difference", "low", "high", "p_value", "common", "images"]
"""The columns of `compare` about the lead of the best method over another one."""


def compare(column: Scores) -> pd.DataFrame:
    """Ranks the methods of one column, each of which has a score, and tests the lead of the best one.

    Returns, by method, `rank` (1 is the highest mean
    over seeds; equal means share a rank), the columns of `AGAINST` (NaN for the best itself) and `supported`: True for
    the best alone, when its lead over every other method is significant in a two-sided test, since the data chose the
    leader; no correction is due where all comparisons must succeed (intersection–union).
    """
    scores = column.values
    means = scores.mean(axis=1)
    rank = (means / ROUNDING).round().rank(ascending=False, method="min").astype("Int64")
    first, *others = means.sort_values(ascending=False, kind="stable").index
    comparisons = [column.between(first, other) for other in others]
    against = pd.DataFrame(map(lead, comparisons), index=others, columns=AGAINST, dtype=float)
    supported = is_significant(comparisons)
    return (
        against.reindex(scores.index)
        .assign(supported=(scores.index == first) & supported)
        .assign(rank=rank)[["rank", *AGAINST, "supported"]]
    )


def is_significant(comparisons: Sequence[Comparison]) -> bool:
    """Whether a row whose lead the data chose is ahead of all others that it is compared with."""
    return bool(comparisons) and all(one.p_above() <= LEVEL / 2 for one in comparisons)


def lead(comparison: Comparison) -> dict[str, float]:
    """One row of `AGAINST`.

    The mean difference with its interval at 1 − `LEVEL`, the two-sided p-value, the number of common seeds, and by how
    many more test images a seed are classified right. There is no p-value of fewer than `FEWEST_SEEDS` common seeds,
    and no interval where nothing can be tested.
    """
    low, high = comparison.interval()
    return {
        "difference": comparison.difference,
        "low": low,
        "high": high,
        "p_value": comparison.p_two_sided if comparison.seeds >= FEWEST_SEEDS else nan,
        "common": comparison.seeds,
        "images": comparison.images,
    }
