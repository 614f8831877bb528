"""What was found, in one sentence a column: who leads, by how much, and what the seeds support of it."""

from typing import Any

import pandas as pd

from fedgrid.analysis.prose.phrases import counted, listing, percent, signed
from fedgrid.analysis.scores.leads import IMAGES, LEVEL, SEEDS
from fedgrid.analysis.scores.results import COLUMN, Results

BASELINES = ("local", "fedavg")
"""Methods that every sentence quotes: training alone, and one model for all."""


def findings(results: Results, table: pd.DataFrame) -> list[tuple[str, str]]:
    """Name and sentence of every column; `table` is that of `scores.summary`."""
    parts = {column: part for column, part in table.groupby(COLUMN, sort=False)}
    return [(results.column(*column), finding(results, parts[column])) for column in results.columns]


def finding(results: Results, entries: pd.DataFrame) -> str:
    """The finding of one column; `entries` are its rows of `scores.summary`."""
    ranked = in_order(entries)
    if ranked.empty:
        return " ".join(["No method has a score of every seed yet.", *uncompared(results, entries)])
    names, scores = [results.names[label] for label in ranked["label"]], ranked["accuracy"].map(percent).tolist()
    leaders = int((ranked["rank"] == 1).sum())
    if len(ranked) == 1:
        sentence = f"{names[0]} has {scores[0]} %; no other method has a score of every seed."
    elif leaders > 1:
        sentence = f"{listing(names[:leaders])} share the first place with {scores[0]} %."
    else:
        second = ranked.iloc[1]
        margin_of = f"{margin(second)} above {names[1]} with {scores[1]} %"
        if ranked["supported"].any():
            sentence = f"{names[0]} leads with {scores[0]} %, {margin_of}."
        else:
            sentence = f"No lead is supported: {names[0]} is first with {scores[0]} %, {margin_of}; {verdict(second)}."
    named = max(leaders, 2)
    return " ".join([sentence, *baselines(results, ranked[named:]), *uncompared(results, entries)])


def in_order(entries: pd.DataFrame) -> pd.DataFrame:
    """The entries of one column that are ranked, the best first."""
    return entries[entries["rank"].notna()].sort_values("rank", kind="stable")


def margin(against: Any) -> str:
    """By how much the best is above an entry: points, interval, seeds, test images, p-value."""
    seeds = counted(int(against["common"]), "seed")
    parts = [f"on {seeds}"]
    if pd.notna(against["low"]):
        interval = f"{signed(against['low'])} to {signed(against['high'])}"
        parts = [f"{100 * (1 - LEVEL):g} % interval {interval}, {seeds}, p = {against['p_value']:.2g}"]
    elif against["common"] > 1:
        parts = [f"the same on {seeds}"]
    return f"{signed(against['difference'])} points ({'; '.join([*parts, extra_correct_images(against)])})"


def extra_correct_images(against: Any) -> str:
    """How many more test images the best classifies right."""
    images = f"{abs(against['images']):,.1f}".removesuffix(".0")
    unit = f"test {'image' if images == '1' else 'images'}{'' if against['common'] == 1 else ' a seed'}"
    return f"{images} {unit} {'fewer' if against['images'] < 0 else 'more'} right"


def verdict(against: Any) -> str:
    """Why the lead over the second best is not supported."""
    lacks = []
    if against["common"] < SEEDS:
        lacks.append(f"{SEEDS} seeds")
    if against["images"] <= IMAGES:
        lacks.append(f"more than {IMAGES} test images a seed")
    if lacks:
        return f"a lead needs {listing(lacks)}"
    return f"a lead needs p < {LEVEL:g}"


def baselines(results: Results, others: pd.DataFrame) -> list[str]:
    """What the first row of each of `BASELINES` has, among `others` than those that the sentence has named."""
    methods = results.study.methods
    rows = [[label for label in methods if methods[label].method == method] for method in BASELINES]
    scores = others.set_index("label")["accuracy"]
    first = [labels[0] for labels in rows if labels and labels[0] in scores.index]
    sentences = [f"{results.names[label]} has {percent(scores[label])} %" for label in first]
    return [f"{listing(sentences)}."] if sentences else []


def uncompared(results: Results, entries: pd.DataFrame) -> list[str]:
    """The entries that were begun but are not ranked, and why."""
    left_out = entries[entries["rank"].isna() & (entries["status"] != "missing")]
    sentences = [f"{results.names[entry['label']]} ({entry['status']})" for _, entry in left_out.iterrows()]
    return [f"Not compared: {listing(sentences)}."] if sentences else []


def unmarked(results: Results, table: pd.DataFrame) -> list[str]:
    """For tables without these sentences: what is printed in place of bold, the best's difference to the second."""
    parts = {column: in_order(part) for column, part in table.groupby(COLUMN, sort=False)}
    sentences = []
    for column in results.columns:
        ranked = parts[column]
        if len(ranked) > 1 and not ranked["supported"].any() and ranked["rank"].iloc[1] > 1:
            first, second = (results.names[label] for label in ranked["label"].iloc[:2])
            sentences.append(f"{results.column(*column)}: {first} over {second} {margin(ranked.iloc[1])}")
    return [f"In place of bold: {'; '.join(sentences)}."] if sentences else []
