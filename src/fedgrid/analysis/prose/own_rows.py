"""What a page says first of a method in the user's own file: its place, and how far the best and FedAvg are."""

from collections.abc import Iterator

import pandas as pd

from fedgrid.analysis.prose.phrases import ordinal, percent
from fedgrid.analysis.prose.tested_differences import evidence, margin
from fedgrid.analysis.scores.comparisons import Scores
from fedgrid.analysis.scores.leads import lead
from fedgrid.analysis.scores.results import Results

BASELINE = "fedavg"
"The method with which every own one is compared."


def own_rows(results: Results, ranked: pd.DataFrame, scores: Scores) -> Iterator[str]:
    """A sentence for each own row of a column, the best first.

    `ranked` are the column's rows of `scores.summary` that have a rank, the best first, and `scores` its accuracies.
    """
    methods, labels = results.study.methods, ranked["label"].tolist()
    baseline = next((label for label in labels if methods[label].method == BASELINE), "")
    for label, rank, accuracy in ranked[["label", "rank", "accuracy"]].itertuples(index=False):
        if not methods[label].file or len(labels) < 2:
            continue
        others = dict.fromkeys(filter(None, [labels[0] if rank > 1 else "", baseline]))
        against = [
            f"{margin(found := lead(scores.between(label, other)))} against {results.names[other]} {evidence(found)}"
            for other in others
            if other != label
        ]
        place = f"{results.names[label]} is {ordinal(int(rank))} of {len(labels)} with {percent(accuracy)} %"
        yield f"{place}: {'; '.join(against)}." if against else f"{place}."
