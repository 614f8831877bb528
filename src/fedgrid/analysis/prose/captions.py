"""What tables and figures say about themselves: generated from the study, never typed by hand."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from fedgrid.analysis.prose.dead_models import standing_still
from fedgrid.analysis.prose.duplicate_rows import duplicates
from fedgrid.analysis.prose.findings import unmarked
from fedgrid.analysis.prose.origin import differing
from fedgrid.analysis.prose.phrases import listing
from fedgrid.analysis.prose.searches import chosen_settings
from fedgrid.analysis.scores.comparisons import FEWEST_SEEDS, IMAGES, LEVEL
from fedgrid.analysis.scores.points import POINTS
from fedgrid.analysis.scores.results import CELL, NEW, Results
from fedgrid.analysis.scores.summary import AVERAGED_ROUNDS, VALIDATION, rounds_asked
from fedgrid.grid.plan.manifest_model import Cell
from fedgrid.settings import SCALES

RANK_MARKS = {1: "①", 2: "②", 3: "③"}
"""Rank → its mark; the papers print *, † and ‡, which readers take for significance."""
SCORED_AT = POINTS | {
    "validated": f"{POINTS['received']} or {POINTS['trained']}, whichever is better on validation images by method, "
    "seed and round"
}
"""Score → how captions say that a method is scored there; validated is the better one of two models."""
LEAD = (
    f"p ≤ {LEVEL:g} against every other row in a two-sided moderated t-test over at least {FEWEST_SEEDS} common seeds, "
    f"and more than {IMAGES} test images a seed"
)
"""What a lead needs, so that its entry is bold."""
FATES = {
    "upload": "the upload of a participant that has trained is lost",
    "start": "a participant does not start",
}
"""`dropout_at` → what dropping out is."""
ATTACKS = {
    "labels": "train on flipped labels",
    "sign": "upload their update times −{s}",
    "scale": "upload their update times {s}",
    "noise": "upload noise of standard deviation {s} in place of their update",
}
"""`attack` → what malicious clients do, of strength s."""
RULES = {
    "median": "the coordinate-wise median",
    "trimmed": "the coordinate-wise trimmed mean",
    "krum": "Krum",
    "multi-krum": "Multi-Krum",
}
"""`aggregation` → what the server does in place of the mean."""
PUBLISHED = ("file", "imported")
"""Kinds of partitions that are read from a file, which may be one for all seeds."""
DOING = {
    "failed": ("failed", "failed"),
    "running": ("is running", "are running"),
    "queued": ("is queued", "are queued"),
    "missing": ("has not been started", "have not been started"),
    "unavailable": ("is not available", "are not available"),
}
"""Status of a cell without results → what one such cell, or several, are at."""


def lead(results: Results) -> str:
    """The study's title before a colon, with what share of it there is where it is not finished."""
    finished, cells = len(results.trained), len(results.to_train)
    title, ends = results.study.title, ("?", "!", ".")
    unfinished = f" (unfinished: {finished} of {cells} cells)" if finished < cells else ""
    return (f"“{title}”" if title.endswith(ends) else title) + unfinished


def progress(results: Results) -> str:
    """How many cells are finished and what the others are at; empty where all are finished."""
    counts = Counter(cell.status for cell in results.to_train)
    others = [f"{counts[name]} {forms[counts[name] > 1]}" for name, forms in DOING.items() if counts[name]]
    if not others:
        return ""
    finished = len(results.trained)
    diverged = f" ({counts['diverged']} diverged)" if counts["diverged"] else ""
    verb = "is" if finished == 1 else "are"
    return f"{finished} of {len(results.to_train)} cells {verb} finished{diverged}; {', '.join(others)}."


def scored_at(results: Results, cells: Iterable[Cell]) -> str:
    """At which point of a round `cells`, which have results, are scored, by method where the methods differ."""
    names: dict[str | None, dict[str, None]] = {}
    for cell in cells:
        names.setdefault(results.point(cell), {})[results.names[cell.label]] = None
    methods_of = {text: ", ".join(names[point]) for point, text in SCORED_AT.items() if point in names}
    if not methods_of:
        return "Nothing is scored yet."
    if len(methods_of) == 1:
        return f"Every method is scored {next(iter(methods_of))}."
    return f"Scored {'; '.join(f'{text}: {methods}' for text, methods in methods_of.items())}."


