"""``fedgrid prune | verify``: what no study needs any more, and whether results fit the code."""

import argparse
import sys

from fedgrid.api import pruning
from fedgrid.cli.parsing import FILES, RESULTS, STUDIES, command, files_of, flag, option, path
from fedgrid.errors import UserError, say
from fedgrid.quantities import counted


@command(
    option("--configfile", "more studies whose files are kept", type=path, nargs="*", default=[]),
    RESULTS,
    flag("--delete", "delete them"),
)
def prune(arguments: argparse.Namespace) -> None:
    """List, or delete, files of the store that neither studies here nor their latest runs need.

    fedgrid prune
    fedgrid prune --configfile config/*.yaml --delete
    """
    pruned = pruning.prune(arguments.results, arguments.configfile, arguments.delete)
    for file in pruned.files:
        print(f"{'deleted' if arguments.delete else 'not needed'}  {file}")
    hint = "" if arguments.delete or not pruned.files else "; delete them with fedgrid prune --delete"
    print(f"{len(pruned.files)} of {pruned.of} files, {pruned.size / 1e6:.1f} MB{hint}")
    named = "".join(f", {file}" for file in pruned.studies)
    print(f"all else is needed by tables and latest runs in {arguments.results}{named}")


@command(
    FILES,
    *STUDIES,
    option("--cells N", "cells to train again (default: 10)", type=int, default=10),
    option("--seed S", "seed of the draw; repeat one to draw the same cells (default: a new draw each time)", type=int),
    option("--cores N", "cells to train at a time (default: 1)", type=int, default=1),
)
def verify(arguments: argparse.Namespace) -> int:
    """Whether results fit the code: train some finished cells again, and compare every recorded bit.

    fedgrid verify
    fedgrid verify config/papers/*.yaml --scale small --cells 10 --cores 2
    """
    from fedgrid.api import verification  # torch takes seconds to import

    for name, value in (("--cells", arguments.cells), ("--cores", arguments.cores)):
        if value < 1:
            raise UserError(f"{name}: must be at least 1, got {value}")
    chosen = files_of(arguments), arguments.scale, arguments.only
    drawn = verification.draw(*chosen, arguments.cells, arguments.seed)
    finished = f"{drawn.comparable:,} finished cells"
    print(f"{len(drawn.cells):,} of the {finished} that this machine can compare, drawn with --seed {drawn.seed}")
    for lacking, number in drawn.elsewhere.most_common():
        print(f"{counted(number, 'other')} cannot be compared here: computed with {lacking}")
    differing = 0
    for cell, sentence in verification.verify(drawn, arguments.cores, lambda line: say(line, sys.stdout)):
        print(f"differs  {cell.description}: {sentence}" if sentence else f"equal    {cell.description}")
        differing += bool(sentence)
    trained = counted(len(drawn.cells), "cell")
    equal = f"{trained} trained again: every recorded bit is the same"
    print(f"{differing} of {trained} differ" if differing else equal)
    return int(differing > 0)
