"""Which figures an experiment has, and what each is drawn from."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from fedgrid.analysis import kinds
from fedgrid.analysis.figures.common import varying
from fedgrid.analysis.pages.figure_set import Source
from fedgrid.analysis.scores.results import Results, choose
from fedgrid.files import slug
from fedgrid.grid.plan.manifest_model import Shown

FEWEST_SWEPT = 3
"""Values of a number that are a sweep; fewer are variants."""


@dataclass(frozen=True)
class Drawing:
    """A figure: its kind (see `figure_set`), what it is drawn from, what it shows of it, and its options."""

    kind: str
    source: Source
    selection: Mapping[str, str]
    options: Mapping[str, Any] = field(default_factory=dict)


def drawings(results: Results) -> dict[str, Drawing]:
    """All figures of an experiment, by name.

    Names begin with the kind; a second one of the same name has a number behind it. `UserError` for an
    unknown kind.
    """
    planned: dict[str, Drawing] = {}
    numbers = Counter[str]()
    for figure in results.study.shown("figure", default_figures(results)):
        kind = choose(figure.kind, kinds.names("figures"), "kind of figure")
        for name, partition, selection in subjects(results, kinds.options("figures", kind).subject):
            stem = "-".join([kind, *name])
            numbers[stem] += 1
            drawn = Drawing(kind, partition or results, selection, figure.options)
            planned[stem if numbers[stem] == 1 else f"{stem}-{numbers[stem]}"] = drawn
    return planned


def default_figures(results: Results) -> list[Shown]:
    """What a study shows that does not say."""
    compared = "sweep" if _sweeps(results) else "ablation"
    return [Shown(kind) for kind in ("curves", compared, "partition", "shares")]


def _sweeps(results: Results) -> bool:
    """Whether methods that have several rows have them for the values of one number."""
    methods = _methods_of_several_rows(results)
    if not methods or not results.columns:
        return False
    settings = varying.rows(results, *results.columns[0])
    return all(
        _is_sweep({label: row for label, row in settings.items() if row["method"] == method}) for method in methods
    )


def _is_sweep(rows: Mapping[str, varying.Settings]) -> bool:
    parts = [part for name in varying.numbers(rows) for part in varying.families(rows, name)]
    return len(rows) >= FEWEST_SWEPT and any(len(part.members) == len(rows) for part in parts)


def _methods_of_several_rows(results: Results) -> list[str]:
    rows = Counter(row.method for row in results.study.methods.values())
    return sorted(method for method, number in rows.items() if number > 1)


def subjects(results: Results, subject: str) -> Iterator[tuple[list[str], Path | None, dict[str, str]]]:
    """What there is to draw of a subject: each with the end of its name, the file of a partition, and what of it.

    Of the partitions, those of the first seed are pictured.
    """
    study = results.study
    if subject == "study":
        yield [], None, {}
    elif subject == "data":
        yield from (([slug(data)], None, {"data": data}) for data in study.data)
    elif subject == "method":
        for method, data in product(_methods_of_several_rows(results), study.data):
            yield [method, slug(data)], None, {"method": method, "data": data}
    else:
        files = {cell.column: cell.partition for cell in results.cells if cell.seed == study.seeds[0]}
        for (data, heterogeneity), file in files.items():
            sentence = study.described.get(heterogeneity, results.heterogeneity_title(heterogeneity))
            title = f"{results.title(data)}: {sentence}, seed {study.seeds[0]}"
            yield [slug(data), slug(heterogeneity)], file, {"title": title}
