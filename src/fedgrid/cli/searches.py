"""What searches of settings have chosen, and what waits for them, in a line."""

from collections.abc import Iterable

from fedgrid.cli.phrases import counted
from fedgrid.grid.plan.planned_study import Study


def search_lines(studies: Iterable[Study]) -> list[str]:
    """A line for each study with searches: choices made, cells that compare settings, cells that wait for choices."""
    return [_line(study) for study in studies if study.choices]


def _line(study: Study) -> str:
    searches = [search for experiment in study.experiments for search in experiment.searches]
    trials = {cell.key: cell for experiment in study.experiments for cell in experiment.trials}
    chosen, done = sum(search.chosen is not None for search in searches), sum(cell.done for cell in trials.values())
    parts = [
        f"search: {chosen:,} of {counted(len(searches), 'choice')} made",
        f"{done:,} of {counted(len(trials), 'cell')} to choose by done",
    ]
    waiting = len({cell.key for cell in study.cells if cell.pending})
    parts += (
        [f"{counted(waiting, 'cell')} of the tables {'waits' if waiting == 1 else 'wait'} for them"] if waiting else []
    )
    return ", ".join(parts)