def counted_rounds(results: Results, scores: pd.DataFrame) -> str:
    """Which round counts, by method where the methods differ; `scores` are those of `summary.cell_scores`."""
    rules = scores["label"].map(rounds_asked(results))
    groups = {rule: part for rule, part in scores.groupby(rules, sort=False)}
    if len(groups) < 2:
        return counted_round(next(iter(groups), results.study.at), scores)
    names = {rule: listing(results.names[label] for label in part["label"].unique()) for rule, part in groups.items()}
    return " ".join(f"{names[rule]}: {counted_round(rule, part)}" for rule, part in groups.items())


def counted_round(at: str, scores: pd.DataFrame) -> str:
    """Which round counts where the rule is `at`."""
    rounds = scores.loc[scores["status"] == "ok", "round"].dropna().astype(int)
    if rounds.empty:
        return "No finished cell has a score."
    first, last = rounds.min(), rounds.max()
    if at == VALIDATION:
        text = f"round {first}" if first == last else f"rounds {first} to {last}"
        return (
            f"The score is that of the round that is best on validation images, by method and seed ({text}), never "
            "the best on test images."
        )
    span = f"{last}" if first == last else f"{first} to {last}, depending on the cell"
    n = AVERAGED_ROUNDS[at]
    if n == 1:
        return f"The score is that of the last evaluated round (round {span}), never of the best one."
    return (
        f"The score is each client's mean over the last {n} evaluated rounds (up to round {span}; the untrained "
        "model is never among them), never that of the best round."
    )


def seeds(results: Results) -> str:
    """How many seeds, and which."""
    values = [str(seed) for seed in results.study.seeds]
    return f"one seed ({values[0]})" if len(values) == 1 else f"{len(values)} seeds ({', '.join(values)})"


def varied(results: Results) -> str:
    """What differs from seed to seed, so what ± is about."""
    if results.study.train_seed is not None:
        return "partition only"
    fixed = [column for column in results.columns if same_partition(results, column)]
    if len(fixed) == len(results.columns):
        return "training seed only"
    some = f", but training seed only on {listing(results.column(*column) for column in fixed)}" if fixed else ""
    return f"partition and training seed{some}"


def same_partition(results: Results, column: tuple[str, str]) -> bool:
    """Whether all cells of a column have the same partition: one file of the store, or one that was published.

    The name of a folder of the store ends with the key of what its partitions are made from, so where that is one
    published file for all seeds, their folder is one, too.
    """
    cells = [cell for cell in results.cells if cell.column == column]
    if len({cell.seed for cell in cells}) < 2:
        return False
    files = {cell.partition for cell in cells}
    folders = {file.parent for file in files}
    data, heterogeneity = column
    kind = results.study.partitions.get(data, {}).get(heterogeneity, {}).get("partition")
    return len(files) == 1 or (len(folders) == 1 and kind in PUBLISHED)


def over_seeds(results: Results) -> str:
    """What stands behind ±: "mean ± sample standard deviation over seeds (…)", or that one seed gives none."""
    several = len(results.study.seeds) > 1
    return f"mean ± sample standard deviation over seeds ({varied(results)})" if several else "one seed gives no ±"


def tested_lead(results: Results, table: pd.DataFrame) -> str:
    """What bold and italic mean, and whether any entry earned bold."""
    italic = "Italic: the highest accuracy of a column, where its lead is not significant."
    if len(results.study.seeds) < FEWEST_SEEDS:
        return f"{italic} Nothing is bold: a significant lead needs {FEWEST_SEEDS} seeds."
    nowhere = "" if table["supported"].any() else " (none here)"
    return f"Bold: a significant lead{nowhere}, {LEAD}. {italic}"


def accuracy_table(
    results: Results, scores: pd.DataFrame, table: pd.DataFrame, ranks: bool, also: Sequence[str] = ()
) -> str:
    """The caption of the accuracy table on its own, with the full protocol."""
    sentences = [
        f"{lead(results)}: test accuracy on {listing(results.study.tested)}, over {seeds(results)}.",
        *protocol(results, scores, table, ranks, also),
        *unmarked(results, table),
        *remarks(results, scores, table),
    ]
    return " ".join(sentences)


