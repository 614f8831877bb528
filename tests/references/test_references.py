"""Every method's state after rounds with idle clients is what its paper's equations give, computed client by client.

A file of this folder is named after its method and has `SETTINGS`, hyperparameters of several runs, and
``state(clients, …)``: entries of the server's state, and of each client's, after all rounds. What it leaves out is not
compared. It may have `TRAINING`, settings of the study, and ``used(clients, server, own, …)``, the model of each client
on receiving the server's message then, or `MODEL`, the entry of a client that is this model. Otherwise it is a client's
`theta` with the server's in its place, as far as there are such.
"""

from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest
import torch
from references.clients import Clients
from tiers import every_third

from fedgrid.engine.federation.participation import everyone
from fedgrid.engine.local.loop import Loop
from fedgrid.engine.local.stacked import Stacked
from fedgrid.engine.rounds import federate
from fedgrid.loading import names
from fedgrid.suite import simulations

TOLERANCE = 1e-12
FILES = sorted(file.stem for file in Path(__file__).parent.glob("*.py") if file.stem in names("methods"))
EXECUTORS = {"one by one": Loop, "together": Stacked}
CASES = [
    pytest.param(name, settings, executor, marks=() if executor == usual else pytest.mark.full)
    for name in FILES
    for number, settings in enumerate(import_module(f"references.{name}").SETTINGS)
    for usual in ["together" if number else "one by one"]
    for executor in EXECUTORS
]
"""Every setting of a method by both executors; `make test` has the first one by the simple one."""


def stacked(trees):
    """A list of trees as a tree of stacks."""
    if isinstance(trees[0], dict):
        return {name: stacked([tree[name] for tree in trees]) for name in trees[0]}
    return torch.stack([torch.as_tensor(t) for t in trees])


def compare(ours, theirs, name=""):
    """Asserts that all entries of the reference, `theirs`, are ours."""
    if isinstance(theirs, dict):
        for key, value in theirs.items():
            compare(ours[key], value, f"{name}.{key}")
        return
    ours, theirs = ours.double(), torch.as_tensor(theirs).double()  # truth values, too
    assert ours.shape == theirs.shape, name
    largest = theirs.nan_to_num().abs().max().clamp(min=1e-3).item() if theirs.numel() else 1.0
    assert torch.allclose(ours, theirs, rtol=0, atol=TOLERANCE * largest, equal_nan=True), (
        f"{name} differs by {float((ours - theirs).abs().max()):.2g}"
    )


def models_used(reference, clients, server, own, settings):
    """The models that clients use after all rounds, one of each."""
    if hasattr(reference, "used"):
        return reference.used(clients, server, own, **settings)
    if hasattr(reference, "MODEL"):
        return [entries[reference.MODEL] for entries in own]
    return [entries.get("theta", {}) | server.get("theta", {}) for entries in own or [{}] * len(clients.ids)]


@pytest.mark.parametrize(("name", "settings", "executor"), CASES, ids=str)
def test_the_state_is_that_of_the_papers_equations(name, settings, executor):
    reference = import_module(f"references.{name}")
    clients = Clients(**getattr(reference, "TRAINING", {}))
    server, own = reference.state(clients, **settings)
    models = models_used(reference, clients, server, own, settings)
    method = simulations.method(name, **settings)
    simulation = replace(clients.simulation, executor=EXECUTORS[executor]())
    actual = federate(method, simulation).progress.state
    compare(actual.server, server, "server")
    if own:
        compare(actual.clients, stacked(own), "clients")
    assert models[0]
    with torch.no_grad():
        compare(method.used(everyone(simulation, simulation.training.rounds, actual), actual), stacked(models))


OPTIONS = [(name, settings) for name in FILES for settings in import_module(f"references.{name}").SETTINGS[1:]]


@pytest.mark.parametrize(("name", "settings"), every_third(OPTIONS, several=True), ids=str)
def test_options_of_a_method_with_batch_norm_and_a_client_without_images(name, settings):
    """The edge cases of the suite have no options."""
    train = [[], simulations.draw([0, 1, 2]), simulations.draw([3])]
    simulation = simulations.simulation(train, [simulations.draw([0])] * 3, norm="batch")
    assert simulations.run(name, simulation, **settings).status == "ok"


def test_somebody_never_takes_part_and_somebody_now_and_then():
    clients = Clients()
    rounds = [clients.drawn(t) for t in range(clients.simulation.training.rounds)]
    times = [sum(i in drawn for drawn in rounds) for i in clients.ids]
    assert min(times) == 0 and any(0 < number < len(rounds) for number in times)
