"""A cell's progress: the numbers recorded so far, the state, and the checkpoint from which a killed cell resumes."""

import hashlib
import io
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch
from torch import Tensor

from fedgrid.engine.state.population import Population
from fedgrid.engine.state.slots import Lost
from fedgrid.engine.state.state import State
from fedgrid.files import replacing
from fedgrid.settings import ROWS

DIGEST_SIZE = 32
"Bytes of the hash with which a checkpoint begins."
FORMAT = 1
"Number of the form in which progress is kept; what version 1.0 kept has this form, and no number."


FIELDS = frozenset(
    ("key", "rounds", "population", "record", "seconds", "matrices", "phases", "reads", "clock", "continued")
)
"What it has to hold."


@dataclass
class Record:
    """Rows in the order in which they were recorded."""

    rows: list[tuple[int, str, list[int], list[float]]] = field(default_factory=list)
    "(round, metric, clients, values); one entry for all clients of a metric."

    def add(self, round_: int, metric: str, clients: Iterable[int], values: Tensor) -> None:
        """Adds one metric of some clients."""
        self.rows.append((round_, metric, list(clients), values.tolist()))

    def copy(self) -> "Record":
        """The same rows, to which others may be added."""
        return Record(list(self.rows))

    def latest(self, metric: str) -> float | None:
        """Mean over clients of the last recorded values of a metric."""
        values_by_round = [(round_, values) for round_, name, _, values in self.rows if name == metric]
        last = [value for round_, values in values_by_round if round_ == values_by_round[-1][0] for value in values]
        return sum(last) / len(last) if last else None

    def table(self) -> pa.Table:
        """Columns round int32, client int32, metric (dictionary of strings), value float64."""
        rounds = [r for r, _, clients, _ in self.rows for _ in clients]
        metrics = [m for _, m, clients, _ in self.rows for _ in clients]
        columns = {
            "round": pa.array(rounds, pa.int32()),
            "client": pa.array([c for _, _, clients, _ in self.rows for c in clients], pa.int32()),
            "metric": pa.array(metrics, pa.string()).dictionary_encode(),
            "value": pa.array([v for *_, values in self.rows for v in values], pa.float64()),
        }
        return pa.table(columns)

    def tensors(self) -> dict[str, Any]:
        """The rows in a form that a checkpoint keeps exactly: flat columns, metrics by number."""
        names = sorted({metric for _, metric, _, _ in self.rows})
        keys = [(r, names.index(m), c) for r, m, clients, _ in self.rows for c in clients]
        values = torch.tensor([v for *_, values in self.rows for v in values], dtype=torch.float64)
        return {"metrics": names, "keys": torch.tensor(keys).reshape(-1, 3), "values": values}

    @classmethod
    def from_tensors(cls, columns: dict[str, Any]) -> "Record":
        """The inverse of `tensors`."""
        rows = zip(columns["keys"].tolist(), columns["values"].tolist(), strict=True)
        record = cls()
        for (round_, metric), group in groupby(rows, key=lambda row: row[0][:2]):
            pairs = [(key[2], value) for key, value in group]
            record.rows.append((round_, columns["metrics"][metric], [c for c, _ in pairs], [v for _, v in pairs]))
        return record


@dataclass
class Progress:
    """A cell after `rounds` rounds; `seconds` are what each part of the work has cost so far."""

    population: Population
    record: Record
    seconds: dict[str, float]
    rounds: int = 0
    matrices: list[tuple[int, str, Tensor]] | None = None
    "`Method.cooperation` after each evaluated round: (round, name, [N, N]); None where the study does not ask for it."
    phases: dict[str, float] = field(default_factory=dict)
    "Seconds of what the method measures by name, over all rounds so far; see `Federation.phase`."
    reads: frozenset[str] = frozenset()
    "What has read the number of rounds so far; see `Simulation.reads`."
    clock: tuple[tuple[float, ...], ...] = ()
    "`seconds` after each round so far [rounds], in the order of its parts."
    continued: int = 0
    "Rounds that a kept state came with, from which the run started; 0: from nothing."

    @property
    def state(self) -> State:
        """The state of all clients."""
        return self.population.everyone()


