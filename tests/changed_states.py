"""Checkpoints and kept states as other cells, or other versions of fedgrid, would have written them."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from fedgrid.engine.state.checkpoint import read_checkpoint, rows_of, write_checkpoint


def copy_state(file: Path, to: Path, key: str) -> None:
    """Copies a kept state, with its clients' rows where these are in a file; its cell is called `key` there."""
    content = read_checkpoint(file, torch.device("cpu"))
    if rows_of(file).is_file() and to != file:
        shutil.copyfile(rows_of(file), rows_of(to))
    write_checkpoint(to, content | {"key": key})


def rewritten(file: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Writes a checkpoint or a kept state again, after a `change` of what it holds."""
    content = read_checkpoint(file, torch.device("cpu"))
    change(content)
    write_checkpoint(file, content)
