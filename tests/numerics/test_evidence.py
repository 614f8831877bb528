"""What `make numerics` finds: every edit that changes a bit, and no other."""

import shutil

import pytest
from edits import DIFFERENT, EDITS

from benchmarks.numerics.__main__ import earlier_codes, edited, verdicts
from benchmarks.numerics.cases import cases
from benchmarks.numerics.comparing import Computing, compare_with
from benchmarks.numerics.inputs import write_inputs
from benchmarks.numerics.trees import Tree, this_tree
from fedgrid.grid.study.canonical import digest
from fedgrid.grid.study.ledger import code_of, units


def changed_units(before: Tree, now: Tree) -> dict[str, dict[str, str]]:
    """The units whose code differs in two trees."""
    codes = {unit: code_of(unit, now.sources) for unit in units(now.sources)}
    known = {unit: digest(code_of(unit, before.sources)) for unit in units(before.sources)}
    return {unit: code for unit, code in codes.items() if known.get(unit) != digest(code)}


@pytest.fixture(scope="module")
def every_case(tmp_path_factory):
    """All cases, and the folder of what the code as it is has computed of them: minutes, for all edits at once."""
    folder = tmp_path_factory.mktemp("numerics")
    write_inputs(folder / "inputs")
    planned = list(cases(folder / "inputs"))
    computing = Computing(this_tree(), planned, folder / "before")
    assert all(computing.waits() for _ in planned), computing.last_words
    computing.end()
    return planned, computing.out


@pytest.fixture
def copy(tmp_path) -> Tree:
    """A copy of the tree, to be edited."""
    folder = tmp_path / "tree"
    for name in ("src", "benchmarks"):
        shutil.copytree(this_tree().folder / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    return Tree(folder)


@pytest.mark.full
@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.name)
def test_an_edit_is_seen_for_what_it_is(edit, every_case, copy, tmp_path):
    planned, before = every_case
    edit.apply(copy.folder / "src" / "fedgrid")
    changed = changed_units(this_tree(), copy)
    earlier = earlier_codes(changed, this_tree().sources)
    edits = {unit: edited(code, earlier.get(unit, {})) for unit, code in changed.items()}
    wanted, comparisons = [case for case in planned if case.reaching(set().union(*edits.values())).reached], []
    (tmp_path / "out").mkdir()
    for one in compare_with(before, copy, wanted, tmp_path / "out"):
        comparisons.append(one)
        if one.difference:
            break
    against = verdicts({unit: edits[unit] for unit in earlier}, comparisons)
    assert changed and bool(against) == (edit.changes == DIFFERENT), against
