"""``fedgrid adopt``: results under earlier code are carried to today's keys where checks show the same bits."""

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fedgrid.cli.parsing import Commands, path, with_examples
from fedgrid.cli.studies import DEFAULT, add_choice, read_study
from fedgrid.errors import UserError, say
from fedgrid.grid.adoption.candidates import Candidate, Group, groups
from fedgrid.grid.adoption.coverage import to_check
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
    store = studies[0].store
    if not store.is_dir():
        raise UserError(f"{store}: no results yet")
    if arguments.store and not (arguments.store / "cells").is_dir():
        raise UserError(f"--from: {arguments.store} is not a store; give the folder that contains 'cells'")
    if arguments.dry_run:
        return _say_plan(_groups(studies, arguments.store), arguments.check)
    lock = StoreLock(store)
    lock.acquire()
    try:
        return _undo(store) if arguments.undo else _carry(studies, arguments)
    finally:
        lock.release()


def _groups(studies: Sequence[Study], store: Path | None) -> list[Group]:
    return groups((cell for study in studies for cell in study.cells), store)


def _undo(store: Path) -> int:
    from fedgrid.jobs.adoption import undo

    files = undo(store)
    print(f"{len(files):,} results have their earlier keys again" if files else "nothing was adopted")
    return 0


def _say_plan(groups: Sequence[Group], least: int) -> int:
    """Says what a call without ``--dry-run`` would do."""
    from fedgrid.jobs.adoption import is_of_this_machine

    for group in groups:
        print(_title(group))
        print(f"  edited: {edited_modules(group.edited)}")
        if is_of_this_machine(group.circumstances):
            _say_sample(group, to_check(group, least))
        else:
            print(f"  waits for another machine: {group.circumstances}")
    if not groups:
        print("no missing cell has results under earlier code")
    return 0


def _say_sample(group: Group, sample: Sequence[Candidate]) -> None:
    minutes = sum(candidate.metadata["costs"]["seconds"]["total"] for candidate in sample) / 60
    unchecked = len(group.candidates) - len(sample)
    print(f"  to train and compare: {len(sample)}, which took {minutes:.1f} minutes before; to adopt then: {unchecked}")
    for candidate in sample:
        print(f"    {candidate.cell.description}")


def _carry(studies: Sequence[Study], arguments: argparse.Namespace) -> int:
    """Checks and carries; the exit code is 1 where a group was refused."""
    from fedgrid.jobs.adoption import adopt, is_of_this_machine  # torch takes seconds to import

    checkable: list[Group] = []
    elsewhere: list[Group] = []
    for group in _groups(studies, arguments.store):
        (checkable if is_of_this_machine(group.circumstances) else elsewhere).append(group)
    verdicts: list[Verdict] = []
    for verdict in adopt(checkable, studies, arguments.cores, arguments.check, lambda line: say(line, sys.stdout)):
        print(_sentence(verdict))
        verdicts.append(verdict)
    for group in elsewhere:
        print(f"{_title(group)}\n  waits for another machine; run the same command on {group.circumstances}")
    refused = sum(len(verdict.group.candidates) for verdict in verdicts if verdict.refused)
    print(
        f"{sum(verdict.carried for verdict in verdicts):,} cells adopted, {sum(v.trained for v in verdicts):,} trained "
        f"to check them; {refused:,} refused, {sum(len(group.candidates) for group in elsewhere):,} for another machine"
    )
    return 1 if refused else 0


def _sentence(verdict: "Verdict") -> str:
    """What became of a group, in two lines or three."""
    group, lines = verdict.group, [_title(verdict.group)]
    if verdict.refused:
        lines += [f"  refused: {verdict.refused}", f"  edited: {edited_modules(group.edited)}"]
    else:
        lines.append(f"  {verdict.carried:,} adopted: all bits of {verdict.checked:,} checked cells are equal")
    return "\n".join(lines)


def adoptable(studies: Iterable[Study]) -> list[str]:
    """A sentence where cells to be trained have results under earlier code; empty where none has."""
    groups = _groups([*studies], None)
    number = len({candidate.cell.key for group in groups for candidate in group.candidates})
    edited = tuple(dict.fromkeys(name for group in groups for name in group.edited))
    have = "cell has" if number == 1 else "cells have"
    return [f"{number:,} {have} results under earlier code ({edited_modules(edited)} edited): fedgrid adopt"] * bool(
        groups
    )


def _title(group: Group) -> str:
    number, codes = len(group.candidates), f"{group.code_before[:8]} → {group.code_now[:8]}"
    return f"{group.method} on {group.model}, code {codes}: {number} cell{'s' if number > 1 else ''}"


def edited_modules(names: Sequence[str], most: int = 4) -> str:
    """Some names of modules, without the package's."""
    short = [name.removeprefix("fedgrid.").replace(".", "/") for name in names]
    more = f" and {len(short) - most} more" if len(short) > most else ""
    return ", ".join(short[:most]) + more if short else "the partition or the data, not the cell's own modules"
