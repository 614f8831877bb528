"""The scores of single cells, as their table counts them."""

from collections.abc import Collection
from typing import Any

import pandas as pd

from fedgrid.analysis.prose.phrases import percent
from fedgrid.analysis.scores.collect import in_memory
from fedgrid.analysis.scores.points import POINTS
from fedgrid.analysis.scores.summary import cell_scores


def scores(listed: dict[str, Any], keys: Collection[str]) -> dict[str, str]:
    """By key, what some finished cells score; `listed` is the content of their experiment's manifest."""
    results = in_memory(listed, keys)
    table = cell_scores(results).set_index(["label", "data", "heterogeneity", "seed"])
    found = {}
    for cell in results.cells:
        place = cell["label"], cell["data"], cell["heterogeneity"], cell["seed"]
        point = results.point(cell) or ""
        found[cell["key"]] = said(table.loc[place], POINTS.get(point, point))
    return found


def said(score: pd.Series, point: str) -> str:
    """One cell's score in words: accuracy, its spread over clients, where and when it was measured."""
    if pd.isna(score["accuracy"]):
        return f"none {point}"
    until = f"{point}, round {int(score['round'])}"
    return f"{percent(score['accuracy'])} % ({until}), std over clients {percent(score['std_clients'])} %"
