"""docs/ranking.md and its picture, made from the archived cells of the ranking: every number in it is read from them.

python -m benchmarks.ranking    writes docs/ranking.md and its picture
"""

import argparse
from collections import Counter
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from statistics import mean

import pandas as pd

from benchmarks import reproduction_pictures as pictures
from benchmarks.markdown import table as markdown_table
from benchmarks.templates import rendered
from fedgrid.analysis.figures import ranking as ranking_figure
from fedgrid.analysis.figures.common.style import drawing, write_figure
from fedgrid.analysis.prose.duplicate_rows import duplicates
from fedgrid.analysis.prose.phrases import decimals, listing, percent, signed, spelled
from fedgrid.analysis.scores.budgets import budgets
from fedgrid.analysis.scores.comparisons import LEVEL, Scores
from fedgrid.analysis.scores.domains import EVERY
from fedgrid.analysis.scores.ranking import Ranking, ranking
from fedgrid.analysis.scores.results import Results
from fedgrid.analysis.scores.summary import cell_scores, scores_by_column, summary
from fedgrid.analysis.tables import ranking as ranking_table
from fedgrid.analysis.tables.against import HEADERS, differences, printed_entries
from fedgrid.analysis.tables.common.grid import markdown, markdown_entry
from fedgrid.api.archive.reading import read_archived_study
from fedgrid.quantities import counted

ARCHIVE, FRESH = Path("benchmarks/cells/ranking.zip"), Path("benchmarks/cells/ranking-fresh.zip")
"""The ranking, and some of its rows at the same rates on seeds that had no part in it."""
OUT, PICTURE = Path("docs/ranking.md"), Path("docs/images/ranking.svg")
TEMPLATE = Path(__file__).with_suffix(".md.j2")
BASES = ("local", "fedavg_ft")
"""What a federation, and what personalisation has to beat."""
PROCESSORS = 0.011
"""How far the search's scores of methods that are the same here are apart at most, by their kinds of processor."""
UNIT = "fedavg"
"""The row whose training images are the unit of other rows' ones."""


def page(results: Results, fresh: Results) -> str:
    """The text of the page, of the ranking and of its rows on fresh seeds."""
    (column,) = results.columns
    ranked = ranking(results, column)
    cells, entries = cell_scores(results), summary(results)
    scores = only_column(results, cells, entries)
    of_fresh = only_column(fresh, cell_scores(fresh), summary(fresh))
    _, grid = ranking_table.make_table(results, ranking_table.Options())
    return rendered(
        TEMPLATE,
        answer=answer(results, ranked),
        bases=[f"{against(results, ranked, label)} {alone(results, scores, label)}" for label in BASES],
        rates=rates(results, ranked),
        images=gradients(results, ranked),
        close=close_choices(results),
        fresh_seeds=spelled(len(of_fresh.values.columns)),
        again=again(results.names, of_fresh, ranked.entries.index[0]),
        fresh=on_fresh_seeds(results.names, scores, of_fresh),
        table=markdown(grid),
        equal=duplicates(results, cells, entries),
    )


def answer(results: Results, ranked: Ranking) -> str:
    """Who is first, how many cannot be told apart from that, and the steps from there to the last."""
    order = list(ranked.entries.index)
    leaders = alike(ranked, order[0]) - {order[0]}
    last = max(leaders, key=order.index, default=None)
    said = f"{counted(len(leaders), 'other')}, down to {named(results, ranked, last)}" if last else "none"
    steps = [named(results, ranked, row) for row in levels(ranked)]
    return (
        f"Of {len(order)} rows {named(results, ranked, order[0])} is first. Cannot be told apart from it: {said}. "
        f"Rows that can all be told apart, from the first one down: {', '.join(steps)}."
    )


def named(results: Results, ranked: Ranking, row: str) -> str:
    """A row by its name, with its accuracy."""
    return f"{results.names[row]} ({percent(ranked.entries.loc[row, 'accuracy'])} %)"


def levels(ranked: Ranking) -> list[str]:
    """The first row, the next one that is told apart from it, the next one that is from both, and so on."""
    found: list[str] = []
    for row in ranked.entries.index:
        if alike(ranked, row).isdisjoint(found):
            found.append(row)
    return found


def against(results: Results, ranked: Ranking, base: str) -> str:
    """How many rows are told apart from a base, above it and below it, and how many are not."""
    order, same = list(ranked.entries.index), alike(ranked, base)
    places = [order.index(row) for row in order if row not in same]
    above = sum(place < order.index(base) for place in places)
    return (
        f"{named(results, ranked, base)}: {above} are above it, {len(places) - above} below it, and {len(same) - 1} "
        "cannot be told apart from it."
    )


