"""The cells of a study that a few words mean."""

from collections.abc import Iterable
from pathlib import Path

from fedgrid.errors import UserError
from fedgrid.grid.plan.model import Cell
from fedgrid.grid.plan.planned_study import Study


def the_cell(study: Study, selection: list[str], command: str) -> Cell:
    """The one cell that matches all words; UserError for no match, or for several."""
    cells = fitting(study, selection, command)
    if len(cells) > 1:
        raise _several(study, selection, command, cells)
    return cells[0]


def alike(study: Study, selection: list[str], command: str) -> list[Cell]:
    """The cells that match all words, if they differ in their seeds only; else UserError."""
    cells = fitting(study, selection, command)
    first, *others = ({**cell.spec, "partition": cell.partition.key, "seed": None} for cell in cells)
    if any(other != first for other in others):
        raise _several(study, selection, command, cells)
    return cells


def fitting(study: Study, selection: list[str], command: str) -> list[Cell]:
    """The cells that match all words, each once; UserError for no match."""
    cells = {
        cell.key: cell
        for experiment in reversed(study.experiments)
        for cell in reversed(experiment.cells)
        if all(_fits(word, cell, experiment.id) for word in selection)
    }
    if not cells:
        text = " ".join(selection)
        raise UserError(f"{command}: no cell of {study.name} fits '{text}'; fedgrid plan --cells lists them")
    return list(reversed(cells.values()))


def experiments_of(study: Study, cells: Iterable[Cell]) -> list[str]:
    """The experiments that show any of these cells."""
    keys = {cell.key for cell in cells}
    return [experiment.id for experiment in study.experiments if any(cell.key in keys for cell in experiment.cells)]


def _several(study: Study, selection: list[str], command: str, cells: list[Cell]) -> UserError:
    text = " ".join(selection)
    examples = "; ".join(f"{cell.key[:8]} ({cell.description})" for cell in cells[:3])
    return UserError(f"{command}: {len(cells)} cells of {study.name} fit '{text}': say more, such as {examples}")


def _fits(word: str, cell: Cell, experiment: str) -> bool:
    row, partition = cell.row, cell.partition
    named = {experiment, row.label, row.title, row.component.name, partition.data.label, partition.data.title}
    named |= {cell.heterogeneity, partition.description, f"s{cell.seed}", str(cell.seed)}
    key = len(word) >= 4 and cell.key.startswith(word)  # fewer digits may be a seed
    return word.casefold() in map(str.casefold, named) or key or Path(word).name in (cell.file.name, cell.log.name)
