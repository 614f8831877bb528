"""Which figures a study has, and what each is drawn from."""

from dataclasses import dataclass
from itertools import product
from pathlib import Path

from fedgrid.grid.planned import Study


@dataclass(frozen=True)
class Drawing:
    """A figure: its kind (see `fedgrid.analysis.figures`), the file that it is drawn from, and options."""

    kind: str
    source: Path
    options: dict[str, str]


def drawings(study: Study) -> dict[str, Drawing]:
    """All figures of a study, by name."""
    results = study.folder / "results.parquet"
    names = [row.component.name for row in study.rows]
    ablated = sorted({name for name in names if names.count(name) > 1})
    labels = [data.label for data in study.data.values()]
    found = {f"curves-{data}": Drawing("curves", results, {"data": data}) for data in labels}
    for method, data in product(ablated, labels):
        found[f"ablation-{method}-{data}"] = Drawing("ablation", results, {"method": method, "data": data})
    for cell in study.cells:
        if cell.seed == study.text["seeds"][0]:  # of the partitions, those of the first seed are pictured
            for kind in ("partition", "shares"):
                name = f"{kind}-{cell.partition.data.label}-{cell.heterogeneity}"
                found[name] = Drawing(kind, cell.partition.file, {"title": cell.partition.title})
    return found
