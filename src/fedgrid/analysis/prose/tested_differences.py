"""A difference of two rows in words: points, interval, seeds and what else stands behind it."""

from typing import Any

import pandas as pd

from fedgrid.analysis.prose.phrases import signed
from fedgrid.analysis.scores.comparisons import FEWEST_SEEDS, IMAGES, LEVEL
from fedgrid.quantities import counted


def margin(against: Any) -> str:
    """By how much the best is above an entry, in points."""
    return f"{'+' if against['difference'] > 0 else ''}{signed(against['difference'])} points"


def evidence(against: Any) -> str:
    """What stands behind a difference: interval, seeds, p-value, and in its place test images that are too few."""
    seeds = counted(int(against["common"]), "seed")
    ahead = against["images"] * (1 if against["difference"] > 0 else -1)
    images = [extra_correct_images(against)] if ahead <= IMAGES else []
    tested = f"no test: {images[0]}" if images else f"p = {against['p_value']:.2g}"
    if pd.notna(against["low"]):
        interval = f"{100 * (1 - LEVEL):g} % CI {signed(against['low'])} to {signed(against['high'])}"
        parts = [interval, seeds, tested]
    elif against["common"] >= FEWEST_SEEDS:
        parts = [f"the same on {seeds}", *images]
    else:
        parts = [seeds, *images]
    untested = f"; a test needs {FEWEST_SEEDS}" if against["common"] < FEWEST_SEEDS else ""
    return f"({', '.join(parts)}{untested})"


def extra_correct_images(against: Any) -> str:
    """How many more test images the best classifies right."""
    uneven = against["difference"] * against["images"] < 0  # a mean over clients knows nothing of their sizes
    why = ", for clients of different sizes count equally" if uneven else ""
    images = f"{abs(against['images']):,.1f}".removesuffix(".0")
    unit = f"test {'image' if images == '1' else 'images'}"
    each = "" if against["common"] == 1 else " per seed"
    return f"{images} {'fewer' if against['images'] < 0 else 'more'} {unit} right{each}{why}"
