"""The key `search` of a study or of a row: the values of settings to choose from, by scores on validation images.

Each of its keys but `grid`, `seeds` and `rungs` is a setting with a list of values; `grid` may hold settings too. The
study's search applies to every row that has the setting, a row's own is laid over it, and false switches it off.
"""

from collections.abc import Callable, Collection, Iterator
from functools import reduce
from typing import Any

from fedgrid.components import describe
from fedgrid.errors import nearest
from fedgrid.grid.study.catalog import description
from fedgrid.grid.study.configure import Description
from fedgrid.grid.study.expansion import TRAINING, expand, leaves
from fedgrid.grid.study.forms import Protocol
from fedgrid.grid.study.model import MethodRow, SearchedRow, Seeds
from fedgrid.grid.study.overlay import lay
from fedgrid.grid.study.sections import Entries, Origin, Section, StudyError
from fedgrid.loading import names
from fedgrid.settings import Training

KEY, GRID, SEEDS, RUNGS = "search", "grid", "seeds", "rungs"
DEFAULT_SEEDS = (1000, 1001)
"Seeds of a search that names none; studies that search the same then share its cells."
TRAINING_SETTINGS = tuple(parameter["name"] for parameter in describe(Training)["parameters"])


class Searches:
    """What a study searches; `unused` says at the end which of its settings no row has."""

    def __init__(self, study: Protocol):
        self.study, self.of_study = study, _search_in(study.section)
        self.applied: set[str] = set()

    def of_row(
        self, label: str, entry: Section, method: Description, make_row: Callable[[Section], MethodRow]
    ) -> SearchedRow | None:
        """The search of a row with this `entry`, of a method; None where it has no setting that is searched.

        `make_row` is called with the entry at each point of the grid, whose first setting varies slowest. Raises
        StudyError for an unknown setting, one that is no list of values, or one that the row itself sets.
        """
        of_method = [parameter["name"] for parameter in method["parameters"]]
        of_row = _search_in(entry)
        if KEY in entry and not of_row:
            return None
        for name, _, origin in _settings(of_row):
            if _full(name, of_method) is None:
                known = nearest(name, [*of_method, *TRAINING_SETTINGS])
                raise StudyError(_above(origin, name), f"'{label}' has no setting '{name}'; {known}")
        grid: dict[str, tuple[Entries, Origin]] = {}
        for name, values, origin in (*_settings(self.of_study), *_settings(of_row)):
            if full := _full(name, of_method):
                self.applied.add(name)
                grid[full] = _values(name, values, origin), origin
        if not grid:
            return None
        for name in grid:
            _check_unset(label, name, entry)
        section = lay(self.of_study, of_row)
        origin = (of_row or section).origin
        seeds = self._seeds(section, origin)
        lists = reduce(lay, (_nested(name, *values) for name, values in grid.items()), Section((), origin))
        points = [(taken, make_row(lay(entry, point))) for point, taken in expand(lists)]
        return SearchedRow(points, seeds, _rungs(label, section, origin, points[0][1].training.rounds), origin)

    def unused(self) -> list[str]:
        """A sentence for each setting of the study's search that no row has; StudyError for one of no method at all."""
        unused = [(name, origin) for name, _, origin in _settings(self.of_study) if name not in self.applied]
        methods = [description("methods", method) for method in names("methods")] if unused else []
        known = {*TRAINING_SETTINGS, *(parameter["name"] for about in methods for parameter in about["parameters"])}
        for name, origin in unused:
            if name not in known:
                raise StudyError(_above(origin, name), f"no method has a setting '{name}'; {nearest(name, known)}")
        return [f"{origin.label}: no row here has the setting, so nothing is searched for it" for _, origin in unused]

    def _seeds(self, section: Section, origin: Origin) -> list[Seeds]:
        origin = section.origins.get(SEEDS) or origin.child(SEEDS)
        of_table = {(partition, train) for _, partition, train in self.study.table_seeds}
        seeds = self.study.with_fixed(section.get(SEEDS, DEFAULT_SEEDS))
        for seed, partition, train in seeds:
            if seed in self.study.seeds:
                problem = f"seed {seed} is one of the table's, for which nothing may be chosen; set other seeds here"
                raise StudyError(origin, problem)
            if (partition, train) in of_table or len(seeds) > len({pair[1:] for pair in seeds}):
                problem = "with both partition_seed and train_seed fixed, a search would repeat the table's run"
                raise StudyError(origin, problem)
        return seeds


