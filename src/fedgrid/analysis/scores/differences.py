"""The protocol of a paper: settings that all its experiments share, and settings that differ."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fedgrid.analysis.scores.cells import FinishedCell
from fedgrid.analysis.scores.results import Results
from fedgrid.analysis.scores.settings import column_names, flattened, setting_text
from fedgrid.grid.plan.manifest_model import ColumnProtocol, StudyDescription

Said = list[tuple[str, str]]
"""Names of settings and their values."""


def compare_settings(
    experiments: Mapping[str, Results],
) -> tuple[Said, list[tuple[str, list[tuple[str, str]]]]]:
    """Settings that are the same everywhere; and the others, by name: each value with the experiments that have it."""
    values_of: dict[str, dict[str, list[str]]] = {}
    for name, results in experiments.items():
        for where, setting, value in experiment_settings(results):
            experiment = f"{name} ({where})" if where else name
            values_of.setdefault(setting, {}).setdefault(value, []).append(experiment)
    everywhere = list(experiments)
    same, different = [], []
    for setting, values in values_of.items():
        shared = [value for value, names in values.items() if names == everywhere]
        other = [(value, ", ".join(names)) for value, names in values.items() if names != everywhere]
        same += [(setting, value) for value in shared]
        different += [(setting, other)] if other else []
    return same, different


def experiment_settings(results: Results) -> Iterator[tuple[str, str, str]]:
    """Where a setting holds, empty for the whole experiment, its name and its value."""
    study = results.study
    yield from (("", "data", title) for title in study.data.values())
    for label, name in study.heterogeneity.items():
        yield "", "heterogeneity", study.described.get(label, name)
    seeds = {"seeds": study.seeds, "partition_seed": study.partition_seed, "train_seed": study.train_seed}
    for name, value in {**seeds, "score": study.score, "at": study.at}.items():
        if value is not None:
            yield "", name, setting_text(value)
    yield from settings("", study)
    for part in study.elsewhere:
        yield from settings(column_names(results, part.columns), part)


def settings(where: str, part: StudyDescription | ColumnProtocol) -> Iterator[tuple[str, str, str]]:
    """Model and training of one part of an experiment."""
    if part.model:
        yield where, "model", part.model
    yield from ((where, f"training.{name}", setting_text(value)) for name, value in flattened(part.protocol))


def only_here(assumed: Mapping[str, str], of_all: Mapping[str, str]) -> dict[str, str]:
    """Assumptions of one experiment that are not those of the whole paper."""
    return {name: why for name, why in assumed.items() if of_all.get(name) != why}


def environments(results: Results) -> list[tuple[int, dict[str, Any]]]:
    """Versions and hardware of the finished cells of all experiments, each cell once, most common first."""
    cells = {cell.key: cell for cell in results.trained}
    return [(len(alike), environment) for alike, environment in by_environment(cells.values())]


def by_environment(cells: Iterable[FinishedCell]) -> list[tuple[list[FinishedCell], dict[str, Any]]]:
    """Cells by the versions and the hardware that they ran on, most common first."""
    cells_of: dict[str, list[FinishedCell]] = {}
    for cell in cells:
        environment = {"versions": cell.versions, "hardware": cell.hardware}
        cells_of.setdefault(json.dumps(environment), []).append(cell)
    return [(alike, json.loads(text)) for text, alike in sorted(cells_of.items(), key=lambda item: -len(item[1]))]
