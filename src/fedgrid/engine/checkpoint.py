"""What a killed cell needs to go on as if nothing had happened."""

import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from fedgrid.engine.record import Record
from fedgrid.engine.state import State
from fedgrid.engine.tree import Bundle
from fedgrid.files import replacing


@dataclass
class Progress:
    """A cell after `rounds` rounds; `seconds` are what each part of the work has cost so far."""

    state: State
    record: Record
    seconds: dict[str, float]
    rounds: int = 0


def save(file: Path, key: str, progress: Progress) -> None:
    """Writes a checkpoint of the cell `key` in one step: plain tensors, numbers and strings, no pickled code."""
    content = {
        "key": key,
        "rounds": progress.rounds,
        "server": _plain(progress.state.server),
        "clients": _plain(progress.state.clients),
        "record": progress.record.tensors(),
        "seconds": progress.seconds,
    }
    with replacing(file) as temporary:
        torch.save(content, temporary)


def _plain(value: Any) -> Any:
    """Nested dictionaries of the built-in kind, which alone may be loaded again without running code."""
    return {key: _plain(part) for key, part in value.items()} if isinstance(value, Mapping) else value


def load(file: Path, key: str, device: torch.device) -> tuple[Progress | None, str]:
    """The progress kept in a checkpoint of the cell `key`, and one sentence on what was found (empty: no file)."""
    if not file.is_file():
        return None, ""
    try:
        content = torch.load(file, map_location=device, weights_only=True)
        found = content["key"]
    except (RuntimeError, EOFError, OSError, KeyError, ValueError, TypeError, pickle.UnpicklingError) as error:
        return None, f"the checkpoint {file} is damaged ({type(error).__name__}): starting over"
    if found != key:
        return None, f"the checkpoint {file} is of another cell or of other code ({found}, not {key}): starting over"
    state = State(Bundle(content["server"]), Bundle(content["clients"]))
    progress = Progress(state, Record.from_tensors(content["record"]), content["seconds"], content["rounds"])
    return progress, f"continuing after round {progress.rounds} from {file}"
