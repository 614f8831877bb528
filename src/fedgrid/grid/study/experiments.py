"""The experiments of a study, each with its parts: whole studies, once everything is laid over what it is meant for.

From the bottom: the study itself, the experiment, its part, the scale that is asked for, what the scale says of the
experiment. A study without experiments is one experiment without a name, of one part.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

from fedgrid.errors import nearest
from fedgrid.grid.study.model import FULL
from fedgrid.grid.study.nodes import Node, Origin
from fedgrid.grid.study.overlay import added_rows, by_label, lay_study, overridden
from fedgrid.grid.study.printed import read_printed
from fedgrid.grid.study.validation import check_study

OF_ALL = ("experiments", "scales", "assumed", "published")
"Keys of a study that are about its experiments, and not part of one."
ABOUT = ("title", "source", "lacks", "claims", "show", "assumed", "cells")
"Keys of an experiment that are no partial study."


@dataclass(frozen=True)
class Laid:
    """An experiment with everything laid over its study."""

    id: str
    about: Node
    "The study laid under it, and what it says of itself."
    parts: list[Node]
    "Whole studies, checked."
    published: list[dict[str, str]]
    "The numbers that its paper prints."
    added: list[str]
    "A sentence for each mapping that adds rows."
    replaced: list[tuple[str, Origin]]
    "Settings of its own that the scale replaces: name, and where they are set."


def lay_experiments(study: Node) -> list[Laid]:
    """All experiments of a checked study, at the scale that it asks for; UserError, with its place, for a mistake."""
    scale = _scale(study)
    experiments = study.get("experiments")
    if experiments is None:
        return [Laid("", study, [study], [], [], [])]
    printed = _printed(study, experiments)
    if named := scale.get("experiments"):
        for name, node in named.mapping.items():
            _check_known(name, experiments, node)
    return [
        _laid(name, study, node, scale, [row for row in printed if row["experiment"] == name])
        for name, node in experiments.mapping.items()
    ]


def choose(asked: Node | None, ids: Iterable[str]) -> tuple[str, ...]:
    """The experiments that a study's `only` asks for, of all `ids`; a text may hold several, with commas."""
    if asked is None or not asked.value:
        return ()
    names = [name.strip() for name in asked.value.split(",")] if isinstance(asked.value, str) else asked.plain
    known = list(ids)
    if known == [""]:
        raise asked.origin.mistake("the study has no experiments to choose from")
    for name in names:
        if name not in known:
            raise asked.origin.mistake(f"there is no experiment '{name}'; {nearest(name, known)}")
    return tuple(name for name in known if name in names)


def _scale(study: Node) -> Node:
    """The partial study that the scale asked for means."""
    scales, name = study.get("scales") or Node({}), study.at("scale")
    if name == FULL:
        return Node({})
    if name not in scales.mapping:
        known = nearest(name, [FULL, *scales.mapping])
        raise study.origin_of("scale").mistake(f"there is no scale '{name}'; {known}")
    scale = scales.mapping[name]
    return Node(scale.mapping, scale.origin)


def _printed(study: Node, experiments: Node) -> list[dict[str, str]]:
    """The rows of the study's printed numbers; none where it names no file."""
    file = study.get("published")
    if file is None:
        return []
    with file.origin.located():
        rows = read_printed(file.plain)
    for name in dict.fromkeys(row["experiment"] for row in rows):
        if name not in experiments.mapping:
            known = nearest(name, experiments.mapping)
            raise file.origin.mistake(f"{file.plain}: there is no experiment '{name}'; {known}")
    return rows


def _check_known(name: str, experiments: Node, node: Node) -> None:
    if name not in experiments.mapping:
        raise node.origin.mistake(f"there is no experiment '{name}'; {nearest(name, experiments.mapping)}")


def _laid(name: str, study: Node, given: Node, scale: Node, printed: list[dict[str, str]]) -> Laid:
    base, over = study.without(*OF_ALL), given.without(*ABOUT)
    own = lay_study(base, over)
    of_scale = (scale.get("experiments") or Node({})).get(name) or Node({})
    scales = [scale.without("experiments"), Node(of_scale.mapping, of_scale.origin)]

    def scaled(part: Node) -> Node:
        return reduce(lay_study, scales, part)

    cells = given.get("cells")
    overs = [] if cells is None else cells.items
    parts = [own] if cells is None else [lay_study(own, part) for part in overs]
    origins = [given.origin] if cells is None else [part.origin for part in overs]
    checked = [check_study(scaled(part)) for part in parts]
    about = scaled(own).updated({key: node for key, node in given.mapping.items() if key in ABOUT})
    assumed = {**(study.get("assumed") or Node({})).mapping, **(given.get("assumed") or Node({})).mapping}
    about = about.updated({"assumed": Node(assumed, given.origin)})
    placed = [Node(part.value, origin) for part, origin in zip(checked, origins, strict=True)]
    added = [sentence for pair in [(base, over), *((own, part) for part in overs)] for sentence in _added(*pair)]
    replaced = [one for of_scale in scales for part in (over, *overs) for one in overridden(part, of_scale)]
    return Laid(name, about, placed, printed, added, replaced)


def _added(base: Node, over: Node) -> list[str]:
    """A sentence where a mapping adds rows to those of what it is laid over; a list would select some."""
    names = added_rows(base, over)
    if not names:
        return []
    rows, they = len(by_label(base.mapping["methods"])), "it" if len(names) == 1 else "them"
    added = f"adds {', '.join(names)} to the {rows} rows of the study; to show {they} alone, list names"
    return [f"{over.origin_of('methods').label}: {added}"]


def notices(experiments: Iterable[Laid], scale: str) -> tuple[str, ...]:
    """What a reader of the file might not expect: rows that are added, and settings that the scale replaces."""
    experiments = list(experiments)
    ids: dict[str, dict[str, None]] = {}
    places: dict[str, dict[str, None]] = {}
    for one in experiments:
        for name, origin in one.replaced:
            ids.setdefault(name, {})[one.id] = None
            places.setdefault(name, {})[origin.place] = None
    replaced = [
        f"scale '{scale}' replaces {name} of {', '.join(ids[name])} (set in {', '.join(places[name])})" for name in ids
    ]
    return (*(sentence for one in experiments for sentence in one.added), *replaced)
