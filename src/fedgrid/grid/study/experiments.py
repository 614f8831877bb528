"""The experiments of a study, each with its parts: whole studies, once everything is laid over what it is meant for.

From the bottom: the study itself, the experiment, its part, the scale that is asked for, what the scale says of the
experiment. A study without experiments is one experiment without a name, of one part.
"""

import csv
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

from fedgrid.errors import UserError, nearest, reason
from fedgrid.files import check_regular, path_of
from fedgrid.grid.study.model import FULL
from fedgrid.grid.study.overlay import laid
from fedgrid.grid.study.validation import checked, located

Text = Mapping[str, Any]
OF_ALL = ("experiments", "scales", "assumed", "published")
"Keys of a study that are about its experiments, and no part of one."
ABOUT = ("title", "source", "lacks", "claims", "show", "assumed", "cells")
"Keys of an experiment that are no partial study."
COORDINATES = ("experiment", "row", "data", "heterogeneity", "domain", "metric")
"Columns of a file of printed numbers that say which number it is."
PUBLISHED = (*COORDINATES, "value", "corrected", "rank", "note")
"Columns of a file of printed numbers."


@dataclass(frozen=True)
class Described:
    """An experiment as its study describes it."""

    id: str
    about: Text
    "The study laid under it, and what it says of itself: title, source, claims, show, assumed."
    parts: list[tuple[str, Text]]
    "Whole studies, each with the place where it stands in the study's file."
    published: list[dict[str, str]]
    "The numbers that its paper prints."


def described(study: Text) -> list[Described]:
    """All experiments of a checked study, at the scale that it asks for; UserError, with the key, for a mistake."""
    scale = _scale(study)
    if "experiments" not in study:
        return [Described("", study, [("", study)], [])]
    printed = published(study["published"]) if "published" in study else []
    given = {name: text or {} for name, text in study["experiments"].items()}
    _check_known(scale.get("experiments", {}), given, f"scales.{study['scale']}.experiments")
    _check_known({row["experiment"] for row in printed}, given, str(study.get("published")))
    return [_described(name, study, text, scale, printed) for name, text in given.items()]


def chosen(study: Text, names: Iterable[str]) -> list[str]:
    """The experiments that the study's `only` asks for, of all `names`; a text may hold several, with commas."""
    asked = study.get("only") or []
    asked = [name.strip() for name in asked.split(",")] if isinstance(asked, str) else asked
    names = list(names)
    if asked and "experiments" not in study:
        raise UserError("only: the study has no experiments to choose from")
    for name in asked:
        if name not in names:
            raise UserError(f"only: there is no experiment '{name}'; {nearest(name, names)}")
    return [name for name in names if name in asked or not asked]


def published(place: str) -> list[dict[str, str]]:
    """The rows of a file of printed numbers (CSV); UserError where it cannot be read or is no such table.

    That is one in which a column is missing, a line has more or fewer fields than there are columns, or a line repeats
    the coordinates of another.
    """
    path, name = path_of(place, "published"), f"published: {place}"
    try:
        check_regular(path, name)
        with open(path, encoding="utf-8", newline="") as file:
            return list(_printed(file, name))
    except OSError as error:
        raise UserError(f"{name} cannot be read ({reason(error)})") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{name} is no CSV ({error})") from error


def _printed(lines: Iterable[str], name: str) -> Iterator[dict[str, str]]:
    """The rows of `published`, in whose sentences the file has this `name`."""
    reader = csv.reader(lines)
    header = next(reader, [])
    for column in PUBLISHED:
        if column not in header:
            raise UserError(f"{name} has no column '{column}'")
    line_of: dict[tuple[str, ...], int] = {}
    for fields in filter(None, reader):  # an empty line has no fields at all
        line = reader.line_num
        if len(fields) != len(header):
            raise UserError(f"{name}, line {line}: has {len(fields)} fields, and the header has {len(header)}")
        row = dict(zip(header, fields, strict=True))
        first = line_of.setdefault(tuple(row[column] for column in COORDINATES), line)
        if first != line:
            raise UserError(f"{name}, line {line}: has the same {', '.join(COORDINATES)} as line {first}")
        yield {column: row[column] for column in PUBLISHED}


def under_all(study: Text) -> Text:
    """The study that lies under all experiments."""
    return {key: value for key, value in study.items() if key not in OF_ALL}


def _scale(study: Text) -> Text:
    """The partial study that the scale asked for means."""
    scales, name = study.get("scales", {}), study["scale"]
    if name == FULL:
        return {}
    if name not in scales:
        raise UserError(f"scale: there is no scale '{name}'; {nearest(name, [FULL, *scales])}")
    return scales[name] or {}


def _check_known(names: Iterable[str], known: Text, where: str) -> None:
    for name in names:
        if name not in known:
            raise UserError(f"{where}: there is no experiment '{name}'; {nearest(name, known)}")


def _described(name: str, study: Text, given: Text, scale: Text, printed: list[dict[str, str]]) -> Described:
    where = f"experiments.{name}"
    base = under_all(study)
    own = laid(base, {key: value for key, value in given.items() if key not in ABOUT}, where)
    place = f"scales.{study['scale']}"
    over = [({k: v for k, v in scale.items() if k != "experiments"}, place)]
    over += [((scale.get("experiments", {}).get(name) or {}), f"{place}.experiments.{name}")]

    def scaled(text: Text) -> Text:
        return reduce(lambda under, one: laid(under, *one), over, text)

    whole = [(where, own)]
    if "cells" in given:
        whole = [(f"{where}.cells.{n}", laid(own, part, f"{where}.cells.{n}")) for n, part in enumerate(given["cells"])]
    parts = [(place, _checked(scaled(text), base, place)) for place, text in whole]
    about = dict(scaled(own)) | {key: value for key, value in given.items() if key in ABOUT}
    about |= {"assumed": {**study.get("assumed", {}), **given.get("assumed", {})}}
    return Described(name, about, parts, [row for row in printed if row["experiment"] == name])


def _checked(part: Text, base: Text, where: str) -> Text:
    """The form of a part; a mistake that stands in the study itself is told as one."""
    with located(where, lambda: checked(base)):
        return checked(part)
