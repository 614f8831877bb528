"""The numbers that a paper prints, as a CSV file beside its study."""

import csv
from collections.abc import Iterable, Iterator

from fedgrid.errors import UserError, nearest, reason
from fedgrid.files import check_regular, path_of
from fedgrid.grid.study.nodes import Node

COORDINATES = ("experiment", "row", "data", "heterogeneity", "domain", "metric")
"Columns that say which number it is."
COLUMNS = (*COORDINATES, "value", "corrected", "rank", "note")


def printed_numbers(study: Node) -> dict[str, list[dict[str, str]]]:
    """By experiment, the rows of the study's file of printed numbers; none where it names no file."""
    file, experiments = study.get("published"), study.get("experiments")
    if file is None or experiments is None:
        return {}
    with file.origin.located():
        rows = read_printed(file.plain)
    by_experiment: dict[str, list[dict[str, str]]] = {}
    for row in rows:
        by_experiment.setdefault(row["experiment"], []).append(row)
    for name in by_experiment:
        if name not in experiments.mapping:
            known = nearest(name, experiments.mapping)
            raise file.origin.mistake(f"{file.plain}: there is no experiment '{name}'; {known}")
    return by_experiment


def read_printed(place: str) -> list[dict[str, str]]:
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
    """The rows of `read_printed`, in whose sentences the file has this `name`."""
    reader = csv.reader(lines)
    header = next(reader, [])
    for column in COLUMNS:
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
        yield {column: row[column] for column in COLUMNS}
