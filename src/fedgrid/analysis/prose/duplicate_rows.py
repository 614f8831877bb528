"""Points out rows with equal numbers and, where possible, why: no setting is silently without effect."""

from collections.abc import Sequence

import pandas as pd

from fedgrid.analysis.prose.phrases import listing
from fedgrid.analysis.scores.points import POINTS, client_series, named
from fedgrid.analysis.scores.results import CELL, COLUMN, Results
from fedgrid.analysis.scores.summary import SCORED

NUMBERS = ["accuracy", "accuracy_weighted", "std_clients"]


def duplicates(results: Results, scores: pd.DataFrame, table: pd.DataFrame) -> list[str]:
    """A sentence on each group of rows that have equal numbers on every seed, and in which columns.

    `scores` are those of `summary.cell_scores`, `table` is that of `summary.summary`.
    """
    printed = table[table["status"].isin(SCORED)].set_index([*COLUMN, "label"]).index
    numbers = fingerprints(scores[scores["accuracy"].notna()], NUMBERS)
    rounds = fingerprints(client_series(results), ["round", "client", "accuracy"])
    groups: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    for column in results.columns:
        alike: dict[bytes, list[str]] = {}
        for label in results.names:
            if (*column, label) in printed:
                alike.setdefault(numbers[*column, label], []).append(label)
        for labels in alike.values():
            if len(labels) > 1:
                groups.setdefault(tuple(labels), []).append(column)
    return [sentence for labels, columns in groups.items() for sentence in sentences(results, labels, columns, rounds)]


def fingerprints(frame: pd.DataFrame, columns: list[str]) -> dict[tuple[str, str, str], bytes]:
    """(data, heterogeneity, label) → the numbers of a row in one column, seed by seed, as bytes."""
    ordered = frame.sort_values([*CELL, *columns[:2]])
    return {
        name: part[["seed", *columns]].to_numpy(dtype=float).tobytes()
        for name, part in ordered.groupby([*COLUMN, "label"])
    }


def sentences(
    results: Results, labels: Sequence[str], columns: list[tuple[str, str]], rounds: dict[tuple[str, str, str], bytes]
) -> list[str]:
    """Which rows are equal, where, whether in every round, and why."""
    everywhere = len(columns) == len(results.columns)
    where = "" if everywhere else f" on {listing(results.column(*column) for column in columns)}"
    by_rounds: dict[tuple[bytes, ...], list[str]] = {}
    for label in labels:
        by_rounds.setdefault(tuple(rounds[*column, label] for column in columns), []).append(label)
    result = [
        f"{names_of(results, alike)} are equal{where}, for every client in every round: "
        f"{reason(results, alike, columns, rounds)}."
        for alike in by_rounds.values()
        if len(alike) > 1
    ]
    if len(by_rounds) > 1:
        one_of_each = [alike[0] for alike in by_rounds.values()]
        result.append(
            f"{names_of(results, one_of_each)} have the same score{where}, though other rounds differ: an effect too "
            "small to show in it."
        )
    return result


def names_of(results: Results, labels: Sequence[str]) -> str:
    """The names of rows in a sentence."""
    return listing(results.names[label] for label in labels)


def points_apart(
    results: Results, labels: Sequence[str], columns: list[tuple[str, str]], rounds: dict[tuple[str, str, str], bytes]
) -> list[str]:
    """The points of a round, in words, at which rows that are equal at the scored one differ.

    A row without models of its own at a point has there those that are scored, with the numbers `rounds`.
    """
    rows, apart = named(results.rows[results.rows["label"].isin(labels)]), []
    for point, words in POINTS.items():
        of_point = rows[rows["metric"] == f"accuracy_{point}"]
        at_point = rounds | fingerprints(of_point, ["round", "client", "value"])
        if any(len({at_point[*column, label] for label in labels}) > 1 for column in columns):
            apart.append(words)
    return apart


def reason(
    results: Results, labels: Sequence[str], columns: list[tuple[str, str]], rounds: dict[tuple[str, str, str], bytes]
) -> str:
    """Why rows are equal, judging by their cells and settings."""
    keys = {
        label: {cell.key for cell in results.cells if cell.label == label and cell.column in columns}
        for label in labels
    }
    if len(set(map(frozenset, keys.values()))) == 1:
        return "their settings are the same, so they are the same cells"
    methods = results.study.methods
    settings = [methods[label].settings for label in labels]
    if len({methods[label].method for label in labels}) == 1:
        differing = {
            name: [f"{of_one.get(name)}" for of_one in settings]
            for name in dict.fromkeys(name for of_one in settings for name in of_one)
            if len({str(of_one.get(name)) for of_one in settings}) > 1
        }
        cause = listing(f"{name} ({', '.join(values)})" for name, values in differing.items()) if differing else "code"
        return f"they differ in {cause}, which had no effect here"
    if points := points_apart(results, labels, columns, rounds):
        return f"the methods differ at other points of a round ({listing(points)})"
    differing_settings = [
        f"{results.names[label]}: {', '.join(f'{name} = {value}' for name, value in of_one.items())}"
        for label, of_one in zip(labels, settings, strict=True)
        if of_one
    ]
    return "what tells these methods apart had no effect here" + (
        f" ({'; '.join(differing_settings)})" if differing_settings else ""
    )
