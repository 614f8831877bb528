"""What a part of a study cannot be planned with: data, model, attacks and scores that do not suit each other."""

from collections.abc import Sequence

from fedgrid.data.common.images import DatasetInfo
from fedgrid.errors import UserError
from fedgrid.grid.plan import instances
from fedgrid.grid.plan.model import PlannedDataset
from fedgrid.grid.study.model import Part, Placed, Reading
from fedgrid.grid.study.sections import StudyError, located

CLEAN = "clean"
"What models are scored on without an attack."
ON_VALIDATION = ("validated", "validation")
"Values of a study's `report` that need images held out for validation."
PlannedData = tuple[PlannedDataset, DatasetInfo]


def check_fit(part: Part, data: Sequence[PlannedData]) -> None:
    """Raises UserError where a data set of a part cannot be dealt out so, or does not suit its model."""
    model = part.model.value
    for planned, info in data:
        name, label = model.component.name, planned.label
        if model.modalities != info.modalities:
            problem = f"'{name}' is for {kind_of_data(model.modalities)}, '{label}' is {kind_of_data(info.modalities)}"
            raise StudyError(part.model.origin, problem)
        if min(info.shape[:2]) < model.smallest:
            side = "×".join(map(str, info.shape[:2]))
            problem = f"'{name}' needs images of {model.smallest}×{model.smallest} at least, '{label}' has {side}"
            raise StudyError(part.model.origin, problem)
        for kind in part.heterogeneity:
            with located(kind.origin):
                instances.check_partition(kind.value.component, info, part.partition_seeds)
                instances.description_of(kind.value.component, part.partition_seeds[0])


def kind_of_data(modalities: Sequence[str]) -> str:
    """Data of some modalities, or of images alone, in words."""
    return f"data of the modalities {' and '.join(modalities)}" if modalities else "data of images alone"


def check_attacks(part: Part, data: Sequence[PlannedData]) -> None:
    """Raises UserError where a row has images attacked, and a data set of its part holds other things too."""
    others = {partition.label: "frozen features" for partition, _ in data if partition.backbone}
    others |= {partition.label: kind_of_data(info.modalities) for partition, info in data if info.modalities}
    for row in part.rows:
        settings = row.value.training
        attacked = [name for name in settings.evaluate if name != CLEAN]
        setting = "adversarial" if settings.adversarial else f"evaluate: {attacked[0]}" if attacked else ""
        for name, what in others.items() if setting else ():
            raise StudyError(row.origin, f"training.{setting} needs images alone, and '{name}' is {what}")


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