def protocol(
    results: Results, scores: pd.DataFrame, table: pd.DataFrame, ranks: bool, also: Sequence[str] = ()
) -> list[str]:
    """How the numbers of the accuracy table are made, with marks of `ranks` or without them.

    `also` are sentences on numbers beside the accuracies.
    """
    several = len(results.study.seeds) > 1
    marks = ", ".join(RANK_MARKS.values())
    unfinished = len(results.trained) < len(results.to_train)
    return [
        scored_at(results, results.finished),
        counted_rounds(results, scores),
        *chosen_settings(results),
        "Acc.: mean over clients in percent, each client weighted equally (the CSV file also has the mean weighted by "
        f"test samples){', then ' if several else '; '}{over_seeds(results)}.",
        *also,
        *([f"{marks}: first, second and third highest accuracy in a column."] * ranks),
        tested_lead(results, table),
        *(["Marks and bold compare only entries of which every seed is finished."] if unfinished else []),
        f"A dash stands for what {'is not finished' if unfinished else 'was not run'} or does not exist.",
    ]


def short_accuracy(results: Results, ranks: bool, bold: bool) -> str:
    """The caption of the accuracy table on the page, which says the protocol elsewhere; `bold`: whether anything is."""
    number = len(results.study.seeds)
    spread = f"± over {number} seeds: {varied(results)}" if number > 1 else "One seed, so no ±"
    marks = f"{', '.join(RANK_MARKS.values())}: first to third in a column; " if ranks else ""
    meaning = "bold: a significant lead; italic: the best where its lead is not significant"
    sentence = marks + (meaning if bold else "italic: the best of a column; no lead is significant")
    return f"{spread}. {sentence[0].upper()}{sentence[1:]}."


def remarks(results: Results, scores: pd.DataFrame, table: pd.DataFrame) -> list[str]:
    """What else a reader must know about the numbers of an accuracy table."""
    return [
        *failures(results),
        *duplicates(results, scores, table),
        *standing_still(results),
        *unscored(results),
        *differing(results),
    ]


def failures(results: Results) -> list[str]:
    """What a study's protocol does to its participants; nothing where all of them are reliable."""
    training = results.study.protocol
    dropout, stragglers, new = (training.get(name, 0.0) for name in ("dropout", "stragglers", "new_clients"))
    sentences = []
    if dropout:
        sentences.append(f"In each round {FATES[training['dropout_at']]} with a chance of {100 * dropout:g} %.")
    if stragglers:
        share = f"{100 * training['straggler_work']:g} % of its local steps"
        sentences.append(f"With a chance of {100 * stragglers:g} % a participant takes only {share} in a round.")
    if new:
        sentences.append(f"{100 * new:g} % of the clients take no part in training, and no part in these numbers.")
    return [*sentences, *malicious(training)]


def malicious(training: Mapping[str, Any]) -> list[str]:
    """What clients attack with, and how the server aggregates; nothing where none does and it takes the mean."""
    sentences = []
    if share := training.get("malicious", 0.0):
        attack = training["attack"]
        strength = training["attack_scale"] or SCALES.get(attack, 1.0)
        sentences.append(
            f"{100 * share:g} % of the clients, rounded up and the same ones in every round, are malicious: they "
            f"{ATTACKS[attack].format(s=f'{strength:g}')}. They take no part in these numbers."
        )
    if (rule := training.get("aggregation", "mean")) != "mean":
        sentences.append(f"The server aggregates models by {RULES[rule]}, in which clients count equally.")
    return sentences


def unscored(results: Results) -> list[str]:
    """A sentence on clients with training and test images but no score: none of their classes is tested."""
    rows = results.rows[results.rows["value"] > 0]
    client = [*CELL, "client"]
    able = rows[rows["metric"] == "train_samples"][client].merge(rows[rows["metric"] == "test_samples"][client])
    accuracies = [*results.score_metrics("test"), *replace(results, clients=NEW).score_metrics("test")]
    scored = results.rows[results.rows["metric"].isin(accuracies)][client].drop_duplicates()
    attackers = rows[rows["metric"] == "malicious"][client]
    both = able.merge(pd.concat([scored, attackers]), how="left", indicator="found")
    number = int((both["found"] == "left_only").sum())
    who, have, are, whose = ("clients", "have", "are", "their") if number > 1 else ("client", "has", "is", "its")
    sentence = (
        f"{number} {who} (summed over all cells) {have} no score and {are} left out of every mean: no test image is of "
        f"{whose} classes."
    )
    return [sentence] if number else []


def costs_table(results: Results) -> str:
    """The caption of the cost table."""
    return (
        f"{lead(results)}: cost of one cell, over the finished cells. Time: median wall-clock "
        "seconds; memory: median peak; up and down: bytes sent and received by a client, mean over clients and the "
        "recorded rounds after round 0. What idle clients are sent so that they can be scored is not counted as "
        "traffic. Passes a round: forward-backward passes over a client's images in a round, by formula, with E local "
        "epochs. Compare times only between cells run on the same hardware."
    )
