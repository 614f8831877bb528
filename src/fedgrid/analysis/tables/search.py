"""Which settings a study's searches compared, how they scored on validation images, and which were chosen."""

from collections.abc import Iterator, Mapping
from statistics import stdev
from typing import Any

import pandas as pd

from fedgrid.analysis.kinds import TableOptions
from fedgrid.analysis.prose.footnotes import letter
from fedgrid.analysis.prose.searches import RULE, notes_on, seeds_of
from fedgrid.analysis.scores.results import DASH, Results
from fedgrid.analysis.tables.common.grid import Entry, Grid, Table
from fedgrid.grid.plan.manifest_model import SearchDescription
from fedgrid.grid.plan.searches import Score
from fedgrid.grid.study.expansion import point_text

HEADER = ["Data", "Heterogeneity", "Rounds", "Settings", "Validation acc. (%)", ""]
NAMES = ["label", "data", "heterogeneity", "rounds", "settings", "mean", "std", "seeds", "images", "outcome"]
CHOSEN, WENT_ON, LEFT_OUT = "chosen", "went on", ""
"""What became of a point on a rung."""


class Options(TableOptions):
    """There is nothing to choose."""


def make_table(results: Results, options: Options) -> Table:
    """One row for each search, rung and point.

    `mean` and sample standard deviation `std` over seeds of the accuracy on validation images, as fractions; NaN where
    a seed has no score. `images` are training images as in `scores.budgets`, `outcome` is chosen, went on, or empty.
    """
    table = pd.DataFrame([entry for one in results.study.searches for entry in entries(one)], columns=NAMES)
    notes: dict[str, None] = {}
    letters: dict[tuple[str, ...], str] = {}
    for one in results.study.searches:
        of_search = list(notes_on(one))
        notes |= dict.fromkeys(of_search)
        letters[one.row, *one.column] = "".join(letter(list(notes).index(note)) for note in of_search)
    rows = [(results.names[entry["label"]], row_entries(results, entry, letters)) for entry in table.to_dict("records")]
    grid = Grid(caption(results), "Method", [[(text, 1) for text in HEADER]], rows, list(notes), textual=True)
    return table, grid


def entries(search: SearchDescription) -> Iterator[tuple[Any, ...]]:
    """The rows of the table for a search, in the columns of `NAMES`."""
    for number, (rounds, choice) in enumerate(zip(search.rounds, search.choices, strict=False)):
        last = number + 1 == len(search.rounds)
        for score in choice.scores:
            outcome = (CHOSEN if last else WENT_ON) if score.point in choice.kept else LEFT_OUT
            settings = point_text(search.points[score.point])
            numbers = score.mean, spread(score), len(score.by_seed), score.images
            yield search.row, *search.column, rounds, settings, *numbers, outcome


def spread(score: Score) -> float | None:
    """The sample standard deviation over seeds; None for one seed, or where one has no score."""
    numbers = [value for value in score.by_seed if value is not None]
    return stdev(numbers) if 1 < len(numbers) == len(score.by_seed) else None


def row_entries(results: Results, entry: Mapping[str, Any], letters: Mapping[tuple[str, ...], str]) -> list[Entry]:
    """A row to print; the chosen point is bold, with the letters of its footnotes."""
    chosen = entry["outcome"] == CHOSEN
    mean, std = (f"{100 * entry[name]:.2f}" if pd.notna(entry[name]) else "" for name in ("mean", "std"))
    score = f"{mean} ± {std}" if std else mean or DASH
    notes = letters[entry["label"], entry["data"], entry["heterogeneity"]] if chosen else ""
    return [
        Entry(results.title(entry["data"])),
        Entry(results.heterogeneity_title(entry["heterogeneity"])),
        Entry(str(entry["rounds"])),
        Entry(entry["settings"], bold=chosen),
        Entry(score, bold=chosen),
        Entry(entry["outcome"], notes=notes),
    ]


def caption(results: Results) -> str:
    """What was compared, and by which rule the settings were chosen."""
    searches = results.study.searches
    if not searches:
        return f"{results.study.title}: no setting was chosen by a search."
    several = any(len(search.seeds) > 1 for search in searches)
    sentences = [
        f"{results.study.title}: settings that were compared for each row and column, on validation images and on "
        f"{seeds_of(searches)}, none of which the other tables use.",
        "Accuracy: mean over clients, at the round and the point of a round at which the row is scored"
        f"{', then mean ± sample standard deviation over seeds' if several else ''}.",
        RULE,
    ]
    if any(len(search.rounds) > 1 for search in searches):
        sentences.append(
            "Successive halving: of n points after r rounds, n·r/r′ (rounded up) go on to the next rung, of r′ rounds."
        )
    if any(search.chosen is None for search in searches):
        sentences.append("Searches that have not chosen yet show what they have compared.")
    return " ".join(sentences)
