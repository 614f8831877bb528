"""How two results of one cell differ in the numbers that they record."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from fedgrid.errors import UserError
from fedgrid.files import digest_of_values
from fedgrid.grid.plan.cell_metadata import CellMetadata, read_results
from fedgrid.quantities import counted

ACCURACY = "accuracy_"
"What names of metrics contain that are accuracies."
LIBRARIES = ("torch", "numpy", "fedgrid")
"What machines are described by, beside processor and device."
Entry = tuple[int, str, int]
"Round, metric, client."


@dataclass(frozen=True)
class CellContent:
    """What the file of a cell's results holds: rows of round, client, metric and value, and metadata."""

    rows: pa.Table
    metadata: CellMetadata


def read_content(file: Path) -> CellContent:
    """What a file of results holds; UserError where it cannot be read, or holds no results of a cell."""
    rows, metadata = read_results(file)
    numbers = {"round": pa.types.is_integer, "client": pa.types.is_integer, "value": pa.types.is_float64}
    if sorted(rows.column_names) != sorted([*numbers, "metric"]) or rows["metric"].null_count:
        raise UserError(f"{file}: not the results of a cell")
    if not all(is_kind(rows[name].type) and not rows[name].null_count for name, is_kind in numbers.items()):
        raise UserError(f"{file}: not the results of a cell")
    return CellContent(rows, metadata)


def difference(here: CellContent, there: CellContent) -> str:
    """In what two results of a cell differ, in words; empty where every recorded number has the same bits."""
    outcome = [(content.metadata.status, content.metadata.rounds, content.metadata.score) for content in (here, there)]
    if outcome[0] != outcome[1]:
        shown = [f"{status} after {counted(rounds, 'round')}, scored {score}" for status, rounds, score in outcome]
        return f"{shown[0]} here, {shown[1]} there"
    if _has_same_columns(here.rows, there.rows):
        return ""
    return _difference_of_values(_values(here.rows), _values(there.rows))


def _has_same_columns(here: pa.Table, there: pa.Table) -> bool:
    """Whether both have the same columns of the same values; otherwise the order of rows may still be another one."""
    names = here.column_names
    return names == there.column_names and all(
        digest_of_values(here[name]) == digest_of_values(there[name]) for name in names
    )


def _difference_of_values(here: Mapping[Entry, bytes], there: Mapping[Entry, bytes]) -> str:
    common = [entry for entry in here if entry in there]
    alone = len(here) + len(there) - 2 * len(common)
    if alone:
        return f"{counted(alone, 'number is', 'numbers are')} recorded in one of them alone"
    differing = [entry for entry in common if here[entry] != there[entry]]
    if not differing:
        return ""
    gaps = {entry: abs(_number(here[entry]) - _number(there[entry])) for entry in differing if ACCURACY in entry[1]}
    numbers = f"{counted(len(differing), 'number differs', 'numbers differ')}"
    if not gaps:
        round_, metric, client = min(differing)
        return f"{numbers}, and no accuracy; the first is {metric} of client {client} in round {round_}"
    largest = max(gaps, key=lambda entry: (np.nan_to_num(gaps[entry], nan=np.inf), entry))
    round_, metric, client = largest
    points = 100 * gaps[largest]
    shown = f"{points:.2f}" if points >= 0.005 else f"{points:.1g}"
    return f"{numbers}; accuracies by up to {shown} points ({metric} of client {client} in round {round_})"


def _values(rows: pa.Table) -> dict[Entry, bytes]:
    """The bits of each value by round, metric and client."""
    entries = zip(*(rows[name].to_pylist() for name in ("round", "metric", "client")), strict=True)
    return {entry: value.tobytes() for entry, value in zip(entries, rows["value"].to_numpy(), strict=True)}


def _number(bits: bytes) -> float:
    return float(np.frombuffer(bits, np.float64)[0])


def machine_of(metadata: CellMetadata) -> str:
    """The processor, the device and the versions with which a cell was computed, in words."""
    parts = [str(metadata.hardware.get(name, "")) for name in ("cpu", "device", "before")]
    parts += [f"{name} {metadata.versions[name]}" for name in LIBRARIES if name in metadata.versions]
    return ", ".join(dict.fromkeys(filter(None, parts))) or "unknown"
