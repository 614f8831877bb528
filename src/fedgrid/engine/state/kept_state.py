"""The state of a cell before its last round, kept for longer runs and for artifacts that are asked for later.

It is a checkpoint that belongs to no run, so it lies beside the results, with a file of clients' rows where they do not
fit into memory.
"""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fedgrid.engine.state.checkpoint import (
    Progress,
    content_of,
    progress_of,
    read_checkpoint,
    rows_of,
    unreadable,
    write_checkpoint,
)
from fedgrid.engine.state.slots import Lost
from fedgrid.files import replacing


def save_state(file: Path, key: str, progress: Progress, rounds: int) -> None:
    """Keeps a state of the cell `key`, of so many `rounds`, with its file of rows, as `load_state` reads it."""
    progress.population.copy_rows(rows_of(file))
    write_checkpoint(file, content_of(progress) | {"key": key, "planned": rounds})


def load_state(
    file: Path, key: str, rounds: int, rows_file: Path, device: torch.device, matrices: bool = False
) -> tuple[Progress | None, str]:
    """The progress of a kept state of the cell `key` from which a run of so many `rounds` can continue, and a sentence.

    None where it cannot. `rows_file` is where clients' rows that do not fit into memory are copied to.
    """
    content = read_checkpoint(file, device)
    if content is None:
        return None, f"the state {file} is damaged: starting over"
    if reason := unreadable(content, {"planned"}):
        return None, f"the state {file} {reason}: starting over"
    if content["key"] != key:
        return None, f"the state {file} is that of another cell: starting over"
    if content["rounds"] >= rounds or (content["planned"] != rounds and content["reads"]):
        return None, f"the state {file} is not that of a run of {rounds} rounds: starting over"
    if matrices and content["matrices"] is None:
        return None, f"the state {file} lacks the matrices of earlier rounds that are to be kept: starting over"
    if rows_of(file).is_file():
        _copy(rows_of(file), rows_file)
    try:
        progress = progress_of(content, rows_file, device, matrices)
    except Lost as error:
        return None, f"the state {file} has lost states of clients ({error}): starting over"
    progress = replace(progress, continued=progress.rounds)
    return progress, f"continuing after round {progress.rounds} from the kept state {file}"


def same_states(before: Path, now: Path) -> bool:
    """Whether two kept states hold the same bits, apart from the key and the seconds that things took."""
    first, second = (read_checkpoint(file, torch.device("cpu")) for file in (before, now))
    if first is None or second is None:
        return False
    return all(_same(first[name], second[name]) for name in ("rounds", "planned", "reads", "population", "record"))


def _same(first: Any, second: Any) -> bool:
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(_same(first[name], second[name]) for name in first)
    if isinstance(first, Tensor):
        return first.dtype == second.dtype and first.shape == second.shape and torch.equal(_bits(first), _bits(second))
    return bool(first == second)


def _bits(t: Tensor) -> Tensor:
    return t.contiguous().reshape(-1).view(torch.uint8)


def _copy(file: Path, to: Path) -> None:
    with replacing(to) as temporary:
        shutil.copyfile(file, temporary)
