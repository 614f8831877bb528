"""Results as an earlier version of fedgrid would have left them."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml
from studies import FOUR_CELLS, prepared
from toys import adoption

from fedgrid.api.study_file import read_study
from fedgrid.engine.state.saving import Saving
from fedgrid.files import read_table, write_table
from fedgrid.grid.earlier.circumstances import Circumstances
from fedgrid.grid.plan.cell_metadata import cell_metadata
from fedgrid.grid.plan.model import Cell
from fedgrid.grid.plan.planned_study import Study
from fedgrid.jobs.cell import train
from fedgrid.jobs.other_rounds import origin

EARLIER = "0" * 16
"The code of the earlier version."


def trained_study(folder: Path) -> Study:
    """A study in `folder`, which is the working folder, with its two cells trained."""
    file = folder / "config" / "study.yaml"
    file.parent.mkdir()
    file.write_text(yaml.safe_dump(yaml.safe_load(FOUR_CELLS) | {"methods": ["local"], "seeds": [0, 1]}))
    study = prepared(read_study(file))
    train_all(study)
    return study


def train_all(study: Study) -> None:
    """Trains every cell in this process."""
    for cell in study.cells:
        train(cell, cell.file, study.compute, Saving(cell.checkpoint, cell.key, 1e9, origin(cell, cell.file)))


def make_earlier(cell: Cell) -> Path:
    """Gives the results of a cell without artifacts to an earlier version of the code."""
    table, about = read_table(cell.file)
    about |= {"key": cell.key[::-1], "code": EARLIER, "modules": about["modules"] | {"fedgrid.tree": EARLIER}}
    file = cell.file.with_name(f"s{cell.seed}-{cell.key[::-1]}.parquet")
    write_table(file, table, about)
    cell.file.unlink()
    return file


def make_adopted(cell: Cell) -> None:
    """Has the results of a cell say that an earlier version adopted them from other code."""
    table, about = read_table(cell.file)
    circumstances = Circumstances.of(cell_metadata(cell.file))
    entry = adoption(EARLIER, "2027-07-01T10:00:00+00:00") | {"circumstances": asdict(circumstances)}
    write_table(cell.file, table, about | {"adopted": [entry]})


def edited(round_: int, metric: str) -> Callable[[list[dict[str, Any]]], None]:
    """Adds a little to the values of a metric in one round."""

    def edit(rows: list[dict[str, Any]]) -> None:
        for row in rows:
            if (row["round"], row["metric"]) == (round_, metric):
                row["value"] += 2**-40

    return edit
