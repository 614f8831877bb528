"""The command that starts Snakemake on a study, in a project or in any other folder."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedgrid import shipped

SNAKEFILES = ("Snakefile", "snakefile", "workflow/Snakefile", "workflow/snakefile")
"Where Snakemake looks for one by itself."


@dataclass(frozen=True)
class Launch:
    """A run of the workflow, as a user asks for it; paths are relative to the working folder."""

    study: Path
    cores: str = "all"
    scale: str | None = None
    only: str | None = None
    slurm: bool = False
    "Whether jobs go to SLURM's scheduler, by the profile of that name."
    options: Sequence[str] = ()
    "Further options of Snakemake."

    @property
    def arguments(self) -> list[str]:
        """What Snakemake is called with.

        Where the working folder has no Snakefile, those of fedgrid's rules and of its profile are named.
        """
        own = any(Path(name).is_file() for name in SNAKEFILES)
        profiles = Path("profiles") if own else shipped.folder("profiles")
        profile = profiles / ("slurm" if self.slurm else "default")
        chosen = [f"{name}={value}" for name, value in (("scale", self.scale), ("only", self.only)) if value]
        return [
            *([] if self.slurm else ["--cores", self.cores]),
            *([] if own else ["--snakefile", str(shipped.folder("workflow") / "Snakefile")]),
            *(["--workflow-profile", str(profile)] if self.slurm or not own else []),
            *self.options,  # before options of several values, which would take a target for one more
            *("--configfile", str(self.study)),
            *(["--config", *chosen] if chosen else []),
        ]

    @property
    def command(self) -> list[str]:
        """The command line, with the interpreter that runs now; it imports nothing from the working folder."""
        return [sys.executable, "-P", "-m", "snakemake", *self.arguments]
