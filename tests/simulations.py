"""Small federations in memory: real digits dealt out to clients by hand; how their results are compared."""

from dataclasses import fields, replace
from functools import cache

import numpy as np
import torch

from fedgrid.data.digits import Digits
from fedgrid.engine.federation.federation import Federation
from fedgrid.engine.federation.participation import everyone, participants
from fedgrid.engine.federation.simulation import Simulation, dtype_of
from fedgrid.engine.federation.traffic import Traffic
from fedgrid.engine.local.client_data import ClientData
from fedgrid.engine.local.loop import Loop
from fedgrid.engine.rounds import federate
from fedgrid.loading import load
from fedgrid.models.mlp import MLP
from fedgrid.settings import Training
from fedgrid.tree import leaves


class Killed(Exception):
    """Stands for the end of a process, of which the engine hears nothing."""


@cache
def digits():
    return Digits().load(None, None).parts["train"]


@cache
def pixels():
    """All images [n, 1, 8, 8], the same tensor for every simulation."""
    return torch.from_numpy(digits().pixels).permute(0, 3, 1, 2).contiguous()


def draw(labels_wanted, start=0):
    """Indices of images with the given labels, from image `start` on, none twice."""
    labels, taken = digits().labels, []
    for wanted in labels_wanted:
        taken.append(next(i for i in range(start, len(labels)) if labels[i] == wanted and i not in taken))
    return taken


def simulation(train, test=None, seed=0, classes=10, executor=None, dropout=0.0, norm="none", **training):
    """A simulation whose client i trains on the images train[i] and is tested on test[i] (default: the same)."""
    lists = [[torch.tensor(index, dtype=torch.long) for index in rows] for rows in (train, test or train)]
    settings = Training(**{"rounds": 3, "batch_size": 4, "lr": 0.05} | training)
    dtype = dtype_of(settings)
    constants = (torch.full((1, 1, 1, 1), 16 * value, dtype=dtype) for value in (Digits.mean[0], Digits.std[0]))
    images = ClientData(pixels(), torch.from_numpy(digits().labels), *lists, classes, *constants, white=16.0)
    images = replace(images, samples=np.arange(len(images.labels)))
    network = MLP(hidden=16, features=8, dropout=dropout, norm=norm).network((8, 8, 1), classes)
    return Simulation(images, network, settings, executor or Loop(), seed, torch.device("cpu"))


def ragged(clients=5, **training):
    """Clients of unequal size (7, 10, 13, …) with skewed, different labels."""
    pieces = np.array_split(by_label(), clients)
    train = [piece[: 7 + 3 * i].tolist() for i, piece in enumerate(pieces)]
    test = [piece[-9:].tolist() for piece in pieces]
    return simulation(train, test, **training)


def moved(where, device):
    """The same simulation on another device."""
    data, lists = where.data, ("train", "test", "validation")
    tensors = {name: getattr(data, name).to(device) for name in ("images", "labels", "centre", "spread")}
    rows = {name: [index.to(device) for index in getattr(data, name)] for name in lists if getattr(data, name)}
    return replace(where, data=replace(data, **tensors, **rows), device=device)


