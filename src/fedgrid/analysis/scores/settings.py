"""Settings as tables and sentences name them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fedgrid.analysis.scores.results import DASH, Results
from fedgrid.grid.plan.manifest_model import Settings
from fedgrid.grid.study.expansion import TRAINING


def row_settings(results: Results, label: str, column: tuple[str, str]) -> dict[str, Any]:
    """The settings of a row in a column: hyperparameters, and its own settings of training as ``training.lr``."""
    row = results.study.methods[label]
    settings = dict(row.settings)
    for part in row.elsewhere:
        settings |= part.settings if column in part.columns else {}
    return settings


def resolved_settings(results: Results, label: str, column: tuple[str, str]) -> tuple[Settings, Settings]:
    """The settings of training, and the hyperparameters, that a row's cells have in a column."""
    study, settings = results.study, row_settings(results, label, column)
    training = dict(study.protocol)
    for part in study.elsewhere:
        training |= part.protocol if column in part.columns else {}
    own = {name: value for name, value in settings.items() if name.startswith(TRAINING)}
    training |= {name.removeprefix(TRAINING): value for name, value in own.items() if value is not None}
    return training, {name: value for name, value in settings.items() if name not in own}


def flattened(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Names and values of settings; the name of one inside a mapping has a dot, as in ``adversarial.eps``."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from ((f"{name}.{inner}", part) for inner, part in flattened(value))
        else:
            yield name, value


def setting_text(value: Any) -> str:
    """A value as a reader would write it: yes or no, a list with commas, a dash for none."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(setting_text, value))
    return DASH if value is None else str(value)


def column_names(results: Results, columns: Iterable[tuple[str, str]]) -> str:
    """The names of columns, for a sentence."""
    return "; ".join(", ".join(results.titles(*column)) for column in columns)
