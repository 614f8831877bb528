"""What a study's tables have once searches have chosen: a planned study with the choices that its store has by now."""

from collections.abc import Mapping
from dataclasses import replace

from fedgrid.grid.plan.model import Cell
from fedgrid.grid.plan.planned_study import Experiment, Study
from fedgrid.grid.plan.searches import Group, Search
from fedgrid.grid.study.canonical import digest


def apply_choices(study: Study) -> Study:
    """The study, whose tables have the cells that were chosen so far, and pending ones in place of the others."""
    if not any(experiment.searches for experiment in study.experiments):
        return study
    return replace(study, experiments=[_settled(experiment) for experiment in study.experiments])


def _settled(experiment: Experiment) -> Experiment:
    known = {cell.key: cell for cell in experiment.options}
    of_group = {search.group: table_cells(search, known) for search in experiment.searches}
    cells = [of_group.get(group_of(cell), {}).get(cell.seed, cell) for cell in experiment.cells]
    trials = {key: known[key] for search in experiment.searches for key in search.trials()}
    return replace(experiment, cells=cells, trials=[*trials.values()])


def group_of(cell: Cell) -> Group:
    """Row, data and heterogeneity of a cell, by label."""
    return cell.row.label, cell.partition.data.label, cell.heterogeneity


def table_cells(search: Search, known: Mapping[str, Cell]) -> dict[int, Cell]:
    """By seed, the cells of the table that a search is for: those that it chose, or pending ones."""
    if (chosen := search.chosen) is not None:
        return {known[key].seed: known[key] for key in search.candidates[chosen]}
    return {known[key].seed: _pending(known[key], search) for key in search.candidates[0]}


def _pending(cell: Cell, search: Search) -> Cell:
    """Stands for a cell whose settings are not chosen yet, with those of the first point: nothing has its key."""
    return replace(cell, key=digest([search.key, cell.seed]), pending=True)
