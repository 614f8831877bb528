"""The files that a study reads: its own, those that it includes, components of the user's own, partitions."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedgrid.api.archive.named_files import keyed_texts
from fedgrid.files import path_of
from fedgrid.grid.plan.planned_study import Study
from fedgrid.grid.study.fingerprint import files
from fedgrid.grid.study.method_lists import INCLUDE
from fedgrid.grid.study.model import Configured
from fedgrid.grid.study.printed import printed_file
from fedgrid.grid.study.sections import Origin
from fedgrid.grid.study.yaml_file import read, read_rows
from fedgrid.loading import OUTSIDE
from fedgrid.partition.importing.pfllib import client_files


def input_files(configfile: Path, study: Study) -> dict[Path, str]:
    """Every file that the study reads but data sets and weights, each once, and what it is."""
    section = read(configfile)
    titles = {configfile: "Study"} | dict.fromkeys(
        _included(configfile, section), "Rows of methods that the study includes"
    )
    if printed := printed_file(section):
        titles[Path(printed)] = "Numbers that the paper prints"
    for component in _components(study):
        if component.file and component.module.startswith(OUTSIDE):
            code = files(component.module, Path(component.file))
            titles |= dict.fromkeys(code, f"Code of {component.title or component.name}")
    for partition in study.partitions.values():
        if path := partition.component.settings.get("path"):
            file = path_of(path.replace("{seed}", str(partition.seed)), "path")
            in_folder = (
                [file for of_part in client_files(file).values() for file in of_part.values()] if file.is_dir() else []
            )
            titles |= dict.fromkeys(in_folder or [file], "Partition of a file")
    for row in (row for experiment in study.experiments for row in experiment.external):
        titles[Path(row.path)] = f"External results: {row.title}"
    return {file: title for file, title in titles.items() if file.is_file()}


def _components(study: Study) -> Iterator[Configured]:
    """Methods, models, partitions and data sets of the study's cells, some more than once."""
    for cell in study.cells:
        yield from (cell.row.component, cell.model, cell.partition.component, cell.partition.data.component)


def _included(file: Path, value: Any) -> Iterator[Path]:
    """The files that `include` entries of a value of that file name, and those that they include."""
    for key, text in keyed_texts(value):
        if key == INCLUDE:
            included = path_of(Origin(str(file)).input_path(text), INCLUDE)
            if included.is_file():
                yield included
                yield from _included(included, read_rows(included))
