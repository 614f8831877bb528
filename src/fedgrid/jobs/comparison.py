"""Two results of one cell compared bit for bit: recorded values, outcome and artifacts."""

import struct
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from fedgrid.engine.state.kept_state import same_states
from fedgrid.files import read_table
from fedgrid.jobs import models_file

OF_THE_OUTCOME = ("status", "reason", "rounds", "score", "domains")
"Metadata that code computes."
OF_THE_CODE = ("key", "spec", "code", "modules", "fedgrid", "reference")
"What the header of a file of models says of the cell's settings and code."


def difference(before: Path, now: Path, artifacts: Mapping[str, tuple[Path, Path]]) -> str:
    """The first difference between two results of a cell; empty where all bits agree.

    Compared are all recorded values, the outcome, and `artifacts`: by kind, the files of both results.
    """
    (records_before, head_before), (records_now, head_now) = read_table(before), read_table(now)
    if sentence := _difference_of_records(records_before, records_now):
        return sentence
    for name in OF_THE_OUTCOME:
        if head_before[name] != head_now[name]:
            return f"{name}: {head_before[name]!r} before, {head_now[name]!r} now"
    for kind, files in artifacts.items():
        same = {"models": _same_models, "state": same_states}.get(kind, _same_tables)
        if not same(*files):
            return f"the artifact '{kind}'"
    return ""


def _difference_of_records(before: pa.Table, now: pa.Table) -> str:
    """The first value, in the order of the rounds, that is not in both tables with the same bits."""
    earlier, today = _values(before), _values(now)
    for key in sorted({*earlier, *today}):
        if earlier.get(key) != today.get(key):
            round_, metric, client = key
            values = f"{_shown(earlier.get(key))} before, {_shown(today.get(key))} now"
            return f"round {round_}, {metric} of client {client}: {values}"
    return ""


def _values(table: pa.Table) -> dict[tuple[int, str, int], bytes]:
    """The bits of each value by round, metric and client."""
    rows = zip(*(table[name].to_pylist() for name in ("round", "metric", "client")), strict=True)
    values = table["value"].to_numpy()
    return {row: value.tobytes() for row, value in zip(rows, values, strict=True)}


def _shown(bits: bytes | None) -> str:
    return "no value" if bits is None else repr(struct.unpack("=d", bits)[0])


def _same_models(earlier: Path, today: Path) -> bool:
    """Whether two files hold the same models, bit for bit, of whichever key and code."""
    files = [models_file.read(file) for file in (earlier, today)]
    for file in files:
        file.check()
    before, now = ({k: v for k, v in file.header.items() if k not in OF_THE_CODE} for file in files)
    return before == now


def _same_tables(earlier: Path, today: Path) -> bool:
    before, now = read_table(earlier)[0], read_table(today)[0]
    return before.schema.equals(now.schema) and all(map(_equal, before.columns, now.columns))


def _equal(before: pa.ChunkedArray, now: pa.ChunkedArray) -> bool:
    if pa.types.is_dictionary(before.type):
        before, now = (column.cast(column.type.value_type) for column in (before, now))
    return bool(before.combine_chunks().equals(now.combine_chunks()))
