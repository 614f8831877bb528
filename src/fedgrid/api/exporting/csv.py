"""CSV: the tables, and every number in tidy files."""

from pathlib import Path

from fedgrid.analysis.pages.table_set import csv, tables
from fedgrid.analysis.scores.results import Results
from fedgrid.api.exporting.frames import tidy_frames
from fedgrid.files import write_text


def write(results: Results, folder: Path) -> list[Path]:
    """Writes a file for each table and each tidy frame; returns them."""
    frames = {name: numbers for name, (numbers, _) in tables(results)} | dict(tidy_frames(results))
    for name, frame in frames.items():
        write_text(folder / f"{name}.csv", csv(frame))
    return [folder / f"{name}.csv" for name in frames]
