"""Which setting a study varies: of its heterogeneities, or of the rows of one method."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedgrid.analysis.figures.common.style import Undrawn
from fedgrid.analysis.scores.results import Results
from fedgrid.analysis.scores.settings import row_settings
from fedgrid.errors import UserError, nearest

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Family:
    """Things that differ in one setting alone."""

    members: dict[str, float]
    "By name, the value of that setting; from the lowest to the highest."
    settings: dict[str, Any]
    "What they have in common."


def partitions(results: Results, data: str) -> dict[str, Settings]:
    """The settings of the heterogeneities of `data`, by name; empty for results of an earlier release."""
    known = results.study.partitions.get(data, {})
    return {name: known[name] for name in results.heterogeneities(data) if name in known}


def rows(results: Results, data: str, heterogeneity: str) -> dict[str, Settings]:
    """The method and the settings of every row in one column, by label."""
    column = data, heterogeneity
    return {
        label: {"method": row.method, **row_settings(results, label, column)}
        for label, row in results.study.methods.items()
    }


def varied(of_columns: Mapping[str, Settings], of_rows: Mapping[str, Settings], over: str) -> tuple[str, bool]:
    """The setting that is varied, and whether heterogeneities differ in it (else rows do).

    That is `over`; without it, the one that takes most values. Raises `UserError` where nothing has a setting `over`,
    and `Undrawn` where it, or every setting, takes one value alone.
    """
    counts = {
        (name, columns): max(len(family.members) for family in families(settings_of_lines, name))
        for settings_of_lines, columns in ((of_columns, True), (of_rows, False))
        for name in numbers(settings_of_lines)
    }
    counts = {setting: count for setting, count in counts.items() if count > 1}
    known = {*numbers(of_columns), *numbers(of_rows)}
    if over and over not in known:
        raise UserError(f"show: no heterogeneity and no row has a number '{over}'; {nearest(over, known)}")
    counts = {setting: count for setting, count in counts.items() if not over or setting[0] == over}
    if not counts:
        raise Undrawn(f"No two heterogeneities or rows differ in {over or 'one setting'} alone.")
    return max(counts, key=lambda setting: counts[setting])


def numbers(settings_of_lines: Mapping[str, Settings]) -> list[str]:
    """The names of settings that are a number somewhere."""
    values = ((name, value) for settings in settings_of_lines.values() for name, value in settings.items())
    return list(dict.fromkeys(name for name, value in values if is_number(value)))


def is_number(value: Any) -> bool:
    """Whether a setting can be an axis."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def families(settings_of_lines: Mapping[str, Settings], over: str) -> list[Family]:
    """What differs in `over` alone, together; what has no number there is in no family."""
    parts: dict[str, Family] = {}
    for name, settings in settings_of_lines.items():
        if is_number(settings.get(over)):
            others = {key: value for key, value in settings.items() if key != over}
            part = parts.setdefault(repr(sorted(others.items())), Family({}, others))
            part.members[name] = float(settings[over])
    return [
        Family(dict(sorted(part.members.items(), key=lambda member: member[1])), part.settings)
        for part in parts.values()
    ]


def told_apart(parts: Sequence[Family]) -> list[str]:
    """For each family, the settings in which it differs from another one, as text; empty for a single one."""
    names = dict.fromkeys(name for part in parts for name in part.settings)
    differing = [name for name in names if len({repr(part.settings.get(name)) for part in parts}) > 1]
    return [", ".join(text for name in differing for text in in_words(name, part.settings.get(name))) for part in parts]


def in_words(name: str, value: Any) -> list[str]:
    """A setting in the name of a line: a text as it is, a number with the setting's name, nothing of anything else."""
    if isinstance(value, str):
        return [value]
    return [f"{name} {value:g}"] if is_number(value) else []
