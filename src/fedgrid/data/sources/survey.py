"""One pass over the rows of a data set: what they have in common, their names, and a digest of what was read."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fedgrid.data.common.images import PARTS
from fedgrid.data.sources.samples import Found, Reader
from fedgrid.data.sources.splits import Rows
from fedgrid.errors import UserError

MOST = 2**15 - 1
"Classes or domains that the store's files can number."


@dataclass(frozen=True)
class Columns:
    """Which columns say what of a sample beside the sample itself."""

    label: str
    domain: str = ""
    kept: tuple[str, ...] = ()

    def all_with(self, reader: Reader) -> list[str]:
        """Every column that is read, once."""
        return [*dict.fromkeys((*reader.columns, self.label, *self.named))]

    @property
    def named(self) -> tuple[str, ...]:
        """Those of values that are names: all but the label."""
        return tuple(dict.fromkeys((*([self.domain] if self.domain else ()), *self.kept)))


@dataclass(frozen=True)
class Survey:
    """What a pass over all rows finds."""

    counts: Mapping[str, int]
    "Rows of each part."
    classes: tuple[str, ...]
    names: Mapping[str, list[str]]
    "The different values of the domain's column and of those that are kept, in all parts, sorted."
    found: Found
    digest: str
    "Of everything that was read."

    @classmethod
    def of_plain(cls, values: Mapping[str, Any]) -> "Survey":
        """The survey that `plain` gave."""
        found = values["found"]
        tuples = {name: tuple(found[name]) for name in ("shape", "vocabulary", "mean", "std")}
        rest = {"classes": tuple(values["classes"]), "found": Found(**(found | tuples))}
        return cls(**(dict(values) | rest))

    def plain(self) -> dict[str, Any]:
        """As plain values, for a file."""
        return asdict(self)


def survey(parts: Mapping[str, Rows], reader: Reader, columns: Columns) -> Survey:
    """Looks at all rows of all parts, the training part first; UserError for one that cannot be read."""
    total = hashlib.sha256()
    labels: dict[str, set[str]] = {part: set() for part in parts}
    names: dict[str, set[str]] = {name: set() for name in columns.named}
    for part, rows in parts.items():
        total.update(json.dumps([part, len(rows), rows.classes(columns.label)]).encode())
        for first, table in rows.batches(columns.all_with(reader)):
            try:
                reader.look(table, first, training=part == "train")
                labels[part].update(
                    map(str, names_in(table[columns.label], first, f"target: column '{columns.label}'"))
                )
                for name, values in names.items():
                    values.update(map(str, names_in(table[name], first, f"column '{name}'")))
            except UserError as error:
                raise UserError(f"{error} (split '{rows.name}')") from error
            for name in table.column_names:
                total.update(f"{name} {len(table)} ".encode())
                _add(total, table[name].combine_chunks())
    counts = {part: len(parts[part]) if part in parts else 0 for part in PARTS}
    classes = _classes(labels, columns.label, parts["train"].classes(columns.label))
    for what, number in ((columns.label, len(classes)), (columns.domain, len(names.get(columns.domain, ())))):
        if number > MOST:
            raise UserError(
                f"column '{what}' has {number:,} different values; there can be {MOST:,} classes or domains"
            )
    found = reader.found() if counts["train"] else Found((1, 1, 1))
    return Survey(counts, classes, {n: sorted(v) for n, v in names.items()}, found, total.hexdigest()[:16])


def names_in(column: pa.ChunkedArray, first: int, what: str) -> list[Any]:
    """The values of rows in a column of names or whole numbers; UserError for a row without any."""
    kind, values = column.type, list[Any](column.to_pylist())
    missing = [place for place, value in enumerate(values) if value is None or value != value]
    if missing:
        raise UserError(f"{what} is empty in row {first + missing[0]}")
    if pa.types.is_floating(kind) and all(value.is_integer() for value in values):
        return [int(value) for value in values]  # as CSV files with gaps have them elsewhere
    if pa.types.is_nested(kind) or pa.types.is_floating(kind):
        raise UserError(f"{what} holds {kind}, not names or whole numbers")
    return values


def _classes(labels: Mapping[str, set[str]], column: str, stated: Sequence[str]) -> tuple[str, ...]:
    """The names of the classes: those that are stated, else the different labels of the training part, in order."""
    known = set(stated) or labels["train"]
    unknown = sorted(set[str]().union(*labels.values()) - known)
    if unknown:
        what = f"the training split has no class '{unknown[0]}' in column '{column}', the test split has"
        raise UserError(f"target: {what}")
    if stated:
        return tuple(stated)
    by_number = all(re.fullmatch("-?[0-9]+", name) for name in known)
    return tuple(sorted(known, key=int)) if by_number else tuple(sorted(known))


def _add(total: Any, column: pa.Array) -> None:
    """Adds the values of a column to a digest, whichever type of list or text holds them."""
    values = column.storage if isinstance(column, pa.ExtensionArray) else column
    if pa.types.is_struct(values.type):  # a picture
        for row in values.to_pylist():
            total.update(row["bytes"] or Path(row["path"]).read_bytes())
    elif hasattr(values, "flatten") and pa.types.is_nested(values.type):
        _add(total, pc.list_value_length(values))
        _add(total, values.flatten())
    elif pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
        total.update(values.to_numpy(zero_copy_only=False).astype("<f8").tobytes())
    else:
        total.update("\0".join(map(str, values.to_pylist())).encode())
