"""``fedgrid merge``: cells that other people computed, put into one store."""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fedgrid.cli.parsing import command, flag, option, path
from fedgrid.quantities import counted

if TYPE_CHECKING:
    from fedgrid.api.merging.merge import Conflict, Merged

MOST_CONFLICTS = 20
"Conflicts of a source that are printed."
LONGEST_TEXT = 300
"Characters of what a source says of its machine that are printed."


@command(
    option("sources SOURCE", "a file of fedgrid bundle, a folder of results, or its store", type=path, nargs="+"),
    option(
        "--into STORE", "the folder of results, or its store (default: results)", type=path, default=Path("results")
    ),
    option("--prefer SOURCE", "whose results count where numbers differ: a source, or that of --into", type=path),
    flag("--dry-run", "print what would be done, and write nothing"),
)
def merge_(arguments: argparse.Namespace) -> int:
    """Put cells of other people's archives and stores into a store; exit code 1 while conflicts are left.

    fedgrid merge anna.zip ben.zip
    fedgrid merge /mnt/ben/results --dry-run
    fedgrid merge anna.zip --prefer anna.zip
    """
    from fedgrid.api.merging.merge import TAKEN, merge  # pandas takes time to import

    sources, into = arguments.sources, arguments.into
    merged = merge(sources, into, arguments.prefer, arguments.dry_run)
    for source in merged:
        print("\n".join(_lines(source)))
    conflicts = [conflict for source in merged for conflict in source.conflicts]
    new, taken = sum(source.new for source in merged), sum(conflict.outcome == TAKEN for conflict in conflicts)
    replaced = f", {taken:,} replaced" if taken else ""
    print(f"{into}: {counted(new, 'cell')} {'to add' if arguments.dry_run else 'added'}{replaced}")
    if unresolved := [conflict for conflict in conflicts if not conflict.resolved]:
        print("\n".join(_advice(unresolved, into)))
    return int(bool(unresolved))


def _lines(merged: "Merged") -> Iterator[str]:
    """What became of the cells of a source: a line with numbers, and three for each conflict."""
    conflicts = merged.conflicts
    differing = f", {counted(len(conflicts), 'conflict')}" if conflicts else ""
    numbers = counted(merged.new + merged.same + len(conflicts), "cell")
    yield f"{merged.source}: {numbers}, {merged.new:,} new, {merged.same:,} there already{differing}"
    for conflict in conflicts[:MOST_CONFLICTS]:
        yield f"{conflict.outcome:8} {conflict.cell} ({conflict.key}): {conflict.difference}"
        if conflict.here:
            yield f"         here:  {_printable(conflict.here)}"
        yield f"         there: {_printable(conflict.there)}"
    if len(conflicts) > MOST_CONFLICTS:
        yield f"         and {counted(len(conflicts) - MOST_CONFLICTS, 'more conflict')}"


def _advice(unresolved: Sequence["Conflict"], into: Path) -> Iterator[str]:
    """What can be done about conflicts that nobody has decided."""
    unusable = [conflict for conflict in unresolved if not conflict.replaceable]
    if len(unresolved) > len(unusable):
        are = counted(len(unresolved) - len(unusable), "conflict is", "conflicts are")
        yield f"{are} unresolved: --prefer SOURCE takes a source's results, --prefer {into} keeps those that are there"
    if unusable:
        yield f"{counted(len(unusable), 'cell')} cannot be used here: partition or images are not those of {into}"


def _printable(text: str) -> str:
    """A text of a source without what a terminal would obey."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)[:LONGEST_TEXT]
