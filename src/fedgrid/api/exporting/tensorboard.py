"""TensorBoard: a folder of event files a run, with hyperparameters."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fedgrid.api.exporting.runs import Ending, Point, Run
from fedgrid.api.libraries import import_optional

EVENTS = "events.out.tfevents.*"


class TensorBoard:
    """Writes runs below a folder; event files of an earlier export of a run are replaced."""

    def __init__(self, folder: Path):
        self.folder, self.hint = folder, f"tensorboard --logdir {folder}"
        self.library = import_optional("torch.utils.tensorboard", "tensorboard", "--to tensorboard")

    def begin(self, run: Run) -> "TensorBoardRun":
        """What writes the run."""
        folder = self.folder.joinpath(*run.path)
        for file in folder.glob(EVENTS):
            file.unlink()
        return TensorBoardRun(self.library.SummaryWriter(str(folder)), run)


class TensorBoardRun:
    """One run; `writer` is the library's SummaryWriter."""

    def __init__(self, writer: Any, run: Run):
        self.writer, self.run = writer, run
        writer.add_text("cell", _as_markdown({"study": run.study, "key": run.key, **run.parameters}))

    def write(self, points: Iterable[Point]) -> None:
        """Adds points."""
        for point in points:
            self.writer.add_scalar(point.tag, point.value, point.step)
        self.writer.flush()

    def end(self, ending: Ending) -> None:
        """Adds hyperparameters with the final numbers, and where these come from."""
        self.writer.add_text("results", _as_markdown({"status": ending.status, **ending.tags}))
        parameters = {**self.run.parameters, "status": ending.status}
        self.writer.add_hparams(parameters, dict(ending.metrics), run_name=".")  # in the run's own folder
        self.leave()

    def leave(self) -> None:
        """Closes the run."""
        self.writer.close()


def _as_markdown(values: dict[str, Any]) -> str:
    lines = [f"| {name} | {str(value).replace('|', chr(92) + '|')} |" for name, value in values.items()]
    return "\n".join(["| name | value |", "| --- | --- |", *lines])
