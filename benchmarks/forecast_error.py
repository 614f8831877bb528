"""How far forecasts of cells' seconds were off, on the finished cells of the five papers' small run.

    python -m benchmarks.forecast_error

For each cell in `benchmarks/cells/small`, two forecasts are made as `fedgrid plan` would have made them beforehand:

* *measured*: from the cells like it that had finished by then;
* *counted*: from its images, at the speed that a core of this machine is measured to have, for cells that were trained
  on a processor of the same name.

The table has actual over forecast seconds by kind of forecast. Cells were trained two at a time on two cores, some of
the time beside other work: identical cells took up to three times as long as others, and are in the table like all.
"""

import argparse
import os
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import chdir
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd

from fedgrid.api.study_file import read_study
from fedgrid.grid.costs.forecast import Loads, seconds
from fedgrid.grid.costs.measured import cost_of, precedents
from fedgrid.grid.plan.cell_metadata import CellMetadata, cell_metadata
from fedgrid.grid.study.canonical import canonical
from fedgrid.jobs.calibration import speed
from fedgrid.jobs.machine import processor

ROOT = Path(__file__).parents[1]
CELLS, PAPERS = ROOT / "benchmarks/cells/small", ROOT / "config/papers"
RESULTS = ROOT / "benchmarks/results/forecast-error.csv"
SECONDS_A_TRIAL = 2.0
"Of calibration."
Finished = dict[Path, CellMetadata]
"Metadata of finished cells by the file of their results."


def unpacked(folder: Path) -> Finished:
    """The small run's cells, unpacked into a folder; each file is as old as its cell."""
    for archive in sorted(CELLS.glob("*/*.tar.xz")):
        with tarfile.open(archive) as cells:
            cells.extractall(folder, filter="data")
    files = [file for file in folder.rglob("s*-*.parquet") if file.name.count(".") == 1]
    finished = {file: cell_metadata(file) for file in files}
    for file, head in finished.items():
        time = datetime.fromisoformat(head.finished).timestamp()
        os.utime(file, (time, time))
    return finished


def ratios_of_measured(finished: Finished) -> Iterator[float]:
    """Actual over forecast seconds of each cell that finished after another one like it."""
    for file, head in finished.items():
        earlier = precedents(file, head.spec, lambda other, end=head.finished: other.finished < end)
        if forecast := cost_of(earlier, head.rounds):
            yield _seconds(head) / forecast.seconds


def ratios_of_counted(finished: Finished) -> Iterator[float]:
    """Actual over forecast seconds of each cell that was trained on a processor like this one."""
    by_spec = {_described(head.spec): head for head in finished.values() if head.hardware["cpu"] == processor()}
    loads, speeds = Loads(), {}
    for paper in sorted(PAPERS.glob("*.yaml")):
        study = read_study(paper, "small")
        for cell in study.by_key.values():
            if head := by_spec.pop(_described(cell.spec), None):
                load = loads.of(cell, study.data_root)
                if load.trial.name not in speeds:
                    speeds[load.trial.name] = speed(load.trial, SECONDS_A_TRIAL)
                yield _seconds(head) / seconds(load, speeds[load.trial.name])


def _described(spec: Mapping[str, Any]) -> str:
    """A cell's specification, wherever its data lay."""
    partition = spec["partition"]
    data = {name: value for name, value in partition["data"].items() if name != "copy"}
    return canonical({**spec, "partition": {**partition, "data": data}})


def _seconds(head: CellMetadata) -> float:
    return head.costs.seconds.total


def table(ratios: Mapping[str, list[float]]) -> pd.DataFrame:
    """A row for each kind of forecast: number of cells, and quantiles of actual over forecast seconds."""
    rows = {
        kind: {"cells": len(values), **pd.Series(values).quantile([0.1, 0.5, 0.9]).set_axis(["low", "median", "high"])}
        for kind, values in ratios.items()
    }
    return pd.DataFrame(rows).T.astype({"cells": int}).rename_axis("forecast").round(2)


def main() -> None:
    """Measures, prints and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS, help="default: %(default)s")
    out = parser.parse_args().out.absolute()
    with tempfile.TemporaryDirectory() as folder, chdir(ROOT):
        finished = unpacked(Path(folder))
        ratios = {"measured": [*ratios_of_measured(finished)], "counted": [*ratios_of_counted(finished)]}
    measured = table(ratios).assign(calibrated_on=["", processor()])
    measured.to_csv(out)
    print(measured.to_string())


if __name__ == "__main__":
    main()
