"""The cells of a study that a few words mean: words of its tables or parts of them, in upper or lower case."""

import difflib
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from fedgrid.errors import UserError
from fedgrid.grid.plan.model import Cell
from fedgrid.grid.plan.planned_study import Experiment, Study, first_by_name
from fedgrid.grid.study.model import OWN_FILE

SHORTEST_KEY = 4
"Digits of a key that a word needs; fewer may be a seed."
SHORTEST_BEGINNING = 3
"Letters that stand for a longer word."
NUMBER = re.compile(r"\d+\.\d\d *%?")
"An accuracy as tables print it."
LISTED = 3
"Names or cells that a sentence lists."


def the_cell(study: Study, selection: Sequence[str], command: str) -> Cell:
    """The one cell that matches all words; UserError for no match, or for several."""
    cells = matching_cells(study, selection)
    if not cells:
        raise no_cell([study], selection, command)
    if len(cells) > 1:
        raise _several(study.name, selection, command, cells)
    return cells[0]


def looked_through(
    studies: Iterable[tuple[str, Study]], cells_of: Callable[[Study], list[Cell]], command: str
) -> tuple[list[tuple[str, Study]], list[Cell]]:
    """The named studies up to the first that has such cells, and these; all studies, where none has any.

    Raises UserError where there is no study.
    """
    searched = []
    for named in studies:
        searched.append(named)
        if cells := cells_of(named[1]):
            return searched, cells
    if not searched:
        raise UserError(f"{command}: there is no study in config/; name one with --configfile")
    return searched, []


def file_of_key(store: Path, selection: Sequence[str], pattern: str) -> Path | None:
    """The one file of the store that fits a pattern with the key of a cell, where a selection is nothing but a key.

    The cell may be of another study, or of other code.
    """
    if len(selection) != 1 or not re.fullmatch("[0-9a-f]{4,16}", selection[0]):
        return None
    files = [file for file in store.glob(pattern.format(key=selection[0])) if file.name.count(".") == 1]
    return files[0] if len(files) == 1 else None


def check_alike(study_name: str, selection: Sequence[str], command: str, cells: Sequence[Cell]) -> None:
    """Raises UserError where the cells of a study that match all words differ in more than their seeds."""
    first, *others = ({**cell.spec, "partition": cell.partition.key, "seed": None} for cell in cells)
    if any(other != first for other in others):
        raise _several(study_name, selection, command, cells)


def cells_behind(study: Study, selection: Sequence[str]) -> list[Cell]:
    """The cells that match all words, each once; a word that matches none may be a number that a table prints."""
    numbers = [word for word in selection if NUMBER.fullmatch(word)]
    if (cells := matching_cells(study, selection)) or len(numbers) != 1:
        return cells
    from fedgrid.analysis.prose.cell_scores import entries_that_print  # it imports pandas, which takes half a second
    from fedgrid.analysis.scores.results import load

    files = [experiment.folder / "results.parquet" for experiment in study.experiments]
    number = numbers[0].rstrip(" %")
    entries = {entry for file in files if file.is_file() for entry in entries_that_print(load(file), number)}
    others = [word for word in selection if word not in numbers]
    cells = matching_cells(study, others) if others else list(study.by_key.values())
    return [cell for cell in cells if cell.table_position[:3] in entries]


def matching_cells(study: Study, selection: Sequence[str]) -> list[Cell]:
    """The cells that match all words, each once."""
    named = _named_cells(study)
    numbers = set(range(len(named))).intersection(*(_meant(word, named) for word in _words(selection, named)))
    cells = (named[number][0] for number in sorted(numbers))
    return list(first_by_name((cell.key, cell) for cell in cells).values())


def no_cell(studies: Sequence[Study], selection: Sequence[str], command: str) -> UserError:
    """What to change where no cell of any study matches all words: the word that matches none, or that is too many."""
    study = min(studies, key=lambda study: len(_unknown(study, selection)))
    unknown, selection = _unknown(study, selection), _words(selection, _named_cells(study))
    names_of_studies = list(dict.fromkeys(study.name for study in studies))
    more = f" and {len(names_of_studies) - LISTED} more" if len(names_of_studies) > LISTED else ""
    where = f"{', '.join(names_of_studies[:LISTED])}{more}"
    if unknown:
        word = unknown[0]
        names = dict.fromkeys(name for study in studies for _, names in _named_cells(study) for name in names)
        close = difflib.get_close_matches(_plain(word), names, LISTED)
        hint = f"nearest: {', '.join(close)}; " if close else ""
        return UserError(f"{command}: no cell of {where} fits '{word}'; {hint}fedgrid plan --cells lists them")
    text = " ".join(selection)
    for word in reversed(selection):
        others = matching_cells(study, [other for other in selection if other != word])
        if others:
            examples = "; ".join(cell.description for cell in others[:LISTED])
            return UserError(f"{command}: no cell of {where} fits '{text}'; without '{word}' there are {examples}")
    return UserError(f"{command}: no cell of {where} fits '{text}'; fedgrid plan --cells lists them")


