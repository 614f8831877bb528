"""The scores of single cells, as their table counts them, and the entries of a table that print a number."""

from collections.abc import Collection

import pandas as pd

from fedgrid.analysis.prose.phrases import percent
from fedgrid.analysis.scores.collect import in_memory
from fedgrid.analysis.scores.points import POINTS
from fedgrid.analysis.scores.results import CELL, ROW, Results
from fedgrid.analysis.scores.summary import cell_scores, summary
from fedgrid.grid.plan.manifest_model import Manifest


def score_texts(manifest: Manifest, keys: Collection[str]) -> tuple[dict[str, str], str]:
    """By key, what some finished cells of one entry score, and that entry's mean over them; empty where there is none.

    `manifest` is that of their experiment.
    """
    results = in_memory(manifest, keys)
    table = cell_scores(results).set_index(CELL)
    scores_of = {}
    for cell in results.cells:
        point = results.point(cell) or ""
        scores_of[cell.key] = score_text(table.loc[cell.table_position], POINTS.get(point, point))
    scores = table["accuracy"].dropna()
    mean = f"{percent(scores.mean())} ± {percent(scores.std())} % over {len(scores)} seeds" if len(scores) > 1 else ""
    return scores_of, mean


def entries_that_print(results: Results, number: str) -> set[tuple[str, str, str]]:
    """Label, data and heterogeneity of the entries whose accuracy, or that of one of whose seeds, is printed so.

    Those of the study's own table or, where it has none, of the views that score models at another point of a round.
    """
    for scored in (results, *map(results.rescored, POINTS)):
        frames = summary(scored), cell_scores(scored)
        printed = [frame.loc[frame["accuracy"].map(percent) == number, ROW] for frame in frames]
        entries = {(label, data, kind) for frame in printed for label, data, kind in frame.itertuples(index=False)}
        if entries:
            return entries
    return set()


def score_text(score: pd.Series, point: str) -> str:
    """One cell's score in words: accuracy, its spread over clients, where and when it was measured."""
    if pd.isna(score["accuracy"]):
        return f"none {point}"
    until = f"{point}, round {int(score['round'])}"
    return f"{percent(score['accuracy'])} % ({until}), std over clients {percent(score['std_clients'])} %"
