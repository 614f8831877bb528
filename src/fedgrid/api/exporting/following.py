"""Curves that go out while a run is at work: of running cells what checkpoints and logs hold, of finished ones all.

A checkpoint, written every `compute.checkpoint_every` seconds, has every number of the rounds so far. A log has the
mean accuracy of each round at once, to two decimals; it goes out as a curve of its own, ``live/accuracy_received``.
"""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pandas as pd
import torch

from fedgrid.analysis.scores import collect
from fedgrid.analysis.scores.results import CELL, Results, in_sentences
from fedgrid.api.exporting.runs import Point, Run, Tracker, Writer, endings_of, points_of, runs_of
from fedgrid.engine.state.checkpoint import Record, read_checkpoint
from fedgrid.grid.plan import manifest
from fedgrid.grid.plan.choices import apply_choices
from fedgrid.grid.plan.manifest_model import Manifest
from fedgrid.grid.plan.model import Cell
from fedgrid.grid.plan.planned_study import Experiment, Study
from fedgrid.jobs.reporting import logged_accuracies
from fedgrid.run import cell_states

EVERY = 2.0
"Seconds between two looks."
FINISHED = ("done", "diverged")
"States of a cell, as `cell_states` names them."


def follow(study: Study, tracker: Tracker) -> Iterator[str]:
    """Writes the runs of a study's cells as they go, until no run is at work; yields a line for each complete one."""
    cells: dict[tuple[str, str], FollowedCell] = {}
    try:
        while True:
            study = apply_choices(study)  # searches may have chosen since
            states = cell_states.read(study)
            for experiment in study.experiments:
                keys = [(experiment.id, cell.key) for cell in experiment.cells if not cell.pending]
                if not cells.keys() >= set(keys):
                    added = _followed(study, experiment, tracker)
                    cells = {(experiment.id, followed.cell.key): followed for followed in added} | cells
                for cell in (cells[key] for key in keys):
                    if not cell.complete and cell.look(states[cell.cell.key].name):
                        yield f"{cell.run.name}: {states[cell.cell.key].name}"
            if not any(state.name in ("running", "queued") for state in states.values()):
                return
            time.sleep(EVERY)
    finally:
        for cell in cells.values():
            cell.leave()


def _followed(study: Study, experiment: Experiment, tracker: Tracker) -> list["FollowedCell"]:
    content = manifest.content(study, experiment)
    listed_cells = [replace(cell, status="running") for cell in content.cells]
    results = Results(in_sentences(content.study), listed_cells, pd.DataFrame())
    runs = runs_of(results, listed_cells, experiment.id)
    return [FollowedCell(content, cell, run, tracker) for cell, run in zip(experiment.cells, runs, strict=True)]


@dataclass
class FollowedCell:
    """A cell, and what of it has been written."""

    manifest: Manifest
    cell: Cell
    run: Run
    tracker: Tracker
    complete: bool = False
    writer: Writer | None = None
    written: set[tuple[str, int]] = field(default_factory=set)
    "Tags and steps of points."
    times: dict[Path, int] = field(default_factory=dict)
    "Of the last change of files that were read."

    def look(self, state: str) -> bool:
        """Writes what is new of the cell; whether it is complete now."""
        if state in ("running", *FINISHED) and not self.writer:
            self.writer = self.tracker.begin(self.run)
            self.complete = self.writer is None  # it is there already
        if self.writer and state == "running":
            self._write([*self._logged_points(), *self._checkpoint_points()])
        elif self.writer and state in FINISHED:
            results = collect.in_memory(self.manifest, [self.cell.key])
            self._write(points_of(results)[self.cell.table_position])
            self.writer.end(endings_of(results)[self.cell.table_position])
            self.writer, self.complete = None, True
            return True
        return False

    def leave(self) -> None:
        """Closes a run that was begun and is not complete."""
        if self.writer:
            self.writer.leave()
            self.writer = None

    def _write(self, points: Iterable[Point]) -> None:
        new = [point for point in points if (point.tag, point.step) not in self.written]
        if new and self.writer:
            self.writer.write(new)
            self.written.update((point.tag, point.step) for point in new)

    def _logged_points(self) -> list[Point]:
        logged = logged_accuracies(self.cell.log) if self._changed(self.cell.log) else []
        return [Point(f"live/accuracy_{point}", round_, accuracy) for point, round_, accuracy in logged]

    def _checkpoint_points(self) -> list[Point]:
        changed = self._changed(self.cell.checkpoint)
        content = read_checkpoint(self.cell.checkpoint, torch.device("cpu")) if changed else None
        if content is None or content["key"] != self.cell.key:
            return []
        rows = Record.from_tensors(content["record"]).table().to_pandas()
        rows = rows.assign(**dict(zip(CELL, self.cell.table_position, strict=True)))
        return points_of(Results(self.manifest.study, [], rows)).get(self.cell.table_position, [])

    def _changed(self, file: Path) -> bool:
        """Whether a file is there and was not read since its last change."""
        try:
            time_of_change = file.stat().st_mtime_ns
        except OSError:
            return False
        changed = self.times.get(file) != time_of_change
        self.times[file] = time_of_change
        return changed
