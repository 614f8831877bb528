"""``fedgrid prune``: what no study needs any more."""

import argparse

from fedgrid.api import pruning
from fedgrid.cli.parsing import RESULTS, command, flag, option, path


@command(
    option("--configfile", "more studies whose files are kept", type=path, nargs="*", default=[]),
    RESULTS,
    flag("--delete", "delete them"),
)
def prune(arguments: argparse.Namespace) -> int:
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
    return 0
