"""Partial studies: how one is laid over another, and what a list in an entry means."""

import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Any

from fedgrid.errors import UserError, nearest

NAMING = ("name", "partition", "method")
"Keys that name a component: an entry that names another one replaces, for none of the settings would be meant."
PLACE = re.compile(r"\{([\w.]+)\}")
"What stands for a setting in a label."


def laid(study: Mapping[str, Any], over: Mapping[str, Any], where: str) -> dict[str, Any]:
    """A partial study laid `over` a study: as `lay`, but a list of names over its methods selects rows, in that order.

    Raises UserError, with the key below `where`, for a name that is no row.
    """
    result = lay(study, {key: value for key, value in over.items() if key != "methods"})
    if "methods" in over:
        result["methods"] = _methods(study.get("methods"), over["methods"], f"{where}.methods" if where else "methods")
    return result


def _methods(base: Any, over: Any, where: str) -> Any:
    rows = dict.fromkeys(base) if isinstance(base, list) else base
    if not rows:
        return over
    if isinstance(over, list):
        for name in over:
            if name not in rows:
                raise UserError(f"{where}: the study has no row '{name}'; {nearest(name, rows)}")
        return {name: rows[name] for name in over}
    # the label of a row that names no method is its method's name
    return rows | {label: lay({"method": label} | (rows.get(label) or {}), row) for label, row in over.items()}


def lay(base: Any, over: Any) -> Any:
    """`over` laid over `base`: mappings merge, a mapping over a list merges into every entry, all else replaces.

    A text such as ``cifar10`` is merged into as ``{name: cifar10}``. A mapping that names another component than the
    base replaces it, as one that names any does with a list.
    """
    if over is None and isinstance(base, Mapping):
        return base  # a row without settings of its own
    if not isinstance(over, Mapping):
        return over
    if isinstance(base, list):
        return [over] if any(key in over for key in NAMING) else [lay(entry, over) for entry in base]
    base = {"name": base} if isinstance(base, str) else base
    if not isinstance(base, Mapping) or any(key in over and over[key] != base.get(key, over[key]) for key in NAMING):
        return over
    return dict(base) | {key: lay(base[key], value) if key in base else value for key, value in over.items()}


def each(entry: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """The entries that one stands for, with what each takes from its lists, by name (``training.lr`` for a nested one).

    A list where one value is expected means each of its values; several lists mean every combination.
    """
    lists = {name: value for name, value in _flat(entry) if isinstance(value, list)}
    for values in itertools.product(*lists.values()):
        taken = dict(zip(lists, values, strict=True))
        yield _filled(entry, taken), taken


def _flat(entry: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in entry.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _filled(entry: Mapping[str, Any], taken: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    filled = {}
    for key, value in entry.items():
        name = f"{prefix}{key}"
        filled[key] = _filled(value, taken, f"{name}.") if isinstance(value, Mapping) else taken.get(name, value)
    return filled


def named(template: str, entry: Mapping[str, Any], where: str) -> str:
    """A label, in which ``{beta}`` stands for that setting of its entry; UserError for one that the entry has not."""
    values = dict(_flat(entry))

    def value(found: re.Match[str]) -> str:
        if found[1] not in values:
            raise UserError(f"{where}: {{{found[1]}}} is no setting of this entry; {nearest(found[1], values)}")
        return shown(values[found[1]])

    return PLACE.sub(value, template)


def shown(value: Any) -> str:
    """A value as a label shows it: 0.1, not 0.10000000000000001."""
    return f"{value:g}" if isinstance(value, float) else str(value)
