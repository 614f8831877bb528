"""Partial studies: how one is laid over another, and which rows and settings change without a reader expecting it."""

from collections.abc import Iterator
from typing import Any

from fedgrid.errors import nearest
from fedgrid.grid.study.expansion import leaves
from fedgrid.grid.study.sections import Entries, Origin, Section, StudyError

NAMING = ("name", "partition", "method")
"Keys that name a component: an entry that names another one replaces, since none of the settings would be its own."


def lay_study(base: Section, over: Section) -> Section:
    """A partial study laid `over` a study: as `lay`, but a list of names over its methods selects rows, in that order.

    Raises StudyError for an unknown row.
    """
    result = lay(base, over - {"methods"})
    return result | {"methods": _lay_methods(base.get("methods"), over["methods"])} if "methods" in over else result


def lay(base: Section, over: Section) -> Section:
    """`over` laid over `base`: mappings merge, a mapping over a list merges into every entry, all else replaces.

    A text such as ``cifar10`` is merged into as ``{name: cifar10}``. A mapping that names another component than the
    base replaces it, as one that names any does with a list. A merged mapping keeps the origin of its base.
    """
    in_both = {key: _lay_value(base[key], value, base.origins[key]) for key, value in over.items() if key in base}
    return base | over | in_both


def _lay_value(base: Any, over: Any, origin: Origin) -> Any:
    """One value laid over another, which is written at `origin`."""
    if over is None and isinstance(base, Section):
        return base  # a row without settings of its own
    if not isinstance(over, Section):
        return over
    if isinstance(base, Entries):
        if any(key in over for key in NAMING):
            return Entries([over], origin)
        pairs = zip(base, base.origins, strict=True)
        return Entries(
            [_lay_value(entry, over, origin_of_entry) for entry, origin_of_entry in pairs], origin, base.origins
        )
    if isinstance(base, str):
        base = Section({"name": base}, origin, {"name": origin})
    return lay(base, over) if isinstance(base, Section) and not _names_another(base, over) else over


def _names_another(base: Section, over: Section) -> bool:
    return any(key in base and key in over and base[key] != over[key] for key in NAMING)


def by_label(methods: Section | Entries) -> Section:
    """The rows of a study's methods by label; those of a list of names have no settings of their own."""
    if isinstance(methods, Section):
        return methods
    return Section(dict.fromkeys(methods), methods.origin, dict(zip(methods, methods.origins, strict=True)))


def _lay_methods(base: Section | Entries | None, over: Section | Entries) -> Section | Entries:
    if not base:
        return over
    rows = by_label(base)
    if isinstance(over, Entries):
        for name, origin in zip(over, over.origins, strict=True):
            if name not in rows:
                origin = Origin(origin.file, origin.line, over.origin.key)
                raise StudyError(origin, f"the study has no row '{name}'; {nearest(name, rows)}")
        return Section({name: rows[name] for name in over}, over.origin, rows.origins)
    laid = {}
    for label, row in over.items():
        origin = rows.origins.get(label, over.origins[label])
        laid[label] = _lay_value(named_row(label, rows.get(label), origin), row, origin)
    return Section({**rows, **laid}, over.origin, rows.origins)


def named_row(label: str, row: Section | None, origin: Origin) -> Section:
    """A row of a study's methods, in which its method is named: the one that it is called like, unless it names one."""
    return Section({"method": label}, origin, {"method": origin}) | (row or {})


def added_rows(base: Section, over: Section) -> list[str]:
    """A sentence where a mapping laid over a study's methods adds rows to them; a list of names would select some."""
    known, rows = base.get("methods"), over.get("methods")
    if known is None or not isinstance(rows, Section):
        return []
    labels = by_label(known)
    names = [str(name) for name in rows if name not in labels]
    if not names:
        return []
    they = "it" if len(names) == 1 else "them"
    sentence = f"adds {', '.join(names)} to the {len(labels)} rows of the study; to show {they} alone, list names"
    return [f"{rows.origin.label}: {sentence}"]


def overridden(base: Section, over: Section) -> Iterator[tuple[str, Origin]]:
    """Settings of a partial study that another one laid over it replaces: names, and where they are set first."""
    first = {name: (value, origin) for name, value, origin in leaves(base)}
    for name, value, _ in leaves(over):
        if name in first and first[name][0] != value:
            yield name, first[name][1]
