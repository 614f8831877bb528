"""``make numerics [REASON="…"]``: lists edited code that computes the same numbers; see `benchmarks.numerics`.

Nothing is written where a number differs, unless a reason declares that numbers change: those units then get a new
identity, and so their cells new keys. The exit code is not 0 where units stay unlisted.
"""

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.numerics.cases import cases
from benchmarks.numerics.comparing import Compared, compare
from benchmarks.numerics.inputs import write_inputs
from benchmarks.numerics.listing import evidence, listed, say_in_changelog, write
from benchmarks.numerics.trees import ROOT, last_listed, this_tree
from fedgrid.command import run
from fedgrid.errors import UserError, say
from fedgrid.grid.study import ledger
from fedgrid.grid.study.canonical import digest
from fedgrid.grid.study.ledger import Code
from fedgrid.grid.study.sources import Sources

CHANGELOG = ROOT / "CHANGELOG.md"
STEP = 20
"Seconds between two lines that tell how far it is."
Codes = Mapping[str, Code]
"By unit."


def gather(reason: str = "") -> None:
    """Compares what is not listed with the last commit whose code is, and lists it; UserError where that cannot be."""
    start, tree = time.monotonic(), this_tree()
    unlisted = ledger.unlisted(tree.sources)
    if not unlisted:
        say("the code of every unit is listed", sys.stdout)
        return
    with tempfile.TemporaryDirectory(prefix="numerics-") as name, last_listed(Path(name) / "tree") as (before, commit):
        earlier = earlier_codes(unlisted, before.sources)
        edits = {unit: edited(code, earlier.get(unit, {})) for unit, code in unlisted.items()}
        write_inputs(Path(name) / "inputs")
        wanted = list(cases(Path(name) / "inputs", set().union(*edits.values())))
        say(f"compared with {commit[:12]}: {', '.join(sorted(unlisted))}", sys.stdout)
        comparisons = list(telling(compare(before, tree, wanted, Path(name)), len(wanted)))
    against = verdicts({unit: edits[unit] for unit in earlier}, comparisons)
    compared = f"{len(comparisons)} cases, {sum(len(one.case.reached) for one in comparisons)} cells"
    say(f"{compared}, {time.monotonic() - start:.0f} s", sys.stdout)
    if against and not reason:
        for unit, why in sorted(against.items()):
            say(f"not listed  {unit}: {why}", sys.stdout)
        raise UserError("nothing is listed, for numbers differ or may differ; if they are meant to, say a REASON")
    same = {unit: (digest(code), unlisted[unit]) for unit, code in earlier.items() if unit not in against}
    new = {unit: code for unit, code in unlisted.items() if unit not in same}
    about = evidence(commit, compared, reason if against else "")
    write(ledger.FILE, listed(ledger.read(), same, new, about))
    if against:
        say_in_changelog(CHANGELOG, against, reason)
    say(f"{len(same)} units listed under the identity that they had, {len(new)} under a new one", sys.stdout)


def earlier_codes(units: Iterable[str], before: Sources) -> dict[str, dict[str, str]]:
    """The code that units had; those that are new are left out."""
    known = {*ledger.units(before)} & {*ledger.read()["units"]}
    return {unit: ledger.code_of(unit, before) for unit in units if unit in known}


def edited(code: Code, earlier: Code) -> set[str]:
    """The modules in which two versions of a unit differ; of a new one, all."""
    return {name for name, _ in {*code.items()} ^ {*earlier.items()}}


def telling(comparisons: Iterable[Compared], number: int) -> Iterator[Compared]:
    """Prints differences as they are found, and now and then how far it is."""
    told = time.monotonic()
    for count, one in enumerate(comparisons, start=1):
        if one.difference:
            say(f"different  {one.case.name}: {one.difference}", sys.stdout)
        elif time.monotonic() - told > STEP:
            told = time.monotonic()
            say(f"{count} of {number} cases are compared", sys.stdout)
        yield one


def verdicts(edits: Mapping[str, set[str]], comparisons: Sequence[Compared]) -> dict[str, str]:
    """By unit, what speaks against it: a difference in a case that it has a part in, or that no case covers it."""
    against = {}
    for unit, modules in edits.items():
        part = [one for one in comparisons if one.case.reaching([unit]).reaching(modules).reached]
        differing = next((one for one in part if one.difference), None)
        if differing:
            against[unit] = f"{differing.case.name}: {differing.difference}"
        elif all(one.failure for one in part):
            failure = f"its cases fail ({part[0].failure})" if part else "no case covers it"
            against[unit] = f"{failure}; add one to benchmarks/numerics/matrix.yaml"
    return against


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make numerics", description="List code that computes the same numbers.")
    parser.add_argument("--reason", default="", help="why numbers change, for CHANGELOG.md")
    parser.set_defaults(action=gather)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # or it would leave a worktree
    return run(parser, argv)


if __name__ == "__main__":
    sys.exit(main())
