"""Whose turn it is: the participants of a round, and the clients whose models are scored after it."""

import math
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from fedgrid.engine.federation.federation import Federation
from fedgrid.engine.federation.simulation import Simulation
from fedgrid.engine.federation.traffic import Traffic
from fedgrid.engine.local.client_data import ClientData
from fedgrid.engine.state.population import Population
from fedgrid.engine.state.state import State
from fedgrid.errors import UserError
from fedgrid.randomness import generator
from fedgrid.settings import Training

MODELS_TOGETHER = {"cpu": 2**26, "cuda": 2**32}
"Bytes of the models that are scored at a time."
SAMPLE = "sample_"
"With which the names of the metrics of a sample of clients begin."
NEW = "new_"
"With which the names of the metrics of new clients begin."


def new_clients(data: ClientData, share: float, seed: int) -> frozenset[int]:
    """Numbers of the clients, a share of those with training images, that join after the last round."""
    able = data.with_images
    count = min(math.ceil(share * len(able) - 1e-9), len(able) - 1)  # at least one takes part
    return frozenset(able[generator("new clients", seed).permutation(len(able))[: max(0, count)]].tolist())


def drawn(simulation: Simulation, round_: int) -> np.ndarray:
    """Ascending numbers [n] of the clients that take part in a round; UserError where none has training images."""
    able = simulation.members
    if not len(able):
        raise UserError("partition: no client has a training image")
    count = simulation.training.participants(len(able))
    return np.sort(able[generator("participation", simulation.seed, round_).permutation(len(able))[:count]])


def participants(simulation: Simulation, round_: int) -> Tensor:
    """The same on the device."""
    return on_device(drawn(simulation, round_), simulation)


def on_device(clients: np.ndarray, simulation: Simulation) -> Tensor:
    """Ascending numbers of clients [n] where the cell is computed; consecutive ones are made there, not sent."""
    if len(clients) and clients[-1] - clients[0] == len(clients) - 1:
        return torch.arange(clients[0], clients[-1] + 1, device=simulation.device)
    return torch.from_numpy(clients).to(simulation.device)


def everyone(simulation: Simulation, round_: int, state: State | None = None) -> Federation:
    """All clients, between rounds; see `between`."""
    return between(simulation, round_, np.arange(simulation.data.clients), state or State())


def between(simulation: Simulation, round_: int, clients: np.ndarray, state: State) -> Federation:
    """Some clients [n] between rounds, with the state as they see it.

    What is sent there is not counted: the next round counts it for those who take part, and who sits it out is sent
    nothing; scoring simulates the message.
    """
    traffic = Traffic.none(simulation.data.clients, simulation.device)
    return Federation(simulation, on_device(clients, simulation), round_, traffic, state)


def in_parts(simulation: Simulation, round_: int, clients: np.ndarray, population: Population) -> Iterator[Federation]:
    """Clients [n] between rounds, so many at a time as have room for their models."""
    size = sum(t.numel() * t.element_size() for t in simulation.initial.values())
    together = max(1, MODELS_TOGETHER.get(simulation.device.type, 2**26) // size)
    for start in range(0, len(clients), together):
        some = clients[start : start + together]
        yield between(simulation, round_, some, population.gather(some))


def scored(simulation: Simulation, done: int) -> tuple[np.ndarray, str]:
    """The clients [n] whose models are scored after so many rounds, and with what the names of their metrics begin.

    All but new and malicious ones in every `eval_every`-th round, at the start and at the end; in the rounds between,
    those of a sample that stays the same for the whole cell, or nobody.
    """
    if is_evaluated(simulation.training, done):
        return simulation.scored, ""
    able = np.intersect1d(simulation.members, simulation.scored)
    size = simulation.training.eval_sample or 0
    return np.sort(generator("evaluation sample", simulation.seed).permutation(able)[:size]), SAMPLE


def is_evaluated(training: Training, done: int) -> bool:
    """Whether all clients' models are scored after so many rounds."""
    return done % training.eval_every == 0 or done == training.rounds
