"""Which figures an experiment has, and what each is drawn from."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from fedgrid.files import slug

KINDS = ("curves", "ablation", "partition", "shares")
"Figures of a study that does not say which it wants."


@dataclass(frozen=True)
class Drawing:
    """A figure: its kind (see `fedgrid.analysis.figures`), the file that it is drawn from, and options."""

    kind: str
    source: Path
    options: dict[str, str]


def drawings(listed: Mapping[str, Any], results: Path) -> dict[str, Drawing]:
    """All figures of an experiment, by name; `listed` is its manifest, `results` where its collected results are."""
    study, cells = listed["study"], listed["cells"]
    shown = [show["figure"] for show in study["show"] if "figure" in show] if study["show"] else list(KINDS)
    methods = [row["method"] for row in study["methods"].values()]
    ablated = sorted({name for name in methods if methods.count(name) > 1})
    found = {f"curves-{slug(data)}": Drawing("curves", results, {"data": data}) for data in study["data"]}
    for method, data in product(ablated, study["data"]):
        found[f"ablation-{method}-{slug(data)}"] = Drawing("ablation", results, {"method": method, "data": data})
    for cell in cells:
        if cell["seed"] == study["seeds"][0]:  # of the partitions, those of the first seed are pictured
            title = f"{study['data'][cell['data']]}: {study['described'][cell['heterogeneity']]}, seed {cell['seed']}"
            for kind in ("partition", "shares"):
                name = f"{kind}-{slug(cell['data'])}-{slug(cell['heterogeneity'])}"
                found[name] = Drawing(kind, Path(cell["partition"]), {"title": title})
    return {name: drawing for name, drawing in found.items() if drawing.kind in shown}
