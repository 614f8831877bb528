"""The one cell of a study that a few words mean."""

from pathlib import Path

from fedgrid.errors import UserError
from fedgrid.grid.planned import Cell
from fedgrid.grid.planned_study import Study


def the_cell(study: Study, words: list[str], command: str) -> Cell:
    """The one cell to which all the words belong; UserError where there is none, or more than one."""
    fitting = [cell for cell in study.by_key.values() if all(_fits(word, cell) for word in words)]
    if len(fitting) == 1:
        return fitting[0]
    text = " ".join(words)
    if not fitting:
        raise UserError(f"{command}: no cell of {study.name} fits '{text}'; fedgrid plan --cells lists them")
    examples = "; ".join(f"{cell.key[:8]} ({cell.words})" for cell in fitting[:3])
    raise UserError(f"{command}: {len(fitting)} cells of {study.name} fit '{text}': say more, such as {examples}")


def _fits(word: str, cell: Cell) -> bool:
    named = (cell.row.label, cell.row.component.name, cell.partition.data.label, cell.heterogeneity)
    key = len(word) >= 4 and cell.key.startswith(word)  # fewer digits may be a seed
    files = (cell.file.name, cell.log.name)
    return word in (*named, f"s{cell.seed}", str(cell.seed)) or key or Path(word).name in files
