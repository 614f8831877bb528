"""Which figures an experiment has, and what each is drawn from."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from fedgrid.analysis import kinds
from fedgrid.analysis.pages.figure_set import Source
from fedgrid.analysis.scores.results import Results, choose
from fedgrid.files import slug
from fedgrid.grid.plan.manifest_model import Shown

DEFAULT_FIGURES = [Shown(kind) for kind in ("curves", "ablation", "partition", "shares")]
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
        kind = choose(figure.kind, kinds.names("figures"), "kind of figure")
        for name, partition, selection in subjects(results, kinds.options("figures", kind).subject):
            stem = "-".join([kind, *name])
            numbers[stem] += 1
            drawn = Drawing(kind, partition or results, selection, figure.options)
            planned[stem if numbers[stem] == 1 else f"{stem}-{numbers[stem]}"] = drawn
    return planned


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
        methods = [row.method for row in study.methods.values()]
        ablated = sorted({name for name in methods if methods.count(name) > 1})
        for method, data in product(ablated, study.data):
            yield [method, slug(data)], None, {"method": method, "data": data}
    else:
        files = {cell.column: cell.partition for cell in results.cells if cell.seed == study.seeds[0]}
        for (data, heterogeneity), file in files.items():
            sentence = study.described.get(heterogeneity, results.heterogeneity_title(heterogeneity))
            title = f"{results.title(data)}: {sentence}, seed {study.seeds[0]}"
            yield [slug(data), slug(heterogeneity)], file, {"title": title}
