"""``fedgrid adopt``: results under earlier code are carried to today's keys where checks show the same bits."""

import argparse
import sys
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from fedgrid.api.study_file import DEFAULT, read_study
from fedgrid.cli.parsing import Commands, path, with_examples
from fedgrid.cli.phrases import counted, duration
from fedgrid.cli.studies import add_choice
from fedgrid.errors import UserError, say
from fedgrid.files import check_writable
from fedgrid.grid.adoption.candidates import Candidate, Group, groups
from fedgrid.grid.adoption.coverage import choose_cells_to_check
from fedgrid.grid.plan.planned_study import Study
from fedgrid.run.lock import StoreLock

if TYPE_CHECKING:
    from fedgrid.jobs.adoption import Verdict

EXAMPLES = """
fedgrid adopt --dry-run
fedgrid adopt --configfile config/papers/*.yaml --scale small --cores 2
fedgrid adopt --from ../colleague/results/store --check 4
fedgrid adopt --undo
"""

NOTHING = "no missing cell has results under earlier code"


def add_commands(commands: Commands) -> None:
    """Adds `fedgrid adopt` to the command line."""
    text = "after an update of the code, keep results whose numbers have not changed, checking some of them"
    adopt = with_examples(commands, "adopt", text, EXAMPLES)
    text = f"the studies (default: {DEFAULT})"
    adopt.add_argument("--configfile", type=path, nargs="+", default=[DEFAULT], metavar="FILE", help=text)
    add_choice(adopt)
    text = "the folder of a store with earlier results (default: that of the studies)"
    adopt.add_argument("--from", dest="store", type=path, metavar="STORE", help=text)
    text = "least number of cells of each group to train again and compare (default: 2)"
    adopt.add_argument("--check", type=int, default=2, metavar="N", help=text)
    adopt.add_argument("--cores", type=int, default=1, metavar="N", help="cells to train at a time (default: 1)")
    form = adopt.add_mutually_exclusive_group()
    form.add_argument("--dry-run", action="store_true", help="show what would be checked and adopted, and do nothing")
    form.add_argument("--undo", action="store_true", help="undo the latest adoption")
    adopt.set_defaults(call=_adopt)


def _adopt(arguments: argparse.Namespace) -> int:
    for option, value in (("--check", arguments.check), ("--cores", arguments.cores)):
        if value < 1:
            raise UserError(f"{option}: must be at least 1, got {value}")
    studies = [read_study(file, arguments.scale, arguments.only) for file in arguments.configfile]
    stores = list(dict.fromkeys(study.store for study in studies))
    for store in stores if not arguments.store else ():
        if not store.is_dir():
            raise UserError(f"{store}: no results yet")
    if arguments.store and not (arguments.store / "cells").is_dir():
        raise UserError(f"--from: {arguments.store} is not a store; give the folder that contains 'cells'")
    if arguments.dry_run:
        return _say_plan(_groups(studies, arguments.store), arguments.check)
    with ExitStack() as locks:
        for store in stores:
            check_writable(store, "results")
            lock = StoreLock(store)
            lock.acquire()
            locks.callback(lock.release)
        return _undo(stores) if arguments.undo else _carry(studies, arguments)


def _groups(studies: Sequence[Study], store: Path | None) -> list[Group]:
    return groups((cell for study in studies for cell in study.known.values()), store)


def _undo(stores: Iterable[Path]) -> int:
    from fedgrid.jobs.adoption import undo

    files = [file for store in stores for file in undo(store)]
    have = "has its earlier key" if len(files) == 1 else "have their earlier keys"
    print(f"{counted(len(files), 'result')} {have} again" if files else "nothing was adopted")
    return 0


def _say_plan(groups: Sequence[Group], least: int) -> int:
    """Says what a call without ``--dry-run`` would do."""
    from fedgrid.jobs.adoption import refusal
    from fedgrid.jobs.retraining import obstacles

    for group in groups:
        print(_title(group))
        print(f"  edited: {edited_modules(group.edited)}")
        if differing := obstacles(group.circumstances):
            print(_elsewhere(differing))
        elif sentence := refusal(group, group.checked):
            print(f"  would be refused: {sentence}")
        else:
            _say_sample(group, choose_cells_to_check(group, least))
    if not groups:
        print(NOTHING)
    return 0


