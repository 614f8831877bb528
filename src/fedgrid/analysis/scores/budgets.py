"""What each row was given to learn from: by its search, and in the table.

Training images are counted as client updates × images: each image as often as a gradient is taken at it, by the formula
of a method's `work`, over all rounds, participants and seeds.
"""

import pandas as pd

from fedgrid.analysis.scores.results import CELL, Results
from fedgrid.analysis.scores.settings import resolved_settings
from fedgrid.grid.costs.formulas import images_in_a_round
from fedgrid.settings import Training

COLUMNS = ["label", "points", "trials", "images_search", "cells", "images_table"]


def budgets(results: Results) -> pd.DataFrame:
    """One row per label, in study order.

    `points` (settings that its search compared in a column, the most of all columns; 0 without a search), `trials`
    (cells of the search, each rung counted), `cells` (finished ones of the table), and the training images of both.
    """
    of_table = pd.Series(images_of_cells(results), dtype=float)
    rows = []
    for label in results.names:
        searches = [search for search in results.study.searches if search.row == label]
        scores = [(search, score) for search in searches for choice in search.choices for score in choice.scores]
        of_label = [images for position, images in of_table.items() if position[0] == label]
        rows.append(
            (
                label,
                max((len(search.points) for search in searches), default=0),
                sum(len(score.by_seed) for _, score in scores),
                sum(score.images for _, score in scores),
                len(of_label),
                sum(of_label),
            )
        )
    return pd.DataFrame(rows, columns=COLUMNS)


def images_of_cells(results: Results) -> dict[tuple[str, str, str, int], float]:
    """By row, data, heterogeneity and seed of a cell trained here, the training images of its planned rounds."""
    sizes = results.rows[results.rows["metric"] == "train_samples"].groupby(CELL, observed=True)["value"]
    clients, images = sizes.size().to_dict(), sizes.sum().to_dict()
    counts = {}
    for cell in results.trained:
        training, hyperparameters = resolved_settings(results, cell.label, cell.column)
        position = cell.table_position
        work, sizes_of_cell = results.study.methods[cell.label].work, (clients[position], int(images[position]))
        counts[position] = training["rounds"] * images_in_a_round(
            Training(**training), hyperparameters, work, *sizes_of_cell
        )
    return counts
