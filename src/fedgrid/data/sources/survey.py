"""One pass over the rows of a data set: what they have in common, their names, and a digest of what was read."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fedgrid.data.common.columns import positions
from fedgrid.data.common.images import PARTS
from fedgrid.data.sources.samples import Found, Reader
from fedgrid.data.sources.splits import Rows
from fedgrid.errors import UserError

MISSING = -1
"The label of an image without one, in sets of the hub whose test part is secret."


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
    labels: dict[str, set[Any]] = {part: set() for part in parts}
    names: dict[str, set[str]] = {name: set() for name in columns.named}
    for part, rows in parts.items():
        for first, table in rows.batches(columns.all_with(reader)):
            try:
                reader.look(table, first, training=part == "train")
                labels[part].update(_labels(table, first, columns.label, bool(rows.classes(columns.label))))
                for name, values in names.items():
                    values.update(map(str, _names(table[name], first, f"column '{name}'")))
            except UserError as error:
                raise UserError(f"{error} (split '{rows.name}')") from error
            for name in table.column_names:
                _add(total, table[name].combine_chunks())
    counts = {part: len(parts[part]) if part in parts else 0 for part in PARTS}
    classes = tuple(parts["train"].classes(columns.label)) or _classes(labels, columns.label)
    found = reader.found() if counts["train"] else Found((1, 1, 1))
    return Survey(counts, classes, {n: sorted(v) for n, v in names.items()}, found, total.hexdigest()[:16])


def label_positions(values: Sequence[Any], classes: Sequence[str], stated: bool) -> np.ndarray:
    """Labels int64 [n] of values, which are the numbers of classes that are `stated` with the data, or their names."""
    return np.array(values, np.int64) if stated else positions(list(map(str, values)), classes)


def _classes(labels: Mapping[str, set[Any]], column: str) -> tuple[str, ...]:
    """The names of the classes: the different labels of the training part, in order."""
    training = labels["train"]
    unknown = sorted(map(str, set[Any]().union(*labels.values()) - training))
    if unknown:
        what = f"the training split has no row with '{unknown[0]}' in column '{column}', the test split has"
        raise UserError(f"target: {what}")
    if all(isinstance(value, int) for value in training):
        return tuple(map(str, sorted(training)))
    return tuple(sorted(map(str, training)))


def _labels(table: pa.Table, first: int, column: str, stated: bool) -> list[Any]:
    labels = _names(table[column], first, f"target: column '{column}'")
    if stated and MISSING in labels:
        raise UserError(f"target: column '{column}' has no label in row {first + labels.index(MISSING)}")
    return labels


def _names(column: pa.ChunkedArray, first: int, what: str) -> list[Any]:
    """The values of rows in a column of names or whole numbers."""
    kind = column.type
    if pa.types.is_nested(kind) or pa.types.is_floating(kind):
        raise UserError(f"{what} holds {kind}, not names or whole numbers")
    values: list[Any] = column.to_pylist()
    if None in values:
        raise UserError(f"{what} is empty in row {first + values.index(None)}")
    return values


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
