"""External results as a row of the tables: ``theirs: {results: file.csv, title: …}`` in a study's methods.

The file is a CSV table with the columns data, heterogeneity and seed, and either client and value or mean: accuracies,
fractions of 1. It may also have round, and partition: the digest of the partition's rows that ``fedgrid inspect``
prints.
"""

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedgrid.data.sources.digests import digest
from fedgrid.errors import UserError, nearest
from fedgrid.files import path_of, read_csv
from fedgrid.grid.study.sections import Section, StudyError, located

RESULTS = "results"
"The key of the file in a row of a study's methods."
ALLOWED = ("method", RESULTS, "title")
"Keys of such a row; its method is its label."
NAMES = ("data", "heterogeneity", "seed")
COLUMNS = (*NAMES, "client", "value", "mean", "round", "partition")
MARK = " (external)"
"Behind the printed name of such a row."
SHORTEST = 16
"Digits that a digest of a partition has at least."


@dataclass(frozen=True)
class ExternalRow:
    """A row of the tables whose numbers come from a file."""

    label: str
    title: str
    path: str
    digest: str
    "SHA-256 of the file."
    position: int
    "How many rows of its part of the study come before it."

    @property
    def origin(self) -> str:
        """The file and its digest, for captions."""
        return f"{Path(self.path).name}, SHA-256 {self.digest[:16]}"

    def key_of(self, *position: str | int) -> str:
        """What stands for the key of its cell at a position of the table."""
        return hashlib.sha256(json.dumps([self.digest, *position]).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class ExternalScore:
    """One accuracy of a file."""

    line: int
    data: str
    heterogeneity: str
    seed: int
    value: float
    client: int | None = None
    "None: the mean over clients."
    round: int | None = None
    partition: str = ""

    @property
    def column(self) -> tuple[str, str]:
        """The data set and heterogeneity, as the file names them."""
        return self.data, self.heterogeneity


def is_external(entry: Section | None) -> bool:
    """Whether an entry of a study's methods is a row of external results."""
    return bool(entry) and isinstance(entry, Section) and RESULTS in entry


def external_row(label: str, entry: Section, position: int) -> ExternalRow:
    """The row that an entry describes; StudyError for keys that it may not have, and for a wrong file."""
    origin, problem = entry.origins[RESULTS], f"a row with '{RESULTS}' is not trained here; it takes a title besides"
    for key in entry:
        if key not in ALLOWED or (key == "method" and entry[key] != label):
            raise StudyError(entry.origins[key], problem)
    with located(origin):
        path = origin.input_path(entry[RESULTS])
        file = path_of(path, RESULTS)
        read_scores(file)
        return ExternalRow(label, entry.get("title", label) + MARK, path, digest(file), position)


def read_scores(file: Path) -> list[ExternalScore]:
    """The accuracies in a file; UserError, which names its line, for any other content."""
    if not file.exists():
        raise UserError(f"there is no file {file}")
    rows = read_csv(file, str(file))
    names = next(rows, (1, []))[1]
    _check_columns(names, file)
    scores: dict[tuple[object, ...], ExternalScore] = {}
    for line, values in rows:
        if len(values) != len(names):
            raise UserError(f"{file}, line {line}: has {len(values)} values for {len(names)} columns")
        score = _score(dict(zip(names, values, strict=True)), line, f"{file}, line {line}")
        same = scores.setdefault((*score.column, score.seed, score.round, score.client), score)
        if same is not score:
            raise UserError(f"{file}, line {line}: duplicates line {same.line}")
    if not scores:
        raise UserError(f"{file}: has no rows")
    return [*scores.values()]


def planned_scores(row: ExternalRow) -> list[ExternalScore]:
    """The accuracies of a row; UserError where its file is not the one that the study was planned with."""
    file = path_of(row.path, RESULTS)
    scores = read_scores(file)
    if digest(file) != row.digest:
        raise UserError(f"{file}: edited since planning; run the same command again")
    return scores


def _check_columns(names: Sequence[str], file: Path) -> None:
    for name in names:
        if name not in COLUMNS:
            raise UserError(f"{file}: unknown column '{name[:40]}'; {nearest(name, COLUMNS)}")
        if names.count(name) > 1:
            raise UserError(f"{file}: duplicate column '{name}'")
    for name in NAMES:
        if name not in names:
            raise UserError(f"{file}: the column '{name}' is missing; it needs {', '.join(NAMES)} and the accuracies")
    if ("mean" in names) == ("value" in names):
        raise UserError(f"{file}: needs the accuracies as client and value, or as mean, and not both")
    if ("client" in names) != ("value" in names):
        raise UserError(f"{file}: needs client and value together, or mean alone")


def _score(values: Mapping[str, str], line: int, where: str) -> ExternalScore:
    partition = values.get("partition", "").lower()
    if partition and not re.fullmatch(rf"[0-9a-f]{{{SHORTEST},64}}", partition):
        what = f"the digest that fedgrid inspect prints, of {SHORTEST} digits at least"
        raise UserError(f"{where}: partition '{partition[:70]}' is not {what}")
    for name in ("data", "heterogeneity"):
        if not values[name]:
            raise UserError(f"{where}: has no {name}")
    whole = {name: _whole(values[name], name, where) for name in ("seed", "client", "round") if name in values}
    accuracy = _accuracy(values.get("mean", values.get("value", "")), where)
    return ExternalScore(line, values["data"], values["heterogeneity"], value=accuracy, partition=partition, **whole)


def _whole(text: str, name: str, where: str) -> int:
    if not re.fullmatch(r"\d{1,9}", text, re.ASCII):
        raise UserError(f"{where}: {name} '{text[:40]}' is not a whole number from 0")
    return int(text)


def _accuracy(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1:
        hint = "; divide percentages by 100" if 1 < value <= 100 else ""
        raise UserError(f"{where}: '{text[:40]}' is not an accuracy, a number from 0 to 1{hint}")
    return value
