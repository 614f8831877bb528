"""What a part of a study cannot be planned with: data, model, attacks and scores that do not suit each other."""

from collections.abc import Sequence

from fedgrid.data.common.images import IMAGE, DatasetInfo
from fedgrid.errors import UserError
from fedgrid.grid.plan import instances
from fedgrid.grid.plan.model import PlannedDataset
from fedgrid.grid.study.catalog import description
from fedgrid.grid.study.model import Part, Placed, Reading
from fedgrid.grid.study.sections import StudyError, located
from fedgrid.loading import names

CLEAN = "clean"
"What models are scored on without an attack."
ON_VALIDATION = ("validated", "validation")
"Values of a study's `report` that need images held out for validation."
SAMPLES = {"image": "images", "text": "texts", "signal": "signals", "tabular": "rows of a table"}
"Kinds of samples in words."
PlannedData = tuple[PlannedDataset, DatasetInfo]


def check_fit(part: Part, data: Sequence[PlannedData]) -> None:
    """Raises UserError where a data set of a part cannot be dealt out so, or does not suit its model."""
    model = part.model.value
    for planned, info in data:
        name, label = model.component.name, planned.label
        if model.modalities != info.modalities:
            holds = kind_of_data(info.modalities, info.kind)
            problem = f"'{name}' is for {kind_of_data(model.modalities)}, '{label}' is {holds}"
            raise StudyError(part.model.origin, problem)
        if info.kind not in model.kinds:
            taken = " and ".join(SAMPLES[kind] for kind in model.kinds)
            problem = f"'{name}' takes {taken}, and '{label}' holds {SAMPLES[info.kind]}; choose {_taking(info.kind)}"
            raise StudyError(part.model.origin, problem)
        if min(info.shape[:2]) < model.smallest:
            side = "×".join(map(str, info.shape[:2]))
            problem = f"'{name}' needs images of {model.smallest}×{model.smallest} at least, '{label}' has {side}"
            raise StudyError(part.model.origin, problem)
        for kind in part.heterogeneity:
            with located(kind.origin):
                instances.check_partition(kind.value.component, info, part.partition_seeds)
                instances.description_of(kind.value.component, part.partition_seeds[0])


def _taking(kind: str) -> str:
    """The models that take a kind of samples, in words."""
    taking = [name for name in names("models") if kind in description("models", name)["facts"].get("kinds", (IMAGE,))]
    return " or ".join(taking)


def kind_of_data(modalities: Sequence[str], kind: str = IMAGE) -> str:
    """Data of some modalities, or of one kind of samples alone, in words."""
    return f"data of the modalities {' and '.join(modalities)}" if modalities else f"data of {SAMPLES[kind]} alone"


def check_attacks(part: Part, data: Sequence[PlannedData]) -> None:
    """Raises UserError where a row changes images, and a data set of its part holds other things (too)."""
    kinds = {planned.label: kind_of_data((), info.kind) for planned, info in data if info.kind != IMAGE}
    others = {planned.label: "frozen features" for planned, _ in data if planned.backbone} | kinds
    others |= {planned.label: kind_of_data(info.modalities) for planned, info in data if info.modalities}
    for row in part.rows:
        settings = row.value.training
        attacked = [name for name in settings.evaluate if name != CLEAN]
        setting = "adversarial" if settings.adversarial else f"evaluate: {attacked[0]}" if attacked else ""
        for name, what in others.items() if setting else ():
            raise StudyError(row.origin, f"training.{setting} needs images alone, and '{name}' is {what}")
        for name, what in kinds.items() if settings.augmentation != "none" else ():
            raise StudyError(row.origin, f"training.augmentation is of images, and '{name}' is {what}")


def check_validation(part: Part) -> None:
    """Raises UserError where cells are read on validation images that a partition of their part lacks."""
    readings = [part.reading, *(Placed(Reading(row.value.score, row.value.at), row.origin) for row in part.rows)]
    asking = [search.origin.label for search in part.searches.values()]
    asking += [
        reading.origin.child(name).label + f": '{value}'"
        for reading in readings
        for name, value in (("score", reading.value.score), ("at", reading.value.at))
        if value in ON_VALIDATION
    ]
    for kind in part.heterogeneity if asking else ():
        with instances.creating_partition(kind.value.component) as partition:
            validated = all(partition.validated(seed) for seed in part.partition_seeds)
        if not validated:
            mend = "name a file that does" if partition.from_file else "set its validation, to 0.2 for example"
            problem = f"{kind.origin.label} ('{kind.value.component.name}') holds none"
            raise UserError(f"{asking[0]} needs validation images, and {problem}; {mend}")
