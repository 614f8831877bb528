"""A paper's printed numbers, as a CSV file beside its study."""

from fedgrid.errors import UserError, nearest
from fedgrid.files import path_of, read_csv
from fedgrid.grid.study.sections import Section, StudyError, located

COORDINATES = ("experiment", "row", "data", "heterogeneity", "domain", "metric")
"Columns that say which number it is."
COLUMNS = (*COORDINATES, "value", "corrected", "rank", "note")


def printed_numbers(study: Section) -> dict[str, list[dict[str, str]]]:
    """By experiment, the rows of the study's file of printed numbers; none where it names no file."""
    if "published" not in study or "experiments" not in study:
        return {}
    file, origin, experiments = printed_file(study), study.origins["published"], study["experiments"]
    with located(origin):
        rows = read_printed(file)
    by_experiment: dict[str, list[dict[str, str]]] = {}
    for row in rows:
        by_experiment.setdefault(row["experiment"], []).append(row)
    for name in by_experiment:
        if name not in experiments:
            raise StudyError(origin, f"{file}: no experiment '{name}'; {nearest(name, experiments)}")
    return by_experiment


def printed_file(study: Section) -> str:
    """The path of the study's file of printed numbers from the working folder; empty where it names none."""
    return str(study.with_input_path("published").get("published", ""))


def read_printed(text: str) -> list[dict[str, str]]:
    """The rows of a file of printed numbers (CSV).

    Raises UserError where it cannot be read, lacks a column, a line has more or fewer fields than there are columns,
    or a line repeats the coordinates of another.
    """
    name = f"published: {text}"
    lines = read_csv(path_of(text, "published"), name)
    header = next(lines, (1, list[str]()))[1]
    for column in COLUMNS:
        if column not in header:
            raise UserError(f"{name} has no column '{column}'")
    line_of: dict[tuple[str, ...], int] = {}
    rows = []
    for line, fields in lines:
        if len(fields) != len(header):
            raise UserError(f"{name}, line {line}: has {len(fields)} fields, and the header has {len(header)}")
        row = dict(zip(header, fields, strict=True))
        first = line_of.setdefault(tuple(row[column] for column in COORDINATES), line)
        if first != line:
            raise UserError(f"{name}, line {line}: has the same {', '.join(COORDINATES)} as line {first}")
        rows.append({column: row[column] for column in COLUMNS})
    return rows
