"""docs/ranking.md and its picture, made from the archived cells of the ranking: every number in it is read from them.

python -m benchmarks.ranking    writes docs/ranking.md and its picture
"""

import argparse
from collections import Counter
from pathlib import Path

from benchmarks import reproduction_pictures as pictures
from benchmarks.markdown import rendered
from fedgrid.analysis.figures import ranking as ranking_figure
from fedgrid.analysis.figures.common.style import drawing, write_figure
from fedgrid.analysis.prose.duplicate_rows import duplicates
from fedgrid.analysis.prose.phrases import listing, percent
from fedgrid.analysis.scores.ranking import Ranking, ranking
from fedgrid.analysis.scores.results import Results
from fedgrid.analysis.scores.summary import cell_scores, summary
from fedgrid.analysis.tables import ranking as ranking_table
from fedgrid.analysis.tables.common.grid import markdown
from fedgrid.api.archive.reading import read_archived_study

ARCHIVE = Path("benchmarks/cells/ranking.zip")
OUT, PICTURE = Path("docs/ranking.md"), Path("docs/images/ranking.svg")
TEMPLATE = Path(__file__).with_suffix(".md.j2")
BASES = ("local", "fedavg_ft")
"""What a federation, and what personalisation has to beat."""
RATE = "training.lr"


def page(results: Results) -> str:
    """The text of the page."""
    (column,) = results.columns
    ranked = ranking(results, column)
    _, grid = ranking_table.make_table(results, ranking_table.Options())
    return rendered(
        TEMPLATE,
        answer=answer(results, ranked),
        bases=[against(results, ranked, label) for label in BASES],
        rates=rates(results),
        table=markdown(grid),
        equal=duplicates(results, cell_scores(results), summary(results)),
    )


def answer(results: Results, ranked: Ranking) -> str:
    """Who is first, who cannot be told apart from that, and how many steps there are from there to the last."""
    order = list(ranked.entries.index)
    leaders, accuracy = alike(ranked, order[0]) - {order[0]}, percent(ranked.entries.loc[order[0], "accuracy"])
    names = listing(results.names[row] for row in order if row in leaders) if leaders else "none"
    steps = [f"{results.names[row]} ({percent(ranked.entries.loc[row, 'accuracy'])})" for row in levels(ranked)]
    return (
        f"Of {len(order)} methods {results.names[order[0]]} is first with {accuracy} %. "
        f"Cannot be told apart from it: {names}. Of {len(steps)} rows every two are told apart: {', '.join(steps)}."
    )


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
        f"{results.names[base]} ({percent(ranked.entries.loc[base, 'accuracy'])} %): {above} are above it, "
        f"{len(places) - above} below it, and {len(same) - 1} cannot be told apart from it."
    )


def alike(ranked: Ranking, row: str) -> set[str]:
    """A row, and those that cannot be told apart from it."""
    return {other for group in ranked.groups if row in group for other in group}


def rates(results: Results) -> str:
    """How many rows have each learning rate."""
    chosen = [search.points[search.chosen] for search in results.study.searches if search.chosen is not None]
    counts = Counter(point[RATE] for point in chosen)
    return listing(f"{rate} for {rows}" for rate, rows in sorted(counts.items()))


def digest(results: Results) -> str:
    """Of the numbers of the ranking."""
    table, _ = ranking_table.make_table(results, ranking_table.Options())
    return pictures.digest(table, decimals=4)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ranking", description=__doc__.partition("\n")[0])
    parser.parse_args()
    results = read_archived_study(ARCHIVE).results
    OUT.write_text(page(results), encoding="utf-8")
    with drawing():
        figure, title, _ = ranking_figure.draw_figure(results, ranking_figure.Options(), results.columns[0][0])
        write_figure(figure, PICTURE, f"{title} [{digest(results)}]")


if __name__ == "__main__":
    main()
