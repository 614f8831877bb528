"""The experiments of a study, each with its parts: complete studies, once everything is laid over its base.

From the bottom: the study itself, the experiment, its part, the scale of the run, what the scale says about the
experiment. A scale may leave experiments out, and replace the parts of one. A study without experiments is one
experiment without a name, of one part.
"""

from dataclasses import dataclass
from functools import reduce

from fedgrid.errors import nearest
from fedgrid.grid.study.forms import StudyFile
from fedgrid.grid.study.model import FULL
from fedgrid.grid.study.overlay import added_rows, lay_study, overridden, with_rows
from fedgrid.grid.study.sections import Entries, Origin, Section, StudyError

OF_ALL = ("experiments", "scales", "assumed", "published")
"Keys of a study that are about its experiments, and not part of one."
ABOUT = ("title", "source", "lacks", "claims", "show", "assumed", "cells")
"Keys of an experiment that are no partial study."


@dataclass(frozen=True)
class LaidExperiment:
    """An experiment with everything laid over its study."""

    id: str
    about: Section
    "The experiment's own keys, such as its title, over the study at the scale of the run."
    parts: list[Section]
    "Complete studies, at the scale of the run."
    added_rows: list[str]
    "A sentence for each mapping that adds rows."
    replaced: list[tuple[str, Origin]]
    "Settings of the experiment that the scale replaces: name, and where they are set."


def lay_experiments(file: StudyFile) -> tuple[list[LaidExperiment], tuple[str, ...]]:
    """All experiments of a checked study, at the scale that it asks for, and sentences about what may surprise.

    Raises StudyError for a scale or an experiment that does not exist, and for rows that the study lacks.
    """
    scale, study = _scale(file), with_rows(file.section)
    if file.experiments is None:
        return [LaidExperiment("", study, [study], [], [])], ()
    experiments = study["experiments"]
    chosen = _experiments_of(scale, experiments)
    laid = [_laid(name, study, experiments[name] or Section((), experiments.origins[name]), scale) for name in chosen]
    return laid, _notices(laid, file.scale)


def _experiments_of(scale: Section, experiments: Section) -> list[str]:
    """The experiments that are there at a scale: those of its `only`, or all."""
    scaled, only = scale.get("experiments") or Section(), scale.get("only", Entries())
    for name, origin in (*((name, scaled.origins[name]) for name in scaled), *zip(only, only.origins, strict=True)):
        if name not in experiments:
            raise StudyError(origin, f"no experiment '{name}'; {nearest(name, experiments)}")
    return [name for name in experiments if name in only or not only]


def _scale(file: StudyFile) -> Section:
    """The partial study behind the name of the scale."""
    if file.scale == FULL:
        return Section()
    if file.scale not in file.scales:
        problem = f"no scale '{file.scale}'; {nearest(file.scale, [FULL, *file.scales])}"
        raise StudyError(file.section.origins["scale"], problem)
    return file.section["scales"][file.scale] or Section()


def _laid(name: str, study: Section, text: Section, scale: Section) -> LaidExperiment:
    """The experiment of a `text`, with its study under it and the scale over it."""
    base, over = study - OF_ALL, text - ABOUT
    experiment = lay_study(base, over)
    of_scale: Section = (scale.get("experiments") or {}).get(name) or Section()
    scales = [scale - {"experiments", "only"}, of_scale - {"cells"}]

    def scaled(part: Section) -> Section:
        return reduce(lay_study, scales, part)

    overs: list[Section] = text.get("cells", [])
    parts = [(part.origin, scaled(lay_study(experiment, part))) for part in overs]
    if "cells" not in text:
        parts = [(text.origin, scaled(experiment))]
    overs_of_scale: list[Section] = of_scale.get("cells", [])
    if "cells" in of_scale:  # in place of the experiment's, and the scale is under them
        overs, parts = [], [(part.origin, lay_study(scaled(experiment), part)) for part in overs_of_scale]
    about = Section({key: text[key] for key in ABOUT if key in text}, text.origin, text.origins)
    assumed = (study.get("assumed") or Section()) | (text.get("assumed") or {})
    pairs = [(base, over), *((experiment, part) for part in (*overs, *overs_of_scale))]
    return LaidExperiment(
        id=name,
        about=scaled(experiment) | about | {"assumed": assumed},
        parts=[Section(part, origin, part.origins) for origin, part in parts],
        added_rows=[sentence for pair in pairs for sentence in added_rows(*pair)],
        replaced=[setting for top in scales for part in (over, *overs) for setting in overridden(part, top)],
    )


def _notices(experiments: list[LaidExperiment], scale: str) -> tuple[str, ...]:
    """What a reader of the file might not expect: rows that are added, and settings that the scale replaces."""
    sentences = [sentence for experiment in experiments for sentence in experiment.added_rows]
    replaced: dict[str, list[tuple[str, str]]] = {}
    for experiment in experiments:
        for name, origin in experiment.replaced:
            replaced.setdefault(name, []).append((experiment.id, origin.position))
    for name, pairs in replaced.items():
        ids, positions = (", ".join(dict.fromkeys(texts)) for texts in zip(*pairs, strict=True))
        sentences.append(f"scale '{scale}' replaces {name} of {ids} (set in {positions})")
    return tuple(sentences)
