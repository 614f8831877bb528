"""How far a difference of two rows may be due to chance: to which test images there are, and to which seeds."""

from collections.abc import Collection
from math import sqrt

import numpy as np
import pandas as pd

from fedgrid.analysis.scores import domains as of_domains
from fedgrid.analysis.scores.domains import Column
from fedgrid.analysis.scores.results import CELL, Results
from fedgrid.analysis.scores.summary import ENTRY, cell_scores, of_clients

ERRORS = 2
"""A difference counts from so many standard errors on."""
CHANCE_SENTENCE = (
    "A difference counts from two standard errors on, which stand behind ±: of the test images or, with several seeds, "
    "of the seeds’ differences, whichever is larger."
)


class Chance:
    """What chance may do to the `accuracy` and the `std_clients` of a study's rows."""

    def __init__(self, results: Results, domains: bool):
        self.variance = of_images(results, domains)
        scores = cell_scores(results, domains)
        self.scores = scores[scores["status"] == "ok"].set_index([*ENTRY, "seed"]).sort_index()

    def smallest_detectable_difference(self, first: str, second: str, column: Column, metric: str) -> float:
        """The smallest difference of a metric between two rows, by label, that counts in a column, as a fraction."""
        images = sum(self.variance.get((label, *column), 0.0) for label in (first, second))
        return ERRORS * sqrt(max(images, self.of_seeds(first, second, column, metric)))

    def of_seeds(self, first: str, second: str, column: Column, metric: str) -> float:
        """The variance of the mean difference over the seeds that both have; 0 for one seed, which says nothing."""
        scores = self.scores[metric]
        there = [scores.loc[(label, *column)] for label in (first, second) if (label, *column) in self.variance]
        differences = (there[0] - there[1]).dropna() if len(there) == 2 else []
        return float(np.var(differences, ddof=1)) / len(differences) if len(differences) > 1 else 0.0


def of_images(results: Results, domains: bool) -> dict[tuple[str, ...], float]:
    """By `ENTRY`, the variance of a row's mean accuracy over clients that comes from which test images there are.

    Every image is right or wrong by itself. Clients or seeds that share their test images do not average it away. The
    standard deviation over clients has about the same variance, and just that where all have as many images.
    """
    clients, _ = of_clients(results)
    clients = clients[clients["samples"] > 0]
    smoothed = (clients["accuracy"] * clients["samples"] + 1) / (
        clients["samples"] + 2
    )  # 0 and 1 are not certain either
    clients = clients.assign(variance=smoothed * (1 - smoothed) / clients["samples"], domain=of_domains.EVERY)
    apart = own_images(results)
    cells = means(clients, [*CELL, "domain"], apart)
    if domains:
        parts = means(clients.drop(columns="domain").merge(of_domains.clients(results)), [*CELL, "domain"], apart)
        over_domains = means(parts, CELL, results.columns).assign(domain=of_domains.AVERAGE)
        cells = pd.concat([cells, parts, over_domains])
    drawn_anew = results.study.partition_seed is None
    entries = means(cells, ENTRY, apart if drawn_anew else {}).set_index(ENTRY)
    variances: dict[tuple[str, ...], float] = entries["variance"].to_dict()
    return variances


def means(values: pd.DataFrame, by: list[str], apart: Collection[tuple[str, str]]) -> pd.DataFrame:
    """The `variance` of means within groups of `by`, of independent values in the columns that are `apart`.

    Elsewhere values move together, and their mean varies as much as they do.
    """
    groups = values.groupby(by, sort=False)["variance"]
    variances = pd.DataFrame({"variance": groups.mean(), "size": groups.size()}).reset_index()
    independent = [column in apart for column in zip(variances["data"], variances["heterogeneity"], strict=True)]
    return variances.assign(variance=variances["variance"] / variances["size"].where(independent, 1)).drop(
        columns="size"
    )


def own_images(results: Results) -> set[tuple[str, str]]:
    """The columns whose clients have test images of their own."""
    known = results.study.partitions
    return {(data, name) for data, name in results.columns if known.get(data, {}).get(name, {}).get("test") == "own"}
