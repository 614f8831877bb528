"""Small federations in memory whose first clients hold pictures and whose last ones hold texts, dealt out by hand."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import torch
from trajectories import recorded

from fedgrid.engine.federation.simulation import Simulation, dtype_of
from fedgrid.engine.local.client_data import ClientData
from fedgrid.engine.local.loop import Loop
from fedgrid.models.image_text import ImageText
from fedgrid.settings import Training

CLASSES, WORDS, VOCABULARY = 4, 7, 12
VISUAL, TEXTUAL = 0, 1
SMALL = {"features": 6, "channels": 2, "embedding": 5, "filters": 3}


def samples(number):
    """Pictures [n, 3, 16, 16], texts [n, 2, 7], labels [2n]; a class shows in light and in the first word."""
    draw = np.random.default_rng(11)
    labels = np.concatenate([draw.permutation(np.arange(number) % CLASSES) for _ in range(2)])
    light = 40 * labels[:number, None, None, None]
    pictures = (draw.integers(0, 120, (number, 3, 16, 16)) + light).astype(np.uint8)
    texts = draw.integers(2, VOCABULARY, (number, 2, WORDS))
    texts[:, :, 0] = labels[number:, None] + 2
    texts[::3, :, 5:] = 0
    return torch.from_numpy(pictures), torch.from_numpy(texts), torch.from_numpy(labels)


def simulation(sizes=((9, 14), (11, 6)), executor=None, seed=0, shared_tests=False, weighted=False, **training):
    """A federation whose clients have so many training `sizes` of pictures and of texts, and five tests each."""
    settings = Training(**{"rounds": 2, "batch_size": 4, "lr": 0.05, "dtype": "float64"} | training)
    number = max(sum(own) for own in sizes) + 5 * max(len(own) for own in sizes)
    pictures, texts, labels = samples(number)
    train, test, modality = [], [], []
    for kind, own in enumerate(sizes):
        cuts = np.cumsum([kind * number, *own])
        train += [torch.arange(a, b) for a, b in pairwise(cuts)]
        tests = [torch.arange(cuts[-1] + 5 * i, cuts[-1] + 5 * (i + 1)) for i in range(len(own))]
        test += [torch.cat(tests)] * len(own) if shared_tests else tests
        modality += [kind] * len(own)
    constants = (torch.full((1, 3, 1, 1), value, dtype=dtype_of(settings)) for value in (120.0, 60.0))
    data = ClientData(pictures, labels, train, test, CLASSES, *constants, weighted=weighted)
    named = {"modality": tuple(modality), "modalities": ("visual", "textual"), "vocabulary": VOCABULARY}
    network = ImageText(**SMALL).network((16, 16, 3), CLASSES, VOCABULARY)
    data = replace(data, tokens=texts, samples=np.arange(len(labels)), **named)
    return Simulation(data, network, settings, executor or Loop(), seed, torch.device("cpu"))


def alone(whole, modality):
    """The clients of one modality, numbered from 0, as a federation that knows of no other."""
    data = replace(whole.data.only(modality), numbers=())
    return replace(whole, data=data, model=whole.model.only(whole.data.modalities[modality]))


def values(progress):
    """What was recorded, by round, metric and client."""
    rows = recorded(progress).items()
    return {(*row, client): value for row, of_clients in rows for client, value in of_clients.items()}
