"""Partial studies: how one is laid over another, and what a list in an entry means."""

import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Any

from fedgrid.errors import nearest
from fedgrid.grid.study.nodes import Node, Origin

NAMING = ("name", "partition", "method")
"Keys that name a component: an entry that names another one replaces, since none of the settings would be its own."
SETTING = re.compile(r"\{([\w.]+)\}")
"A setting in a label, as in ``Dirichlet {beta}``."


def lay_study(base: Node, over: Node) -> Node:
    """A partial study laid `over` a study: as `lay`, but a list of names over its methods selects rows, in that order.

    Raises UserError for a name that is no row.
    """
    result = lay(base, over.without("methods"))
    if rows := over.get("methods"):
        result = result.updated({"methods": _lay_methods(base.get("methods"), rows)})
    return result


def added_rows(base: Node, over: Node) -> list[str]:
    """A sentence where a mapping laid over a study's methods adds rows to them; a list of names would select some."""
    known, rows = base.get("methods"), over.get("methods")
    if known is None or rows is None or not isinstance(rows.value, dict):
        return []
    names = [str(name) for name in rows.value if name not in by_label(known)]
    if not names:
        return []
    count, they = len(by_label(known)), "it" if len(names) == 1 else "them"
    sentence = f"adds {', '.join(names)} to the {count} rows of the study; to show {they} alone, list names"
    return [f"{rows.origin.label}: {sentence}"]


def by_label(methods: Node) -> dict[Any, Node]:
    """The rows of a study's methods by label; a list of names has rows without settings of their own."""
    if isinstance(methods.value, dict):
        return methods.value
    return {node.plain: Node(None, node.origin) for node in methods.items}


def _lay_methods(base: Node | None, over: Node) -> Node:
    rows = by_label(base) if base is not None else {}
    if not rows:
        return over
    if isinstance(over.value, list):
        for name in over.items:
            if name.plain not in rows:
                origin = Origin(name.origin.file, name.origin.line, over.origin.key)
                raise origin.mistake(f"the study has no row '{name.plain}'; {nearest(name.plain, rows)}")
        return Node({name.plain: rows[name.plain] for name in over.items}, over.origin)
    return Node(rows | {label: _lay_row(label, rows.get(label), row) for label, row in over.value.items()}, over.origin)


def _lay_row(label: Any, base: Node | None, over: Node) -> Node:
    """A row laid over one of the same label, which is its method's name where it names none."""
    base = base or Node(None, over.origin)
    return lay(Node({"method": Node(label, base.origin), **base.mapping}, base.origin), over)


def lay(base: Node, over: Node) -> Node:
    """`over` laid over `base`: mappings merge, a mapping over a list merges into every entry, all else replaces.

    A text such as ``cifar10`` is merged into as ``{name: cifar10}``. A mapping that names another component than the
    base replaces it, as one that names any does with a list. A merged mapping keeps the origin of its base.
    """
    if over.value is None and isinstance(base.value, dict):
        return base  # a row without settings of its own
    if not isinstance(over.value, dict):
        return over
    if isinstance(base.value, list):
        names_one = any(key in over.value for key in NAMING)
        return Node([over] if names_one else [lay(entry, over) for entry in base.items], base.origin)
    if isinstance(base.value, str):
        base = Node({"name": base}, base.origin)
    if not isinstance(base.value, dict) or _names_another(base, over):
        return over
    return base.updated(
        {key: lay(base.value[key], node) if key in base.value else node for key, node in over.value.items()}
    )


def _names_another(base: Node, over: Node) -> bool:
    return any(key in over.value and over.at(key) != base.at(key) for key in NAMING if key in base.value)


def each(entry: Node) -> Iterator[tuple[Node, dict[str, Any]]]:
    """The entries that one stands for, with what each takes from its lists, by name (``training.lr`` for a nested one).

    A list where one value is expected means each of its values; several lists mean every combination.
    """
    lists = {name: node.items for name, node in leaves(entry) if isinstance(node.value, list)}
    for values in itertools.product(*lists.values()):
        taken = dict(zip(lists, values, strict=True))
        yield _filled(entry, taken), {name: node.plain for name, node in taken.items()}


def leaves(entry: Node, prefix: str = "") -> Iterator[tuple[str, Node]]:
    """The values of an entry that are no mappings, by name."""
    for key, node in entry.mapping.items():
        if isinstance(node.value, dict):
            yield from leaves(node, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", node


def _filled(entry: Node, taken: Mapping[str, Node], prefix: str = "") -> Node:
    filled = {}
    for key, node in entry.mapping.items():
        name = f"{prefix}{key}"
        filled[key] = _filled(node, taken, f"{name}.") if isinstance(node.value, dict) else taken.get(name, node)
    return Node(filled, entry.origin)


def fill_label(template: Node, entry: Node) -> str:
    """A label, in which ``{beta}`` stands for that setting of its entry; UserError for one that the entry has not."""
    settings = {name: node.plain for name, node in leaves(entry)}

    def value(match: re.Match[str]) -> str:
        if match[1] not in settings:
            raise template.origin.mistake(f"{{{match[1]}}} is no setting of this entry; {nearest(match[1], settings)}")
        return shown(settings[match[1]])

    return SETTING.sub(value, template.plain)


def shown(value: Any) -> str:
    """A value as a label shows it: 0.1, not 0.10000000000000001."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def overridden(base: Node, over: Node) -> Iterator[tuple[str, Origin]]:
    """Settings of a partial study that another one laid over it replaces: names, and where they are set first."""
    set_first = dict(leaves(base))
    for name, node in leaves(over):
        before = set_first.get(name)
        if before is not None and before.plain != node.plain:
            yield name, before.origin