def save_checkpoint(file: Path, key: str, progress: Progress) -> None:
    """Writes a checkpoint of the cell `key`, which names the rows of clients that are in a file."""
    write_checkpoint(file, content_of(progress) | {"key": key})
    progress.population.reserve()


def content_of(progress: Progress) -> dict[str, Any]:
    """What a checkpoint holds of a cell's progress: plain tensors, numbers and strings."""
    return {
        "format": FORMAT,
        "rounds": progress.rounds,
        "population": progress.population.saved(),
        "record": progress.record.tensors(),
        "seconds": progress.seconds,
        "matrices": progress.matrices,
        "phases": progress.phases,
        "reads": sorted(progress.reads),
        "clock": list(progress.clock),
        "continued": progress.continued,
    }


def write_checkpoint(file: Path, content: dict[str, Any]) -> None:
    """Writes a checkpoint in one step, with a digest; no pickled code."""
    buffer = io.BytesIO()
    torch.save(content, buffer)
    with replacing(file) as temporary:
        temporary.write_bytes(_digest(buffer.getvalue()) + buffer.getvalue())


def rows_of(checkpoint: Path) -> Path:
    """The file for clients' rows that do not fit into memory, beside the checkpoint that names it."""
    return checkpoint.with_name(checkpoint.name + ROWS)


def remove_checkpoint(file: Path) -> None:
    """Removes a checkpoint, if it exists, with the files beside it."""
    for part in (file, rows_of(file)):
        part.unlink(missing_ok=True)


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=DIGEST_SIZE).digest()


def load_checkpoint(file: Path, key: str, device: torch.device, matrices: bool = False) -> tuple[Progress | None, str]:
    """The progress kept in a checkpoint of the cell `key`, and one sentence on it (empty: no file).

    Where `matrices` are asked for, a checkpoint without them is of no use.
    """
    if not file.is_file():
        return None, ""
    content = read_checkpoint(file, device)
    if content is None:
        return None, f"the checkpoint {file} is damaged: starting over"
    if reason := unreadable(content):
        return None, f"the checkpoint {file} {reason}: starting over"
    if (saved_key := content["key"]) != key:
        return (
            None,
            f"the checkpoint {file} is of another cell or of other code ({saved_key}, not {key}): starting over",
        )
    if matrices and content["matrices"] is None:
        return None, f"the checkpoint {file} lacks the matrices of earlier rounds that are to be kept: starting over"
    try:
        progress = progress_of(content, rows_of(file), device, matrices)
    except Lost as error:
        return None, f"the checkpoint {file} has lost states of clients ({error}): starting over"
    return progress, f"continuing after round {progress.rounds} from {file}"


def read_checkpoint(file: Path, device: torch.device) -> dict[str, Any] | None:
    """What a checkpoint or a kept state holds; None where the file is damaged, which torch does not always notice."""
    content = file.read_bytes()
    if _digest(content[DIGEST_SIZE:]) != content[:DIGEST_SIZE]:
        return None
    loaded: dict[str, Any] = torch.load(io.BytesIO(content[DIGEST_SIZE:]), map_location=device, weights_only=True)
    return loaded


def unreadable(content: Mapping[str, Any], also: Set[str] = frozenset()) -> str:
    """Why this version cannot continue from what a file holds; empty where it can. `also` has to be in it, too."""
    if content.get("format", FORMAT) > FORMAT:
        return "was written by a later version of fedgrid"
    return "" if FIELDS | also <= content.keys() else "was written by an earlier version of fedgrid"


def progress_of(content: dict[str, Any], rows_file: Path, device: torch.device, matrices: bool) -> Progress:
    """The progress that a checkpoint holds; raises Lost where the rows of clients are not those that were saved."""
    return Progress(
        Population.loaded(content["population"], rows_file, device),
        Record.from_tensors(content["record"]),
        content["seconds"],
        content["rounds"],
        content["matrices"] if matrices else None,
        content["phases"],
        frozenset(content["reads"]),
        tuple(content["clock"]),
        content["continued"],
    )
