"""The scores of single cells, as their table counts them."""

from collections.abc import Collection

import pandas as pd

from fedgrid.analysis.prose.phrases import percent
from fedgrid.analysis.scores.collect import in_memory
from fedgrid.analysis.scores.points import POINTS
from fedgrid.analysis.scores.summary import cell_scores
from fedgrid.grid.plan.manifest_model import Manifest


def score_texts(manifest: Manifest, keys: Collection[str]) -> dict[str, str]:
    """By key, what some finished cells score; `manifest` is that of their experiment."""
    results = in_memory(manifest, keys)
    table = cell_scores(results).set_index(["label", "data", "heterogeneity", "seed"])
    scores_of = {}
    for cell in results.cells:
        point = results.point(cell) or ""
        scores_of[cell.key] = score_text(table.loc[cell.table_position], POINTS.get(point, point))
    return scores_of


def score_text(score: pd.Series, point: str) -> str:
    """One cell's score in words: accuracy, its spread over clients, where and when it was measured."""
    if pd.isna(score["accuracy"]):
        return f"none {point}"
    until = f"{point}, round {int(score['round'])}"
    return f"{percent(score['accuracy'])} % ({until}), std over clients {percent(score['std_clients'])} %"
