"""A component that changes what all components share is refused: when it is planned, checked and trained."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest
import scipy.special
import torch

from fedgrid.cli.main import main
from fedgrid.engine.rounds import federate
from fedgrid.errors import UserError
from fedgrid.grid.study.catalog import description
from fedgrid.grid.study.patches import ADVICE, Shared
from fedgrid.loading import load
from fedgrid.methods.fedavg import FedAvg
from fedgrid.suite.simulations import ragged

METHOD = '''"""Mine: FedAvg. Nobody, Nowhere 2026."""

import torch

import fedgrid.methods.ditto
import fedgrid.methods.fedavg
from fedgrid.methods.fedavg import FedAvg

{change}


class Mine(FedAvg):
    def round(self, fed, s):
        {later}
        return super().round(fed, s)
'''
NONE = "pass"


def other(*arguments):
    """What the tests put in the place of functions."""


def of(path):
    """The object of a dotted name below fedgrid or torch, and the name of its last part."""
    *names, last = path.split(".")
    found = importlib.import_module(names[0])
    for number, name in enumerate(names[1:], start=1):
        found = getattr(found, name, None) or importlib.import_module(".".join(names[: number + 1]))
    return found, last


@pytest.fixture
def write(working_folder):
    """Writes the method with a change at its import, or in a round."""

    def written(change="", later=NONE):
        (working_folder / "mine.py").write_text(METHOD.format(change=change, later=later))

    return written


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("fedgrid.methods.fedavg.FedAvg.loss", other),
        ("fedgrid.methods.fedavg.FedAvg.predict", other),  # which its base has
        ("fedgrid.methods.ditto.Ditto.lam", 0.5),
        ("fedgrid.methods.ditto.Ditto.__init__", other),
        ("fedgrid.tree.leaves", other),
        ("fedgrid.engine.local.losses.another", other),
        ("torch.nn.functional.relu", torch.tanh),
        ("torch.Tensor.double", other),
        ("torch.Tensor.half_of", other),
    ],
)
def test_what_is_replaced_or_added_is_seen(path, value, monkeypatch):
    holder, name = of(path)
    shared = Shared()
    monkeypatch.setattr(holder, name, value, raising=False)
    assert shared.changes() == shared.patches() == [path]
    monkeypatch.undo()
    assert shared.changes() == []


def test_what_is_removed_or_edited_is_seen(monkeypatch):
    shared = Shared()
    monkeypatch.delattr(FedAvg, "round")
    assert shared.changes() == ["fedgrid.methods.fedavg.FedAvg.round"]
    monkeypatch.undo()
    monkeypatch.setattr(FedAvg.round, "__code__", (lambda self, fed, s: s).__code__)
    assert shared.changes() == ["fedgrid.methods.fedavg.FedAvg.round"]


@pytest.mark.parametrize(
    ("name", "turn", "back"),
    [
        ("the default dtype", torch.set_default_dtype, (torch.float64, torch.float32)),
        ("the number of threads", torch.set_num_threads, (torch.get_num_threads() + 1, torch.get_num_threads())),
        ("deterministic algorithms", torch.use_deterministic_algorithms, (True, False)),
    ],
)
def test_a_switch_of_torch_is_seen(name, turn, back):
    shared = Shared()
    turn(back[0])
    try:
        assert shared.changes()[0] == f"torch: {name}"
    finally:
        turn(back[1])


def test_a_function_of_no_module_is_looked_at_too(monkeypatch):
    function = eval("lambda: None", {"__name__": None})
    monkeypatch.setattr("fedgrid.tree.nowhere", function, raising=False)
    assert Shared().changes() == []


def test_what_another_library_replaces_is_none_of_the_component(monkeypatch):
    shared = Shared()
    monkeypatch.setattr(torch.nn.functional, "softmax", scipy.special.softmax)
    assert shared.changes() == []


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ("FedAvg.loss = lambda self, theta, batch, at: theta", "fedgrid.methods.fedavg.FedAvg.loss"),
        pytest.param("torch.set_default_dtype(torch.float64)", "torch: the default dtype", marks=pytest.mark.full),
    ],
)
def test_a_change_at_import_is_refused(change, name, write):
    write(change)
    with pytest.raises(UserError, match=f"^method 'mine.py' changes {name}, which other cells share"):
        description("methods", "mine.py")
    command = [sys.executable, "-m", "fedgrid.cli.main", "check", "mine.py"]  # this process has to stay as it is
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.startswith(f"fedgrid: 'mine.py' changes {name}, ")


def test_a_change_in_a_round_is_refused_by_the_job(write, capfd):
    write(later="fedgrid.methods.ditto.Ditto.lam = 0.5")
    assert main(["run", "mine.py", "--rounds", "1", "--clients", "2", "--fraction", "0.1"]) == 2
    assert capfd.readouterr().err.endswith(f"mine.py' changes fedgrid.methods.ditto.Ditto.lam, {ADVICE}\n")
    assert not list(Path("results/store/cells").rglob("*.parquet"))


def test_rounds_of_a_method_of_the_package_change_nothing():
    """Torch makes some of its names when they are first used."""
    simulation = ragged(2, rounds=2, batch_size=8)
    shared = Shared()
    federate(load("methods", "fedsac")(), simulation)
    assert shared.patches() == []
