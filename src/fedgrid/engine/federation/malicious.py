"""Clients who attack: who they are, and what they upload in place of what they trained.

Malicious clients are drawn once, by the seed, from those that can take part. They take part like others, and are not
scored. With θ the parameters that one has trained, w those that the server sent and s the strength, it uploads

    sign     w − s·(θ − w): the update turned round (Li et al., RSA, AAAI 2019, for models)
    scale    w + s·(θ − w): the update made longer (Bagdasaryan et al., AISTATS 2020, Eq. 3)
    noise    w + s·N(0, 1): noise in place of the update (Blanchard et al., NeurIPS 2017, Section 5)

or, with the attack ``labels``, what it trained honestly on flipped labels. What else a client uploads is not attacked:
statistics of batch norm, class means, numbers of steps.
"""

from collections.abc import Mapping
from dataclasses import replace
from math import ceil
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedgrid.engine.federation.simulation import Simulation
from fedgrid.engine.local.flipped_labels import with_flipped_labels
from fedgrid.randomness import generator
from fedgrid.tree import TensorOrTree, Tree, as_tree


def with_malicious(simulation: Simulation) -> Simulation:
    """The simulation with its share of malicious clients, at least one and not all, and with the labels they flip."""
    training, able = simulation.training, simulation.members
    number = min(ceil(training.malicious * len(able) - 1e-9), len(able) - 1)
    if number <= 0:
        return simulation
    chosen = able[generator("malicious", simulation.seed).permutation(len(able))[:number]].tolist()
    data = simulation.data
    malicious = frozenset(data.number(client) for client in chosen)
    if training.attack == "labels":
        data = with_flipped_labels(data, chosen)
    return replace(simulation, data=data, malicious=malicious)


def is_of_model(stack: Any, theta: Any) -> bool:
    """Whether a stack [n, …] holds parameters of the model θ, under their names."""
    if not isinstance(stack, Mapping) or not isinstance(theta, Mapping) or not stack:
        return False
    return all(name in theta and t.shape[1:] == theta[name].shape for name, t in stack.items())


def attacked(simulation: Simulation, stack: TensorOrTree, theta: Tree, clients: list[int], round_: int) -> TensorOrTree:
    """A stack [n, …] of parameters of the model `theta` that the server sent, as its `clients` [n] upload it."""
    data, training = simulation.data, simulation.training
    positions = [row for row, client in enumerate(clients) if data.number(client) in simulation.malicious]
    if not positions:
        return stack
    where = torch.tensor(positions, device=simulation.device)
    parameters: Tree = as_tree(stack)
    honest = Tree((name, t) for name, t in parameters.items() if name not in simulation.model.statistics)
    sent, trained = Tree((name, theta[name]) for name in honest), honest.rows(where)
    update = trained - sent
    if training.attack == "noise":
        update = _noise(update, simulation.seed, [data.number(clients[row]) for row in positions], round_)
    direction = -1 if training.attack == "sign" else 1
    uploaded: TensorOrTree = as_tree(parameters | honest.placed(where, sent + direction * training.strength * update))
    return uploaded


def _noise(like: Tree, seed: int, clients: list[int], round_: int) -> Tree:
    """Standard normal numbers in the form of a stack with one row for each of the clients."""
    draws = [generator("malicious noise", seed, client, round_) for client in clients]

    def drawn(t: Tensor) -> Tensor:
        return t.new_tensor(np.stack([draw.standard_normal(t.shape[1:]) for draw in draws]))

    return like.map(drawn)