def _say_sample(group: Group, sample: Sequence[Candidate]) -> None:
    seconds = sum(candidate.metadata["costs"]["seconds"]["total"] for candidate in sample)
    time = f", which took {duration(seconds)} before" if sample else ""
    already = f" ({len(group.checked):,} compared already)" if group.checked else ""
    unchecked = len(group.candidates) - len(sample)
    print(f"  to train and compare: {len(sample):,}{already}{time}; to adopt then: {unchecked:,}")
    for candidate in sample:
        print(f"    {candidate.cell.description}")


def _elsewhere(differing: Sequence[str]) -> str:
    """Why a group waits."""
    return f"  cannot be checked here: computed with {', '.join(differing)}"


def _carry(studies: Sequence[Study], arguments: argparse.Namespace) -> int:
    """Checks and carries; the exit code is 1 where a group was refused."""
    from fedgrid.jobs.adoption import adopt  # torch takes seconds to import
    from fedgrid.jobs.retraining import obstacles

    groups = _groups(studies, arguments.store)
    if not groups:
        print(NOTHING)
        return 0
    reasons = [(group, obstacles(group.circumstances)) for group in groups]
    checkable = [group for group, differing in reasons if not differing]
    verdicts: list[Verdict] = []
    for verdict in adopt(checkable, studies, arguments.cores, arguments.check, lambda line: say(line, sys.stdout)):
        print(_sentence(verdict))
        verdicts.append(verdict)
    for group, differing in reasons:
        if differing:
            print(f"{_title(group)}\n{_elsewhere(differing)}")
    print(_summary(verdicts, elsewhere=sum(len(group.candidates) for group, differing in reasons if differing)))
    if any(verdict.refused for verdict in verdicts):
        print("the next run trains the refused cells; their earlier results stay in the store")
        return 1
    return 0


def _summary(verdicts: Sequence["Verdict"], elsewhere: int) -> str:
    """What became of all cells; `elsewhere` is the number of those that cannot be checked here."""
    carried, trained = sum(verdict.carried for verdict in verdicts), sum(verdict.trained for verdict in verdicts)
    refused = sum(len(verdict.group.candidates) for verdict in verdicts if verdict.refused)
    adopted = f"{counted(carried, 'cell')} adopted, {trained:,} trained to check them"
    return f"{adopted}; {refused:,} refused, {elsewhere:,} that cannot be checked here"


def _sentence(verdict: "Verdict") -> str:
    """What became of a group, in two lines or three."""
    group, lines = verdict.group, [_title(verdict.group)]
    if verdict.refused:
        lines += [f"  refused: {verdict.refused}", f"  edited: {edited_modules(group.edited)}"]
    else:
        lines.append(f"  {verdict.carried:,} adopted: all bits of {counted(verdict.checked, 'checked cell')} are equal")
    return "\n".join(lines)


def adoption_hints(studies: Iterable[Study]) -> list[str]:
    """A sentence where cells to be trained have results under earlier code; empty where none has."""
    groups = _groups([*studies], None)
    number = len({candidate.cell.key for group in groups for candidate in group.candidates})
    edited = tuple(dict.fromkeys(name for group in groups for name in group.edited))
    have = "has" if number == 1 else "have"
    sentence = f"{counted(number, 'cell')} {have} results under earlier code ({edited_modules(edited)} edited)"
    return [f"{sentence}: fedgrid adopt"] if groups else []


def _title(group: Group) -> str:
    number, codes = len(group.candidates), f"{group.code_before[:8]} → {group.code_now[:8]}"
    return f"{group.method} on {group.model}, code {codes}: {counted(number, 'cell')}"


def edited_modules(names: Sequence[str], most: int = 4) -> str:
    """Some names of modules, without the package's."""
    short = [name.removeprefix("fedgrid.").replace(".", "/") for name in names]
    more = f" and {len(short) - most} more" if len(short) > most else ""
    return ", ".join(short[:most]) + more if short else "code of the partition or the data"
