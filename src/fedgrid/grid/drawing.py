"""Which figures a study has, and what each is drawn from."""

from itertools import product
from pathlib import Path
from typing import Any

from fedgrid.grid import manifest
from fedgrid.grid.study import Study

Drawing = tuple[str, Path, dict[str, Any]]


def figures(study: Study) -> dict[str, Drawing]:
    """Name → kind (see `fedgrid.analysis.figures`), the file that it is drawn from, and options."""
    results = study.folder / "results.parquet"
    names = [method.variant.name for method in study.methods]
    ablated = sorted({name for name in names if names.count(name) > 1})
    labels = [data.label for data in study.data]
    found: dict[str, Drawing] = {f"curves-{data}": ("curves", results, {"data": data}) for data in labels}
    for method, data in product(ablated, labels):
        found[f"ablation-{method}-{data}"] = ("ablation", results, {"method": method, "data": data})
    for cell in study.cells:
        if cell.seed == study.text["seeds"][0]:  # of the partitions, those of the first seed are pictured
            for kind in ("partition", "shares"):
                name = f"{kind}-{cell.split.data.label}-{cell.heterogeneity}"
                found[name] = (kind, cell.split.file, {"title": manifest.title(cell.split)})
    return found