def _rungs(label: str, search: Section, origin: Origin, rounds: int) -> tuple[int, ...]:
    """The rungs; StudyError where they do not grow, or one has more `rounds` than the row's cells in the table."""
    rungs = tuple(search.get(RUNGS, ()))
    if list(rungs) != sorted(rungs):
        raise StudyError(search.origins[RUNGS], f"numbers of rounds have to grow, got {list(rungs)}")
    if rungs and rungs[-1] > rounds:
        problem = f"{rungs[-1]} rounds are more than the {rounds} of '{label}' in the table (training.rounds)"
        raise StudyError(origin.child(RUNGS), problem)
    return rungs


def _search_in(section: Section) -> Section:
    """The search below a study or a row; empty where there is none, or it is switched off."""
    search = section.get(KEY)
    if search is True:
        raise StudyError(section.origins[KEY], "name settings with lists of values, such as {lr: [0.01, 0.1]}")
    return search or Section()


def _settings(search: Section) -> Iterator[tuple[str, Any, Origin]]:
    """The settings of a search with their values and origins."""
    yield from leaves(search - (GRID, SEEDS, RUNGS))
    if GRID in search:
        yield from leaves(search[GRID])


def _full(name: str, of_method: Collection[str]) -> str | None:
    """The full name of a setting for a method, whose own settings come first; None where it has none of that name."""
    if name in of_method:
        return name
    if name.removeprefix(TRAINING).partition(".")[0] in TRAINING_SETTINGS:
        return TRAINING + name.removeprefix(TRAINING)
    return None


def _values(name: str, values: Any, origin: Origin) -> Entries:
    if name.removeprefix(TRAINING) == "rounds":
        raise StudyError(origin, f"the number of rounds is not searched; {RUNGS} stops points after fewer rounds")
    if not isinstance(values, Entries):
        raise StudyError(origin, f"expected a list of values to choose from, got {values!r}")
    if len(values) < 2:
        raise StudyError(origin, f"{list(values)} leaves nothing to choose; list two values or more")
    if any(value in values[:i] for i, value in enumerate(values)):
        raise StudyError(origin, f"duplicate value in {list(values)}")
    return values


def _check_unset(label: str, name: str, entry: Section) -> None:
    """Raises StudyError where the row sets a setting that is searched."""
    section, key = entry, name
    while "." in key and isinstance(section.get(key.partition(".")[0]), Section):
        head, _, key = key.partition(".")
        section = section[head]
    if key not in section:
        return
    short = name.removeprefix(TRAINING)
    origin = section.origins[key]
    if not origin.key.endswith(key):  # an entry of a list, such as methods.fedprox.mu.0
        problem = f"the list makes a row of each value, and {KEY} chooses among values of {short}; keep one of the two"
    else:
        mend = f"remove one of the two, or set {KEY}: false in the row"
        problem = f"'{label}' sets {short}, which {KEY} chooses too; {mend}"
    raise StudyError(origin, problem)


def _above(origin: Origin, name: str) -> Origin:
    """The origin of the mapping in which an unknown setting is named, on the line of the setting."""
    return Origin(origin.file, origin.line, origin.key.removesuffix(f".{name}"))


def _nested(name: str, values: Any, origin: Origin) -> Section:
    """A setting with its values in the form of a row: one of training is below ``training``."""
    head, _, rest = name.partition(".")
    return Section({head: _nested(rest, values, origin) if rest else values}, origin, {head: origin})
