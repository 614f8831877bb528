"""A checkout whose processes, Snakemake's included, are forked from one that has imported their libraries.

For tests of what is run, not of how processes start: each is still one of its own, with the code of its checkout, yet
spends no seconds on imports.
"""

import os
import subprocess
import sys
from pathlib import Path

from checkout import Checkout
from processes import PIPES, warm_command

from fedgrid.jobs import warm


class Forked(Checkout):
    """Needs a `Forker` that listens."""

    def __init__(self, *given: Path | str):
        super().__init__(*given)
        # the forker is there already
        self.edit(
            "src/fedgrid/run/invocation.py",
            "if not self.submits and any(cost is None or cost.seconds < SHORT for cost in expected):",
            "if False:",
        )

    @property
    def environment(self) -> dict[str, str]:
        return super().environment | {"WARM": "1"}

    def command(self, *arguments: str) -> list[str]:
        _, _, snakemake, *options = super().command(*arguments)
        return warm_command(f"{snakemake}.cli", *options)

    def started(self, *arguments: str) -> subprocess.Popen[str]:
        """A run that goes on."""
        return subprocess.Popen(self.command(*arguments), cwd=self.path, env=self.environment, **PIPES)

    def fedgrid(self, *arguments: str, code: int = 0) -> str:
        """What a command says; its exit code is checked."""
        command = warm_command("fedgrid.cli.main", *arguments)
        run = subprocess.run(command, cwd=self.path, env=self.environment, **PIPES)
        assert run.returncode == code, run.stdout[-3000:]
        return run.stdout


class Forker(warm.Worker):
    """A warm worker for every module, with whatever code of fedgrid stands in a job's PYTHONPATH."""

    def command(self) -> list[str]:
        return [sys.executable, str(Path(__file__).with_name("forker.py")), self.socket, str(os.getpid())]
