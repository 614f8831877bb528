"""Keys hold what code computes, as far as the ledger of numerics knows it, and not how it is written."""

import json
import shutil
from pathlib import Path

import pytest
from studies import study_of

import fedgrid
from fedgrid.grid.study import ledger
from fedgrid.grid.study.canonical import digest
from fedgrid.grid.study.ledger import ENGINE, code_of, edited, identity_of, units, unlisted
from fedgrid.grid.study.sources import Sources, forget_files

STUDY = """
name: ledger
data: digits
heterogeneity: [{partition: dirichlet, clients: 4}]
methods: [fedavg, fedprox, mine.py]
"""
MINE = """
from fedgrid.methods.fedavg import FedAvg
from fedgrid.tree import squared_distance


class Mine(FedAvg):
    def loss(self, theta, batch, at):
        return super().loss(theta, batch, at) + squared_distance(theta, at.server.theta)
"""
OPTIMIZERS, FEDPROX = "engine/local/optimizers.py", "methods/fedprox.py"


def test_the_code_of_every_unit_is_listed():
    names = sorted(unlisted(Sources.of()))
    assert not names, f"run `make numerics`, which compares numbers and lists code: {', '.join(names)}"


def test_every_listed_unit_has_an_identity_and_evidence():
    known = ledger.read()
    for unit, identities in known["units"].items():
        digests = [code for one in identities for code in one["code"]]
        assert len({*digests}) == len(digests), f"{unit}: code that is listed twice"
        for one in identities:
            assert one["identity"] and one["code"]
            assert all(0 <= number < len(known["evidence"]) for number in one["code"].values())


@pytest.fixture
def package(working_folder, monkeypatch):
    """A copy of the package whose code is fingerprinted, and a file of the user's; the ledger may be written."""
    folder = working_folder / "fedgrid"
    shutil.copytree(Path(fedgrid.__file__).parent, folder, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(fedgrid, "__file__", str(folder / "__init__.py"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(working_folder / "cache"))
    monkeypatch.setattr(ledger, "FILE", folder / "grid" / "study" / "ledger.json")
    Path("mine.py").write_text(MINE, encoding="utf-8")
    ledger._identities.cache_clear()
    yield folder
    ledger._identities.cache_clear()
    forget_files()


def keys() -> dict[str, str]:
    forget_files()
    return {cell.row.label: cell.key for cell in study_of(STUDY).cells}


def write_ledger(known: dict) -> None:
    ledger.FILE.write_text(json.dumps(known), encoding="utf-8")
    ledger._identities.cache_clear()


def list_code() -> None:
    """Lists all code that is not listed under the identity that its unit has."""
    known = ledger.read()
    for unit, code in unlisted(Sources.of()).items():
        known["units"][unit][-1]["code"][digest(code)] = 0
    write_ledger(known)


def replace(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


def test_an_edit_has_new_keys_until_it_is_listed_and_a_reverted_one_the_old_keys(package):
    before, text = keys(), (package / OPTIMIZERS).read_text(encoding="utf-8")
    replace(package / OPTIMIZERS, "0.9, 0.999, 1e-8", "0.9, 0.999, 1e-7")
    assert not {*before.values()} & {*keys().values()}
    list_code()
    assert keys() == before
    (package / OPTIMIZERS).write_text(text, encoding="utf-8")
    assert keys() == before


def test_a_method_has_a_new_key_alone(package):
    before = keys()
    replace(package / FEDPROX, "self.mu / 2", "self.mu / 4")
    after = keys()
    assert [label for label in before if after[label] != before[label]] == ["fedprox"]


def test_a_module_that_is_split_and_renamed_keeps_all_keys(package):
    before = keys()
    text = (package / "tree.py").read_text(encoding="utf-8")
    (package / "engine" / "local" / "forest.py").write_text(text, encoding="utf-8")
    (package / "tree.py").write_text("from fedgrid.engine.local.forest import *  # noqa: F403\n", encoding="utf-8")
    assert keys() != before
    list_code()
    assert keys() == before


def test_new_numbers_are_a_new_identity_beside_the_old_one(package):
    before, text = keys(), (package / FEDPROX).read_text(encoding="utf-8")
    replace(package / FEDPROX, "self.mu / 2", "self.mu / 4")
    changed = keys()
    known = ledger.read()
    for unit, code in unlisted(Sources.of()).items():
        known["units"][unit].append({"identity": code, "code": {digest(code): 0}})
    write_ledger(known)
    assert keys() == changed != before
    (package / FEDPROX).write_text(text, encoding="utf-8")
    assert keys() == before


def test_identities_that_name_a_module_differently_are_both_in_the_key(package):
    sources = Sources.of()
    one, other = "fedgrid.methods.fedprox", "fedgrid.methods.ditto"
    before = identity_of([one, other], sources)
    known = ledger.read()
    known["units"][one][0]["identity"]["fedgrid.methods.fedavg"] = "another"
    write_ledger(known)
    together = identity_of([one, other], sources)
    assert together.keys() == before.keys()
    assert together["fedgrid.methods.fedavg"] not in ("another", before["fedgrid.methods.fedavg"])
    assert identity_of([other], sources)["fedgrid.methods.fedavg"] == before["fedgrid.methods.fedavg"]


def test_what_is_edited_is_named_as_far_down_as_it_can_be_told(package):
    sources, entries = Sources.of(), [ENGINE, "fedgrid.methods.fedprox", "fedgrid.methods.fedproto"]
    assert edited(entries, sources) == set()
    replace(package / OPTIMIZERS, "0.9, 0.999, 1e-8", "0.9, 0.999, 1e-7")
    forget_files()
    assert edited(entries, sources) == {ENGINE}
    replace(package / "methods" / "fedavg.py", "from ", "USED = 1\nfrom ")
    forget_files()
    assert edited(entries, sources) == {ENGINE, "fedgrid.methods.fedavg"}
    (package / "tree.py").write_text((package / "tree.py").read_text("utf-8") + "\nUSED = 1\n", encoding="utf-8")
    forget_files()
    assert edited(entries, sources) == {"fedgrid.tree", "fedgrid.methods.fedavg"}


def test_a_method_leaves_out_what_the_engine_has():
    sources = Sources.of()
    engine = code_of(ENGINE, sources)
    assert {"fedgrid.tree", "fedgrid.randomness", "fedgrid.engine.rounds"} <= {*engine}
    for unit in units(sources):
        if unit.startswith("fedgrid.methods."):
            assert unit in code_of(unit, sources) and not {*code_of(unit, sources)} & {*engine}
