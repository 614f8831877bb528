"""The finding of each column: where the user's own methods stand, who leads, by how much, and whether significantly."""

import pandas as pd

from fedgrid.analysis.prose.own_rows import own_rows
from fedgrid.analysis.prose.phrases import listing, percent
from fedgrid.analysis.prose.tested_differences import evidence, margin
from fedgrid.analysis.scores.comparisons import LEVEL
from fedgrid.analysis.scores.domains import EVERY
from fedgrid.analysis.scores.results import COLUMN, Results
from fedgrid.analysis.scores.summary import cell_scores, scores_by_column

BASELINES = ("local", "fedavg")
"""Methods that every sentence quotes: training alone, and one model for all."""


def findings(results: Results, table: pd.DataFrame) -> list[tuple[str, str]]:
    """Name and sentence of every column; `table` is that of `scores.summary`."""
    parts = {column: part for column, part in table.groupby(COLUMN, sort=False)}
    scores = scores_by_column(results, cell_scores(results), table) if results.own else {}
    sentences = []
    for column in results.columns:
        own = own_rows(results, in_order(parts[column]), scores[*column, EVERY]) if (*column, EVERY) in scores else ()
        sentences.append((results.column(*column), " ".join([*own, finding(results, parts[column])])))
    return sentences


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
        chosen = chosen_by_score(results, ranked["label"].iloc[0])
        sentence = " ".join([f"{names[0]} leads with {scores[0]} %, {lead_text(results, ranked)}.", *chosen])
    named = max(leaders, 2)
    return " ".join([sentence, *baselines(results, ranked[named:]), *uncompared(results, entries)])


def in_order(entries: pd.DataFrame) -> pd.DataFrame:
    """The entries of one column that are ranked, the best first."""
    return entries[entries["rank"].notna()].sort_values("rank", kind="stable")


def lead_text(results: Results, ranked: pd.DataFrame) -> str:
    """By how much the first row leads, and whether significantly; `ranked` are the rows of a column, the best first."""
    second = ranked.iloc[1]
    over = f"{margin(second)} over {results.names[second['label']]} with {percent(second['accuracy'])} %"
    if ranked["supported"].any():
        return f"significantly: {over} {evidence(second)}"
    weakest = ranked.iloc[1:].sort_values("p_value", ascending=False, na_position="first", kind="stable").iloc[0]
    other = weakest["label"] != second["label"] and second["p_value"] <= LEVEL
    also = f"; not significant over {results.names[weakest['label']]}: {margin(weakest)} {evidence(weakest)}"
    return f"but not significantly: {over} {evidence(second)}{also if other else ''}"


def chosen_by_score(results: Results, leader: str) -> list[str]:
    """A warning where the first row is one of several values of a setting: its value was chosen by what is scored."""
    row, _, setting = results.names[leader].partition(", ")
    values = [name for name in results.names.values() if name.partition(", ")[0] == row]
    if not setting or len(values) < 2:
        return []
    return [f"It is the best of {len(values)} rows of {row} on the images scored; a search would choose on others."]


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
    """For tables without these sentences: the lead of the best over the second, where it is not significant."""
    parts = {column: in_order(part) for column, part in table.groupby(COLUMN, sort=False)}
    sentences = []
    for column in results.columns:
        ranked = parts[column]
        if len(ranked) > 1 and not ranked["supported"].any() and ranked["rank"].iloc[1] > 1:
            first, second = (results.names[label] for label in ranked["label"].iloc[:2])
            lead = f"{margin(ranked.iloc[1])} {evidence(ranked.iloc[1])}"
            sentences.append(f"{results.column(*column)}: {first} over {second} {lead}")
    return [f"Leads that are not significant: {'; '.join(sentences)}."] if sentences else []