def _unknown(study: Study, selection: Sequence[str]) -> list[str]:
    """The words that match no cell."""
    named = _named_cells(study)
    return [word for word in _words(selection, named) if not _meant(word, named)]


def _several(study_name: str, selection: Sequence[str], command: str, cells: Sequence[Cell]) -> UserError:
    text = " ".join(selection)
    entries = {cell.table_position[:3]: cell for cell in reversed(cells)}  # seeds of one entry say less than its others
    named = [*reversed(entries.values())] if len(entries) > 1 else cells
    examples = "; ".join(f"{cell.key[:8]} ({cell.description})" for cell in named[:LISTED])
    return UserError(f"{command}: {len(cells)} cells of {study_name} fit '{text}': say more, such as {examples}")


def _named_cells(study: Study) -> list[tuple[Cell, set[str]]]:
    """Every cell of every experiment, and in lower case what it is called; trials of searches have their keys alone."""
    shown = [(cell, _names(cell, experiment)) for experiment in study.experiments for cell in experiment.cells]
    keys = {cell.key for cell, _ in shown}
    trials = {cell.key: cell for experiment in study.experiments for cell in experiment.trials}
    return shown + [(cell, set()) for key, cell in trials.items() if key not in keys]


def _names(cell: Cell, experiment: Experiment) -> set[str]:
    row, partition = cell.row, cell.partition
    names = {experiment.id, experiment.about.source, row.label, row.title, row.component.name}
    names |= {partition.data.label, partition.data.title, partition.data.name}
    names |= {cell.heterogeneity, partition.description, partition.sentence}
    names |= {f"s{cell.seed}", f"seed {cell.seed}", str(cell.seed)}
    return {name.casefold() for name in names if name}


def _meant(word: str, named: Sequence[tuple[Cell, set[str]]]) -> set[int]:
    """The numbers of the cells that are called by a word, or else by more words of which it is a part."""
    text, file = _plain(word), Path(word).name
    called = {number for number, (cell, names) in enumerate(named) if text in names or _is_identity(word, file, cell)}
    if called or not text:
        return called
    ending = "" if text[-1].isalpha() and len(text) >= SHORTEST_BEGINNING else r"(?!\w|\.\d)"
    part = re.compile(rf"(?<![\w.]){re.escape(text)}{ending}")
    return {number for number, (_, names) in enumerate(named) if any(map(part.search, names))}


def _is_identity(word: str, file: str, cell: Cell) -> bool:
    """Whether a word is the beginning of a cell's key, or the name of its results or of its log."""
    is_key = len(word) >= SHORTEST_KEY and cell.key.startswith(word.casefold())
    return is_key or file in (cell.file.name, cell.log.name)


def _words(selection: Sequence[str], named: Sequence[tuple[Cell, set[str]]]) -> list[str]:
    """The words of a selection; what fits no cell as it stands is taken apart at its commas, and then at its blanks.

    ``seed`` and the number behind it are one word.
    """
    words: list[str] = []
    for part in (part for word in selection for part in _parts(word, named)):
        if words and words[-1].casefold() == "seed" and part.isdecimal():
            words[-1] += f" {part}"
        else:
            words.append(part)
    return words


def _parts(word: str, named: Sequence[tuple[Cell, set[str]]]) -> list[str]:
    if _meant(word, named):
        return [word]
    for separator in (",", None):
        parts = [part.strip() for part in word.split(separator) if part.strip()]
        if parts not in ([], [word]):
            return [below for part in parts for below in _parts(part, named)]
    return [word]


def _plain(word: str) -> str:
    """A word of a table in lower case, without what marks a method of the user's own."""
    return word.removesuffix(OWN_FILE).casefold()
