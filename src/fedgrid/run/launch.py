"""The command that starts Snakemake on a study, in a project or in any other folder."""

import sys
from collections.abc import Sequence
from pathlib import Path

from fedgrid import shipped

SNAKEFILES = ("Snakefile", "snakefile", "workflow/Snakefile", "workflow/snakefile")
"Where Snakemake looks for one by itself."
SNAKEMAKE = [sys.executable, "-P", "-m", "snakemake"]
"Starts Snakemake with the interpreter that runs now; it imports nothing from the working folder."


def snakemake_arguments(
    study: Path,
    cores: str = "all",
    scale: str | None = None,
    only: str | None = None,
    slurm: bool = False,
    options: Sequence[str] = (),
) -> list[str]:
    """What Snakemake is called with for a study, whose path is relative to the working folder.

    Where the working folder has no Snakefile, those of fedgrid's rules and of its profile are named. `slurm` says
    whether jobs go to SLURM's scheduler, by the profile of that name; `options` are further ones of Snakemake.
    """
    own = any(Path(name).is_file() for name in SNAKEFILES)
    profiles = Path("profiles") if own else shipped.folder("profiles")
    chosen = [f"{name}={value}" for name, value in (("scale", scale), ("only", only)) if value]
    return [
        *([] if slurm else ["--cores", cores]),
        *([] if own else ["--snakefile", str(shipped.folder("workflow") / "Snakefile")]),
        *(["--workflow-profile", str(profiles / ("slurm" if slurm else "default"))] if slurm or not own else []),
        *options,  # before options of several values, which would take a target for one more
        *("--configfile", str(study)),
        *(["--config", *chosen] if chosen else []),
    ]
