"""Which figures an experiment has, and what each is drawn from."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from fedgrid.analysis.pages.figure_set import (
    DATA_SET_FIGURES,
    KINDS,
    METHOD_FIGURES,
    PARTITION_FIGURES,
    STUDY_FIGURES,
    Source,
)
from fedgrid.analysis.scores.results import Results, choose
from fedgrid.files import slug
from fedgrid.grid.plan.manifest_model import Shown

DEFAULT_FIGURES = [Shown(kind) for kind in ("curves", "ablation", *PARTITION_FIGURES)]
"""What a study shows that does not say."""


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
    for figure in results.study.shown("figure", DEFAULT_FIGURES):
        kind = choose(figure.kind, list(KINDS), "kind of figure")
        for name, partition, selection in subjects(results, kind):
            stem = "-".join([kind, *name])
            numbers[stem] += 1
            drawn = Drawing(kind, partition or results, selection, figure.options)
            planned[stem if numbers[stem] == 1 else f"{stem}-{numbers[stem]}"] = drawn
    return planned


def subjects(results: Results, kind: str) -> Iterator[tuple[list[str], Path | None, dict[str, str]]]:
    """What there is to draw of a kind: each with the end of its name, its partition's file if it is of one, and what.

    Of the partitions, those of the first seed are pictured.
    """
    study = results.study
    if kind in STUDY_FIGURES:
        yield [], None, {}
    if kind in DATA_SET_FIGURES:
        yield from (([slug(data)], None, {"data": data}) for data in study.data)
    if kind in METHOD_FIGURES:
        methods = [row.method for row in study.methods.values()]
        ablated = sorted({name for name in methods if methods.count(name) > 1})
        for method, data in product(ablated, study.data):
            yield [method, slug(data)], None, {"method": method, "data": data}
    if kind in PARTITION_FIGURES:
        files = {cell.column: cell.partition for cell in results.cells if cell.seed == study.seeds[0]}
        for (data, heterogeneity), file in files.items():
            sentence = study.described.get(heterogeneity, results.heterogeneity_title(heterogeneity))
            title = f"{results.title(data)}: {sentence}, seed {study.seeds[0]}"
            yield [slug(data), slug(heterogeneity)], file, {"title": title}
