"""The experiments of a study, each with its parts: whole studies, once everything is laid over what it is meant for.

From the bottom: the study itself, the experiment, its part, the scale that is asked for, what the scale says of the
experiment. A study without experiments is one experiment without a name, of one part.
"""

from dataclasses import dataclass
from functools import reduce

from fedgrid.errors import nearest
from fedgrid.grid.study.model import FULL
from fedgrid.grid.study.nodes import Node, Origin
from fedgrid.grid.study.overlay import added_rows, lay_study, overridden

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
    "Whole studies, at the scale that is asked for."
    added: list[str]
    "A sentence for each mapping that adds rows."
    replaced: list[tuple[str, Origin]]
    "Settings of its own that the scale replaces: name, and where they are set."


def lay_experiments(study: Node) -> tuple[list[Laid], tuple[str, ...]]:
    """All experiments of a checked study, at the scale that it asks for, and what of them might not be expected.

    Raises UserError, with its place, for a mistake.
    """
    scale = _scale(study)
    experiments = study.get("experiments")
    if experiments is None:
        return [Laid("", study, [study], [], [])], ()
    if named := scale.get("experiments"):
        for name, node in named.mapping.items():
            _check_known(name, experiments, node)
    laid = [_laid(name, study, node, scale) for name, node in experiments.mapping.items()]
    return laid, _notices(laid, study.at("scale"))


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


def _check_known(name: str, experiments: Node, node: Node) -> None:
    if name not in experiments.mapping:
        raise node.origin.mistake(f"there is no experiment '{name}'; {nearest(name, experiments.mapping)}")


def _laid(name: str, study: Node, given: Node, scale: Node) -> Laid:
    base, over = study.without(*OF_ALL), given.without(*ABOUT)
    own = lay_study(base, over)
    of_scale = (scale.get("experiments") or Node({})).get(name) or Node({})
    scales = [scale.without("experiments"), Node(of_scale.mapping, of_scale.origin)]

    def scaled(part: Node) -> Node:
        return reduce(lay_study, scales, part)

    cells = given.get("cells")
    overs = [] if cells is None else cells.items
    parts = [(given.origin, own)] if cells is None else [(part.origin, lay_study(own, part)) for part in overs]
    added = [sentence for pair in [(base, over), *((own, part) for part in overs)] for sentence in added_rows(*pair)]
    replaced = [one for of_scale in scales for part in (over, *overs) for one in overridden(part, of_scale)]
    about = scaled(own).updated({key: node for key, node in given.mapping.items() if key in ABOUT})
    assumed = {**(study.get("assumed") or Node({})).mapping, **(given.get("assumed") or Node({})).mapping}
    about = about.updated({"assumed": Node(assumed, given.origin)})
    return Laid(name, about, [Node(scaled(part).value, origin) for origin, part in parts], added, replaced)


def _notices(experiments: list[Laid], scale: str) -> tuple[str, ...]:
    """What a reader of the file might not expect: rows that are added, and settings that the scale replaces."""
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
