"""Chooses the cells of a group that are trained again, so that they cover every choice in the group."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fedgrid.components import describe
from fedgrid.grid.adoption.candidates import Candidate, Group
from fedgrid.grid.study.catalog import description
from fedgrid.grid.study.fingerprint import digest
from fedgrid.grid.study.model import Settings
from fedgrid.settings import Backbone, Training

Choice = tuple[str, Any]
"A setting by its name with dots, and what was chosen."
INSIDE, LOWEST, HIGHEST = "inside its limits", "at its lowest", "at its highest"


def to_check(group: Group, least: int) -> list[Candidate]:
    """The candidates of a group that must be trained besides those already checked.

    At least `least` in all (or the whole group), by the group's digest, and as many more as cover every choice that
    occurs among the candidates, those first that cover most.
    """
    order = sorted(group.candidates, key=lambda candidate: digest([group.code_before, group.code_now, candidate.key]))
    choices = {candidate.key: set(choices_of(candidate)) for candidate in order}
    chosen = order[: max(0, least - len(group.checked))]
    covered = {choice for candidate in group.checked for choice in choices_of(candidate)}
    covered |= {choice for candidate in chosen for choice in choices[candidate.key]}
    while missing := set().union(*choices.values()) - covered:
        best = max(order, key=lambda candidate: len(choices[candidate.key] & missing))
        chosen.append(best)
        covered |= choices[best.key]
    return chosen


def choices_of(candidate: Candidate) -> Iterator[Choice]:
    """The choices of a cell that code may branch on: kinds, flags, and whether numbers lie at their limits."""
    cell = candidate.cell
    partition, data = cell.partition, cell.partition.data
    yield from _choices("method", description("methods", cell.row.component.reference), cell.row.component.settings)
    yield from _choices("model", description("models", cell.model.reference), cell.model.settings)
    yield from _choices("training", describe(Training), cell.row.training)
    yield "partition", partition.component.name
    yield "partition.tested", partition.tested
    about = description("partition", partition.component.reference)
    yield from _choices("partition", about, partition.component.settings)
    if data.backbone:
        yield from _choices("features", describe(Backbone), data.backbone)
    yield "features", bool(data.backbone)
    for kind in cell.artifacts:
        yield "artifacts", kind


def _choices(where: str, about: Mapping[str, Any], settings: Settings) -> Iterator[Choice]:
    for parameter in about["parameters"]:
        name, value = f"{where}.{parameter['name']}", settings[parameter["name"]]
        if isinstance(value, Mapping):
            yield name, "given"
            yield from _choices(name, parameter, value)
        elif isinstance(value, Sequence) and not isinstance(value, str):
            yield from ((name, entry) for entry in value)
        else:
            yield name, _choice(parameter, value)


def _choice(parameter: Mapping[str, Any], value: Any) -> Any:
    """What code may branch on: the value of a choice or a flag; of a number, whether it lies at a limit."""
    if isinstance(value, bool) or value is None or "choices" in parameter:
        return value
    if isinstance(value, int | float):
        return LOWEST if value == parameter.get("low") else HIGHEST if value == parameter.get("high") else INSIDE
    return "a text"