def alone(results: Results, scores: Scores, base: str) -> str:
    """The same where the base alone had been compared with the others, as somebody plans who has one question."""
    pairs = [(row, base) for row in scores.values.index if row != base]
    found = [pair for pair in differences(scores, pairs).values() if pair["p_adjusted"] <= LEVEL]
    above = sum(pair["difference"] > 0 for pair in found)
    first = max(scores.values.index, key=scores.mean)
    low, high = map(percent, (lead := scores.between(first, base)).interval())
    return (
        f"If only these {len(pairs)} pairs had been compared, it would be {above} and {len(found) - above}. "
        f"{results.names[first]}, the highest on these very seeds, is {percent(lead.difference)} points above it, "
        f"{low} to {high} by the 95 % interval of this difference alone."
    )


def only_column(results: Results, cells: pd.DataFrame, entries: pd.DataFrame) -> Scores:
    """The scores of a study of one column, from those of its cells and their summary."""
    (column,) = results.columns
    return scores_by_column(results, cells, entries)[*column, EVERY]


def again(names: Mapping[str, str], fresh: Scores, first: str) -> str:
    """By how much the first row is above the bases on fresh seeds."""
    said = []
    for base in BASES:
        low, high = map(signed, (lead := fresh.between(first, base)).interval())
        said.append(f"{signed(lead.difference)} points above {names[base]} ({low} to {high})")
    return f"{names[first]} is {listing(said)}"


def on_fresh_seeds(names: Mapping[str, str], known: Scores, fresh: Scores) -> str:
    """How far any two rows are apart in the ranking, which puts the first of them first, and on fresh seeds."""
    rows = sorted(fresh.values.index, key=known.mean, reverse=True)
    found = differences(fresh, list(combinations(rows, 2)))
    lines = [
        (
            f"{names[row]} − {names[other]}",
            decimals(100 * known.between(row, other).difference, signed=True),
            *(markdown_entry(entry) for entry in printed_entries(numbers)),
        )
        for (row, other), numbers in found.items()
    ]
    return markdown_table(["Rows", "In the ranking", *HEADERS], lines)


def alike(ranked: Ranking, row: str) -> set[str]:
    """A row, and those that cannot be told apart from it."""
    return {other for group in ranked.groups if row in group for other in group}


def rates(results: Results, ranked: Ranking) -> str:
    """How many ranked rows have each learning rate, their own where their steps are."""
    searches = [search for search in results.study.searches if search.row in ranked.entries.index]
    chosen = [search.points[search.chosen] for search in searches if search.chosen is not None]
    counts = Counter(rate for point in chosen for rate in point.values())
    return listing(f"{rate} for {rows}" for rate, rows in sorted(counts.items()))


def close_choices(results: Results) -> str:
    """How many rates were chosen by less than two kinds of processor differ by."""
    lists = [choice.scores for search in results.study.searches for choice in search.choices]
    scores = [sorted((mean(one.by_seed) for one in each if None not in one.by_seed), reverse=True) for each in lists]
    close = sum(len(each) > 1 and each[0] - each[1] < PROCESSORS for each in scores)
    return f"{close} rates of {len(scores)} were chosen by less than {100 * PROCESSORS:.1f} points"


def gradients(results: Results, ranked: Ranking) -> str:
    """At how many images of a cell methods take a gradient, in multiples of FedAvg's, from the fewest up."""
    table = budgets(results).set_index("label").loc[ranked.entries.index]
    of_cell = table["images_table"] / table["cells"]
    multiples = (of_cell / of_cell[UNIT]).round(1)
    alike: dict[float, list[str]] = {}
    for row, multiple in multiples.sort_values(kind="stable").items():
        alike.setdefault(multiple, []).append(results.names[row].partition(",")[0])  # second rows name the rate, too
    (_, least), *more = alike.items()
    others = [f"{listing(rows)} at {multiple:g} times as many" for multiple, rows in more]
    return f"{counted(len(least), 'row')} take gradients at as many images as FedAvg, {listing(others)}."


def digest(results: Results) -> str:
    """Of the numbers of the ranking."""
    table, _ = ranking_table.make_table(results, ranking_table.Options())
    return pictures.digest(table, decimals=4)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ranking", description=__doc__.partition("\n")[0])
    parser.parse_args()
    results = read_archived_study(ARCHIVE).results
    OUT.write_text(page(results, read_archived_study(FRESH).results), encoding="utf-8")
    with drawing():
        figure, title, _ = ranking_figure.draw_figure(results, ranking_figure.Options(), results.columns[0][0])
        write_figure(figure, PICTURE, f"{title} [{digest(results)}]")


if __name__ == "__main__":
    main()
