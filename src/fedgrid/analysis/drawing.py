"""Which figures an experiment has, and what each is drawn from."""

from dataclasses import dataclass
from itertools import product
from pathlib import Path

from fedgrid.analysis.figures import OF_PARTITION, OF_RESULTS
from fedgrid.analysis.results import Results
from fedgrid.files import slug

KINDS = (*OF_RESULTS, *OF_PARTITION)
"Figures of a study that does not say which it wants."


@dataclass(frozen=True)
class Drawing:
    """A figure: its kind (see `fedgrid.analysis.figures`), the file that it is drawn from, and options."""

    kind: str
    source: Path
    options: dict[str, str]


def drawings(results: Results, source: Path) -> dict[str, Drawing]:
    """All figures of an experiment, by name; `source` is the file of its `results`."""
    study = results.study
    shown = [entry["figure"] for entry in study["show"] if "figure" in entry] if "show" in study else KINDS
    methods = [row["method"] for row in study["methods"].values()]
    ablated = sorted({name for name in methods if methods.count(name) > 1})
    found = {f"curves-{slug(data)}": Drawing("curves", source, {"data": data}) for data in study["data"]}
    for method, data in product(ablated, study["data"]):
        found[f"ablation-{method}-{slug(data)}"] = Drawing("ablation", source, {"method": method, "data": data})
    for cell in results.cells:
        if cell["seed"] == study["seeds"][0]:  # of the partitions, those of the first seed are pictured
            data, heterogeneity = cell["data"], cell["heterogeneity"]
            said = study["described"].get(heterogeneity, results.words(heterogeneity))
            for kind in ("partition", "shares"):
                name = f"{kind}-{slug(data)}-{slug(heterogeneity)}"
                options = {"title": f"{results.title(data)}: {said}, seed {cell['seed']}"}
                found[name] = Drawing(kind, Path(cell["partition"]), options)
    return {name: drawing for name, drawing in found.items() if drawing.kind in shown}
