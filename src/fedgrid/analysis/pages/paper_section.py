"""What a paper's page shows of one experiment: its tables, figures, claims and cells, as parts of HTML."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from markupsafe import Markup

from fedgrid.analysis import kinds
from fedgrid.analysis.figures.common.embedding import Picture, picture, read
from fedgrid.analysis.pages.figure_plan import drawings
from fedgrid.analysis.pages.figure_set import is_of_partition
from fedgrid.analysis.pages.number_details import Details, Number
from fedgrid.analysis.pages.table_set import shown_tables
from fedgrid.analysis.pages.views import briefly
from fedgrid.analysis.papers import cross_paper
from fedgrid.analysis.papers.agreement import text
from fedgrid.analysis.papers.claims import CONFIRMED, INCONCLUSIVE, REFUTED, UNCHECKED
from fedgrid.analysis.papers.overview import Overview, agreed, outcomes
from fedgrid.analysis.papers.scales import beside
from fedgrid.analysis.scores.differences import only_here
from fedgrid.analysis.scores.results import Results
from fedgrid.analysis.tables.common.grid import html, levels

ACCURACY = "accuracy"
FEW = 4
"""Up to so many columns, numbers are shown below a claim without a click."""


@dataclass(frozen=True)
class Section:
    """An experiment on the page of its paper."""

    overview: Overview
    href: str
    "Its own page, from the paper's."
    tables: list[Markup] = field(default_factory=list)
    at_scales: Markup | None = None
    "A table of what is printed beside every scale, where several have numbers."
    numbers: list[Number] = field(default_factory=list)
    "What a click on a number of these tables shows."
    folded: dict[str, list[Markup]] = field(default_factory=dict)
    "By what they show, tables that are a click away."
    pictures: list[Picture] = field(default_factory=list)
    partitions: list[Picture] = field(default_factory=list)
    undrawn: list[str] = field(default_factory=list)
    "Sentences on the figures that are not there."
    claims: list[dict[str, Any]] = field(default_factory=list)
    assumed: dict[str, str] = field(default_factory=dict)
    records: dict[str, Any] = field(default_factory=dict)
    "Cells by row and column: `header`, and `rows` of lists of (seed, link or nothing, status)."

    @property
    def tau(self) -> str:
        """The mean over columns; where there are several seeds, over columns with these, beside that between seeds."""
        order = agreed([self.overview])
        if not order.columns_of_several:
            return text(order.tau)
        return f"{text(order.tau_of_several)} (seeds: {text(order.between_seeds)})"

    @property
    def verdicts(self) -> dict[str, int]:
        """How many claims came to what."""
        counts = outcomes([self.overview])
        return {name: counts[name] for name in (CONFIRMED, REFUTED, INCONCLUSIVE, UNCHECKED) if counts[name]}


def section(
    overview: Overview,
    page: Path,
    assumed: Mapping[str, str],
    papers: Mapping[str, Any],
    configfile: str,
    scales: Mapping[str, Results],
) -> Section:
    """The parts of one experiment on `page`, a study's in `configfile`.

    `assumed` holds for the whole paper, `papers` are what others print, `scales` its results at every scale.
    """
    href = relative(overview.folder / "report.html", page)
    results = overview.results
    if results is None:
        return Section(overview, href)
    finished = {cell.key for cell in overview.finished}
    links = {key: relative(file, page) for key, file in overview.records.items() if key in finished}
    beside_others = beside(results, scales)
    details = Details(results, links, overview.id, configfile)
    figures = planned_figures(results, overview.folder)
    pictures = [(kind, picture(file)) for kind, files in figures.items() for file in files if file.is_file()]
    return Section(
        overview,
        href,
        tables=list(tables(results, overview.folder, details)),
        at_scales=Markup(html(beside_others)) if beside_others else None,
        numbers=details.numbers,
        folded=folded(results, overview.folder, papers),
        pictures=[entry for kind, entry in pictures if not is_of_partition(kind)],
        partitions=[entry for kind, entry in pictures if is_of_partition(kind)],
        undrawn=[sentence for kind, files in figures.items() for sentence in undrawn(kind, files)],
        claims=[{"verdict": entry, "open": len(entry.numbers) <= FEW} for entry in overview.verdicts],
        assumed=only_here(results.study.assumed, assumed),
        records=records(results, links) if results.cells and not details.numbers else {},
    )


def relative(path: Path, page: Path) -> str:
    """The link from a page to a file."""
    return Path(os.path.relpath(path, page.parent)).as_posix()


def tables(results: Results, folder: Path, details: Details) -> Iterator[Markup]:
    """The tables that the experiment shows, those of accuracies with a short caption and with `details`."""
    for name, table in shown_tables(results).items():
        if table.kind == ACCURACY and results.finished:
            yield Markup(html(details.linked(briefly(results, kinds.chosen("tables", ACCURACY, table.options)))))
        else:
            yield Markup(read(folder / "tables" / f"{name}.html"))


def folded(results: Results, folder: Path, papers: Mapping[str, Any]) -> dict[str, list[Markup]]:
    """Tables about printed numbers, by the words of what they show."""
    if not results.published:
        return {}
    tables = {"Printed numbers beside ours": [Markup(read(folder / "tables/printed.html"))]}
    if not results.cells:
        return tables
    beside = cross_paper.agreement_with_papers(results.published, papers)
    agreement = [Markup(read(folder / "tables/agreement.html"))]
    agreement += [Markup(html(cross_paper.grid(beside)))] if len(beside) else []
    return tables | {"Agreement between the orders of rows": agreement}


def planned_figures(results: Results, folder: Path) -> dict[str, list[Path]]:
    """The kinds of figures that the experiment shows → the files of their drawings in `folder`, drawn or not."""
    shown_kinds = dict.fromkeys(figure.kind for figure in results.study.shown("figure"))
    planned = drawings(results)
    return {
        kind: [folder / "figures" / f"{name}.svg" for name, figure in planned.items() if figure.kind == kind]
        for kind in shown_kinds
    }


def undrawn(kind: str, files: Sequence[Path]) -> list[str]:
    """Why there are fewer figures of a kind than there might be."""
    reasons = [text for file in files if not file.is_file() and (text := file.with_suffix(".txt")).is_file()]
    if reasons or any(file.is_file() for file in files):
        return [f"Figure ({kind}): {read(text).strip()}" for text in reasons]
    return [f"No results for this figure ({kind})."]


def records(results: Results, links: Mapping[str, str]) -> dict[str, Any]:
    """Which cells there are, each with the link to the file of its results."""
    entries: dict[tuple[str, str, str], list[tuple[int, str, str]]] = {}
    for cell in results.cells:
        entries.setdefault(cell.entry, []).append((cell.seed, links.get(cell.key, ""), cell.status))
    columns = results.columns
    rows = [(name, [entries.get((label, *column), []) for column in columns]) for label, name in results.names.items()]
    return {"header": levels([results.titles(*column) for column in columns]), "rows": rows}
