"""Weights & Biases: one offline run per cell. Nothing is sent; ``wandb sync`` uploads them where a user wants it."""

import os
import shutil
from collections.abc import Iterable
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

from fedgrid.api.exporting.runs import Ending, Point, Run
from fedgrid.api.libraries import import_optional
from fedgrid.files import slug

COMPLETE = "complete"
"File in the folder of a run that is complete."


class WandbOffline:
    """Writes offline runs below a folder; their identity is the cell's key, so a cell is uploaded once."""

    def __init__(self, folder: Path):
        self.folder, self.hint = folder, f"wandb sync {folder}/wandb/offline-run-*    # uploads them"
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        self.library = import_optional("wandb", "wandb", "--to wandb-offline")

    def begin(self, run: Run) -> "WandbRun | None":
        """What writes the run; None where a complete one is there, and one that is not is replaced."""
        identity = f"{run.path[0]}-{run.key}"  # two rows of a study may show the same cell
        for earlier in self.folder.glob(f"wandb/offline-run-*-{identity}"):
            if (earlier / COMPLETE).is_file():
                return None
            shutil.rmtree(earlier)
        self.folder.mkdir(parents=True, exist_ok=True)
        made = self.library.init(
            mode="offline",
            dir=str(self.folder),
            project=slug(run.study),
            name=run.name,
            id=identity,
            group="/".join(run.path[:-1]),
            config=dict(run.parameters),
            reinit="create_new",
            settings=self.library.Settings(
                console="off", silent=True, save_code=False, disable_git=True, x_disable_stats=True, x_disable_meta=True
            ),
        )
        return WandbRun(made)


class WandbRun:
    """One run; `run` is the library's."""

    def __init__(self, run: Any):
        self.run = run

    def write(self, points: Iterable[Point]) -> None:
        """Adds points: all of a round are one step of the library, whose steps never go back."""
        step = attrgetter("step")
        for round_, of_round in groupby(sorted(points, key=step), key=step):
            self.run.log({"round": round_, **{point.tag: point.value for point in of_round}})

    def end(self, ending: Ending) -> None:
        """Adds the final numbers to the summary, and tags to the configuration."""
        self.run.summary.update({**ending.metrics, "status": ending.status})
        self.run.config.update(dict(ending.tags))
        folder = Path(self.run.dir).parent
        self.leave()
        (folder / COMPLETE).touch()

    def leave(self) -> None:
        """Closes the run."""
        self.run.finish()
