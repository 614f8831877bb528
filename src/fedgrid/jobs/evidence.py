"""Evidence that results under earlier code are those of today's: the same partition, the same start, the same bits."""

import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fedgrid.errors import UserError
from fedgrid.files import read_metadata, read_table
from fedgrid.grid.adoption.candidates import Candidate
from fedgrid.settings import Compute

OF_THE_OUTCOME = ("status", "reason", "rounds", "score", "domains")
"Metadata that code computes."
OF_THE_CODE = ("key", "spec", "code", "modules", "fedgrid", "reference")
"What the header of a file of models says of the cell's settings and code."


def difference(candidate: Candidate) -> str:
    """The first difference between the earlier results of a cell and those of today's code; empty where all bits agree.

    Compared are all recorded values, the outcome, and the artifacts that the study asks for.
    """
    (before, head), (now, fresh) = read_table(candidate.file), read_table(candidate.cell.file)
    if sentence := _difference_of_records(before, now):
        return sentence
    for name in OF_THE_OUTCOME:
        if head[name] != fresh[name]:
            return f"{name}: {head[name]!r} before, {fresh[name]!r} now"
    for kind, file in candidate.artifacts.items():
        same = {"models": _same_models, "state": _same_states}.get(kind, _same_tables)
        if not same(file, candidate.cell.kept_beside(candidate.cell.file)[kind]):
            return f"the artifact '{kind}'"
    return ""


def difference_at_start(candidate: Candidate, settings: Compute) -> str:
    """As `difference`, of the partition and of what is recorded before the first round alone; nothing is trained."""
    from fedgrid.engine.compute import start  # torch takes seconds to import
    from fedgrid.jobs.cell import sources_of

    cell = candidate.cell
    if sentence := _difference_of_partitions(candidate):
        return sentence
    before, _ = read_table(candidate.file)
    at_start = pc.equal(before["round"], 0)
    return _difference_of_records(before.filter(at_start), start(sources_of(cell), settings).table())


def _difference_of_partitions(candidate: Candidate) -> str:
    """Whether the partition that the results were trained on, if its store has it, holds other rows than today's."""
    planned = candidate.cell.partition
    folder = candidate.store / planned.file.parent.parent.relative_to(planned.data.store)
    digest = read_metadata(planned.file)["digest"]
    for file in folder.glob(f"*/{planned.file.name}"):
        about = _metadata(file)
        same = about.get("spec") == candidate.metadata["spec"]["partition"]
        if same and about["digest"] != digest:
            return f"the partition: rows {about['digest'][:16]} before, {digest[:16]} now"
    return ""


def _metadata(file: Path) -> dict[str, Any]:
    try:
        return read_metadata(file)
    except UserError:  # a damaged partition is no evidence; its own job replaces it
        return {}


def _difference_of_records(before: pa.Table, now: pa.Table) -> str:
    """The first value, in the order of the rounds, that is not in both tables with the same bits."""
    earlier, today = _values(before), _values(now)
    for key in sorted({*earlier, *today}):
        if earlier.get(key) != today.get(key):
            round_, metric, client = key
            values = " ".join(
                f"{_shown(values.get(key))} {when}," for values, when in ((earlier, "before"), (today, "now"))
            )
            return f"round {round_}, {metric} of client {client}: {values.rstrip(',')}"
    return ""


def _values(table: pa.Table) -> dict[tuple[int, str, int], bytes]:
    """The bits of each value by round, metric and client."""
    rows = zip(*(table[name].to_pylist() for name in ("round", "metric", "client")), strict=True)
    values = table["value"].to_numpy()
    return {row: value.tobytes() for row, value in zip(rows, values, strict=True)}


def _shown(bits: bytes | None) -> str:
    return "no value" if bits is None else repr(struct.unpack("=d", bits)[0])


def _same_states(earlier: Path, today: Path) -> bool:
    from fedgrid.engine.state.kept_state import same_states  # torch takes seconds to import

    return same_states(earlier, today)


def _same_models(earlier: Path, today: Path) -> bool:
    """Whether two files hold the same models, bit for bit, of whichever key and code."""
    from fedgrid.jobs import models_file  # torch takes seconds to import

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
