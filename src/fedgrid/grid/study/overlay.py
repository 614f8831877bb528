"""Partial studies: how one is laid over another, and which rows and settings change without a reader expecting it."""

from collections.abc import Iterator, Mapping
from itertools import repeat
from typing import Any

from fedgrid.errors import nearest
from fedgrid.grid.study.expansion import leaves
from fedgrid.grid.study.method_lists import Methods, listed_rows
from fedgrid.grid.study.sections import Entries, Origin, Section, StudyError

NAMING = ("name", "partition", "method")
"Keys that name a component: an entry that names another one replaces, since none of the settings would be its own."


def lay_study(base: Section, over: Section) -> Section:
    """A partial study laid `over` a study: as `lay`, but a list over its methods selects rows, in its order.

    Raises StudyError for an unknown row.
    """
    result = lay(base, over - {"methods"})
    if "methods" not in over:
        return result
    return result | {"methods": _lay_methods(base.get("methods"), over["methods"], over.origins["methods"])}


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
        return Entries(map(_lay_value, base, repeat(over), base.origins), origin, base.origins)
    if isinstance(base, str):
        base = Section({"name": base}, origin, {"name": origin})
    return lay(base, over) if isinstance(base, Section) and not _names_another(base, over) else over


def _names_another(base: Section, over: Section) -> bool:
    return any(key in base and key in over and base[key] != over[key] for key in NAMING)


def with_rows(study: Section) -> Section:
    """The study, in which `methods` is a mapping of labels to settings, whatever stands for them."""
    if "methods" not in study:
        return study
    return study | {"methods": rows_by_label(study["methods"], study.origins["methods"])}


def rows_by_label(methods: Methods, origin: Origin, known: Mapping[str, Section | None] | None = None) -> Section:
    """The rows that `methods` stands for (see `listed_rows`), each where it comes first, with its settings.

    Those of a file are laid over by those of what includes it; a row that is named needs no member of a family.
    """
    listed = list(listed_rows(methods, origin, known))
    rows: dict[str, Section | None] = dict.fromkeys(row.label for row in listed)
    origins: dict[str, Origin] = {}
    # what is named outranks a member of a family, and the study outranks what it includes
    for row in sorted(listed, key=lambda row: (not row.origin.word, -row.files)):
        rows[row.label] = _lay_row(row.label, rows[row.label], row.settings, row.origin)
        origins[row.label] = row.origin
    return Section(rows, origin, origins)


def _lay_row(label: str, base: Section | None, over: Section | None, origin: Origin) -> Section | None:
    """The settings `over` laid over those of a row, which is written at `origin`."""
    return _lay_value(named_row(label, base, origin), over, origin) if base and over else over or base


def _lay_methods(rows: Section | None, over: Methods, origin: Origin) -> Section:
    if not rows:
        return rows_by_label(over, origin)
    selecting = not isinstance(over, Section)
    changes = rows_by_label(over, origin, rows if selecting else None)
    origins = changes.origins | rows.origins
    for label, change_origin in changes.origins.items() if selecting else ():
        if label not in rows:
            problem = f"the study has no row '{label}'; {nearest(label, rows)}"
            raise StudyError(Origin(change_origin.file, change_origin.line, origin.key), problem)
    laid = {label: _lay_row(label, rows.get(label), row, origins[label]) for label, row in changes.items()}
    return Section(laid if selecting else {**rows, **laid}, origin, origins)


def named_row(label: str, row: Section | None, origin: Origin) -> Section:
    """A row of a study's methods, in which its method is named: the one that it is called like, unless it names one."""
    return Section({"method": label}, origin, {"method": origin}) | (row or {})


def added_rows(base: Section, over: Section) -> list[str]:
    """A sentence where a mapping laid over a study's methods adds rows to them; a list of names would select some."""
    known, rows = base.get("methods"), over.get("methods")
    if known is None or not isinstance(rows, Section):
        return []
    names = [str(name) for name in rows_by_label(rows, rows.origin) if name not in known]
    if not names:
        return []
    they = "it" if len(names) == 1 else "them"
    sentence = f"adds {', '.join(names)} to the {len(known)} rows of the study; to show {they} alone, list names"
    return [f"{rows.origin.label}: {sentence}"]


def overridden(base: Section, over: Section) -> Iterator[tuple[str, Origin]]:
    """Settings of a partial study that another one laid over it replaces: names, and where they are set first."""
    first = {name: (value, origin) for name, value, origin in leaves(base)}
    for name, value, _ in leaves(over):
        if name in first and first[name][0] != value:
            yield name, first[name][1]
