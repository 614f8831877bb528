"""What the lists of an entry mean: one entry for each combination of their values, and labels that show them."""

import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Any

from fedgrid.errors import nearest
from fedgrid.grid.study.sections import Entries, Origin, Section, StudyError

SETTING = re.compile(r"\{([\w.]+)\}")
"A setting in a label, as in ``Dirichlet {beta}``."
TRAINING = "training."
"What the name of a setting of training begins with, beside hyperparameters."


def expand(entry: Section) -> Iterator[tuple[Section, dict[str, Any]]]:
    """The entries that one with lists stands for, each with the values that it takes from them, by setting.

    A list where one value is expected means each of its values; several lists mean every combination. A nested setting
    is called ``training.lr``. Raises StudyError for a list without values.
    """
    lists = {name: (value, origin) for name, value, origin in leaves(entry) if isinstance(value, Entries)}
    for values, origin in lists.values():
        if not values:
            raise StudyError(origin, "a list of values must not be empty")
    choices = [list(zip(values, values.origins, strict=True)) for values, _ in lists.values()]
    for combination in itertools.product(*choices):
        taken = dict(zip(lists, combination, strict=True))
        yield _filled(entry, taken), {name: value for name, (value, _) in taken.items()}


def leaves(entry: Section, prefix: str = "") -> Iterator[tuple[str, Any, Origin]]:
    """The values of an entry that are no mappings: name, value, origin."""
    for key, value in entry.items():
        if isinstance(value, Section):
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value, entry.origins[key]


def _filled(entry: Section, taken: Mapping[str, tuple[Any, Origin]], prefix: str = "") -> Section:
    values, origins = {}, {}
    for key, value in entry.items():
        name = f"{prefix}{key}"
        below = (_filled(value, taken, f"{name}."), value.origin) if isinstance(value, Section) else None
        values[key], origins[key] = below or taken.get(name, (value, entry.origins[key]))
    return Section(values, entry.origin, origins)


def fill_label(template: str, entry: Section, origin: Origin) -> str:
    """A label, in which ``{beta}`` stands for that setting of its entry; StudyError for one that the entry lacks."""
    settings = {name: value for name, value, _ in leaves(entry)}

    def setting(match: re.Match[str]) -> str:
        if match[1] not in settings:
            raise StudyError(origin, f"{{{match[1]}}} is no setting of this entry; {nearest(match[1], settings)}")
        return shown(settings[match[1]])

    return SETTING.sub(setting, template)


def shown(value: Any) -> str:
    """A value as a label shows it: 0.1, not 0.10000000000000001."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def point_text(settings: Mapping[str, Any]) -> str:
    """Settings by name as a sentence has them: ``mu = 0.1, lr = 0.05``."""
    return ", ".join(f"{name.removeprefix(TRAINING)} = {shown(value)}" for name, value in settings.items())