@cache
def by_label():
    """All images in the order of their labels, pairs of which are shuffled."""
    order = np.random.default_rng(7).permutation(len(digits().labels))
    return order[np.argsort(digits().labels[order] // 2, kind="stable")]


EDGES = {
    "a client without images": lambda: simulation([[], draw([0, 1, 2]), draw([3, 4, 5])]),
    "a client with one image": lambda: simulation([draw([7]), draw([0, 1, 2, 3, 4])]),
    "one class only": lambda: simulation([draw([3, 3, 3, 3, 3]), draw([5, 5, 5])]),
    "tests without a class": lambda: simulation([draw([0, 1]), draw([3])], [draw([0]), [9]]),
    "a client without tests": lambda: simulation([draw([0, 1]), draw([3])], [[], draw([3])]),
    "a batch of one": lambda: simulation([draw(range(5)), draw(range(9))], batch_size=4),
    "a batch larger than any client": lambda: ragged(3, batch_size=512),
    "two clients": lambda: ragged(2),
    "one client": lambda: ragged(1),
    "identical clients": lambda: simulation([draw(range(6))] * 3),
    "few participants": lambda: ragged(participation=0.3, rounds=6, batch_size=8),
    "more clients than images of a class": lambda: simulation([draw([i % 10], start=i) for i in range(13)], rounds=2),
    "batch norm": lambda: ragged(3, norm="batch", batch_size=8),
    "batch norm and a batch of one": lambda: simulation([draw(range(5)), draw([3])], norm="batch"),
    "no local epoch": lambda: ragged(3, local_epochs=0),
    "adam": lambda: ragged(3, optimizer="adam", lr=0.003, batch_size=8),
    "momentum and decay": lambda: ragged(3, momentum=0.9, weight_decay=1e-4, lr=0.01, batch_size=8),
    "sparse evaluation": lambda: ragged(3, eval_every=2, batch_size=8),
    "a number of steps": lambda: ragged(3, local_steps=3),
    "under attack": lambda: ragged(3, adversarial={"steps": 2}, evaluate=["clean", "fgsm", "pgd20"], batch_size=8),
}


HARDEST = (
    "a client without images",
    "a client with one image",
    "tests without a class",
    "few participants",
    "more clients than images of a class",
    "batch norm and a batch of one",
)
"Edge cases that every method meets in `make test`."
OTHERS = [edge for edge in EDGES if edge not in HARDEST]


@cache
def edge(name):
    """The simulation of an edge case, the same for all methods."""
    return EDGES[name]()


def method(name, **settings):
    return load("methods", name)(**settings)


BRIEF = {"local_steps": 5}
"Hyperparameters of methods that count the steps of their clients themselves, and cost time."
THOROUGH = {"server_epochs": 50}
"Hyperparameters of methods whose server trains at a small rate, of which a handful of images is too little."


def brief(name, settings=BRIEF):
    """Those of a method, small."""
    own = {field.name for field in fields(load("methods", name))}
    return {setting: value for setting, value in settings.items() if setting in own}


def thorough(name):
    """Those of a method, large."""
    return brief(name, THOROUGH)


def run(name, where, **settings):
    """All rounds of a method; the outcome."""
    return federate(method(name, **settings), where)


def one_round(method, where, number, state):
    """The participants of a round, and the state after it."""
    ids = participants(where, number)
    fed = Federation(where, ids, number, Traffic.none(where.data.clients, where.device), state.gather(ids))
    return ids, state.scatter(ids, method.round(fed, fed.state))


def final(name, where, **settings):
    """The state after all rounds; no model is evaluated in between, which changes no state."""
    sparse = replace(where, training=replace(where.training, eval_every=where.training.rounds))
    return run(name, sparse, **settings).progress.state


def used(name, where, **settings):
    """The models that all clients use after all rounds."""
    with torch.no_grad():
        state = final(name, where, **settings)
        return method(name, **settings).used(everyone(where, where.training.rounds, state), state)


def assert_equal_states(first, second, rtol=0.0, atol=0.0):
    for ours, theirs in ((first.server, second.server), (first.clients, second.clients)):
        assert list(ours) == list(theirs)
        for a, b in zip(leaves(ours), leaves(theirs), strict=True):
            torch.testing.assert_close(a, b, rtol=rtol, atol=atol, equal_nan=True)


ROUNDING = 1e-9
"Relative difference of two float64 computations that is rounding."


def assert_close(ours, theirs, tolerance=ROUNDING):
    """Every tensor agrees relative to its largest number, and holds NaN in the same places."""
    for a, b in zip(leaves(ours), leaves(theirs), strict=True):
        if not b.is_floating_point():
            assert torch.equal(a, b)
        elif b.numel():
            assert torch.equal(a.isnan(), b.isnan())
            known = b.nan_to_num()
            assert (a.nan_to_num() - known).abs().max() <= tolerance * max(known.abs().max(), 1e-3)


def assert_close_states(first, second, tolerance=ROUNDING):
    assert_close(first.server, second.server, tolerance)
    assert_close(first.clients, second.clients, tolerance)
