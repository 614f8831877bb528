"""What the process of a cell notes in the store while it has no results, and `fedgrid status` reads."""

import json
import os
from dataclasses import dataclass, fields
from pathlib import Path


def lives(pid: int) -> bool:
    """Whether a process of this machine still runs."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it is running, and belongs to another user
        return True
    return True


@dataclass(frozen=True)
class Note:
    """How a cell is doing; `began` is when its process did, `time` when it noted this, in seconds since 1970."""

    state: str = ""
    "running, failed or interrupted."
    reason: str = ""
    round: int = 0
    rounds: int = 0
    seconds: float = 0.0
    "Of training so far."
    memory: float = 0.0
    "Most so far, in MB."
    host: str = ""
    pid: int = 0
    job: str = ""
    "Of SLURM, or empty."
    began: float = 0.0
    time: float = 0.0

    @classmethod
    def read(cls, file: Path) -> "Note":
        """The note in a file, which may lack fields unknown to earlier releases; ValueError for a damaged one."""
        content = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            raise ValueError(f"{file} holds no note")
        return cls(**{field.name: content[field.name] for field in fields(cls) if field.name in content})
