"""Simulated tables: claims that are true of them, or false, are judged so where noise is small."""

import numpy as np
import pandas as pd
import pytest

from benchmarks import calibration
from fedgrid.analysis.papers.claims import CONFIRMED, INCONCLUSIVE, REFUTED, outcome

ROWS = [calibration.CLAIMED, *"abcdefg"]
RIGHT = {
    "size, in the middle": CONFIRMED,
    "size, at the limit": INCONCLUSIVE,
    "size, outside": REFUTED,
    "most": INCONCLUSIVE,
    "rises, gains": CONFIRMED,
    "grows, gains": CONFIRMED,
    "grows over the best, gains": CONFIRMED,
}


@pytest.fixture(scope="module")
def parts():
    equal = pd.DataFrame(0.0, ROWS, list("xyz"))
    gaining = equal.copy()
    gaining.loc[calibration.CLAIMED] = calibration.SIZE * np.arange(3)
    random = np.random.default_rng(0)
    return calibration.sizes_and_changes(
        *(calibration.simulated(truth, equal + 0.3, 5, random) for truth in (equal, gaining))
    )


@pytest.mark.parametrize(("claim", "verdict"), RIGHT.items())
def test_sizes_and_changes(claim, verdict, parts):
    assert outcome(parts[claim]) == verdict


def test_what_does_not_change_is_not_confirmed(parts):
    nothing = [name for name in parts if name.endswith("nothing changes")]
    assert len(nothing) == 3 and CONFIRMED not in {outcome(parts[name]) for name in nothing}


def test_shares_are_per_cent_confirmed_and_refuted():
    assert calibration.shares([CONFIRMED, REFUTED, REFUTED, INCONCLUSIVE]) == "25.0 / 50.0"
