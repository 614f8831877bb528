"""Small federations in memory: real digits dealt out to clients by hand."""

from functools import cache

import numpy as np
import torch

from fedgrid.data.digits import Digits
from fedgrid.engine.client_data import ClientData
from fedgrid.engine.loop import Loop
from fedgrid.engine.rounds import everyone, federate
from fedgrid.engine.simulation import Simulation, dtype_of
from fedgrid.loading import load
from fedgrid.models.mlp import MLP
from fedgrid.settings import Training


class Killed(Exception):
    """Stands for the end of a process, of which the engine hears nothing."""


@cache
def digits():
    return Digits().load(None, None).parts["train"]


def draw(labels_wanted, start=0):
    """Indices of images with the given labels, from image `start` on, none twice."""
    labels, taken = digits().labels, []
    for wanted in labels_wanted:
        taken.append(next(i for i in range(start, len(labels)) if labels[i] == wanted and i not in taken))
    return taken


def simulation(train, test=None, seed=0, classes=10, executor=None, dropout=0.0, norm="none", **training):
    """A simulation whose client i trains on the images train[i] and is tested on test[i] (default: the same)."""
    data = digits()
    pixels = torch.from_numpy(data.pixels).permute(0, 3, 1, 2).contiguous()
    lists = [[torch.tensor(index, dtype=torch.long) for index in rows] for rows in (train, test or train)]
    settings = Training(**{"rounds": 3, "batch_size": 4, "lr": 0.05} | training)
    dtype = dtype_of(settings)
    constants = (torch.full((1, 1, 1, 1), 16 * value, dtype=dtype) for value in (Digits.mean[0], Digits.std[0]))
    images = ClientData(pixels, torch.from_numpy(data.labels), *lists, classes, *constants)
    network = MLP(hidden=16, features=8, dropout=dropout, norm=norm).network((8, 8, 1), classes)
    return Simulation(images, network, settings, executor or Loop(), seed, torch.device("cpu"))


def ragged(clients=5, **training):
    """Clients of unequal size (7, 10, 13, …) with skewed, different labels."""
    random = np.random.default_rng(7)
    order = random.permutation(len(digits().labels))
    order = order[np.argsort(digits().labels[order] // 2, kind="stable")]
    pieces = np.array_split(order, clients)
    train = [list(map(int, piece[: 7 + 3 * i])) for i, piece in enumerate(pieces)]
    test = [list(map(int, piece[-9:])) for piece in pieces]
    return simulation(train, test, **training)


def method(name, **settings):
    return load("methods", name)(**settings)


def run(name, where, **settings):
    """All rounds of a method; the outcome."""
    return federate(method(name, **settings), where)


def final(name, where, **settings):
    """The state after all rounds."""
    return run(name, where, **settings).progress.state


def personal(name, where, **settings):
    """The models that all clients hold after all rounds."""
    with torch.no_grad():
        return method(name, **settings).personal(everyone(where, where.training.rounds), final(name, where, **settings))
