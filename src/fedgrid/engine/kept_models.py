"""What the models that a cell ends with predict by: θ, and what their method's `predict` reads of the state."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree

from fedgrid.engine.federation.method import Method
from fedgrid.engine.federation.modalities import apart
from fedgrid.engine.federation.simulation import Simulation
from fedgrid.engine.final_models import FinalModels, LastRound, final_models
from fedgrid.engine.local.context import LossContext
from fedgrid.engine.state.checkpoint import Progress
from fedgrid.models.base import Network
from fedgrid.tree import Tree, row, rows


@dataclass(frozen=True)
class KeptModels:
    """The models of some clients at one point of the last round, of one modality, with all that they predict by."""

    point: str
    modality: str
    "Of the clients; empty on plain data."
    by_network: bool
    "Whether class scores are what the network says; else the method's `predict` makes them."
    clients: list[int]
    "Their numbers [n]."
    theta: Tree
    "Stack [n, …]."
    server: Tree
    "What `predict` reads of the server's entries."
    client: Tree
    "What it reads of the clients' rows, stack [n, …]."


def kept_models(
    method: Method, simulation: Simulation, progress: Progress, last: LastRound | None
) -> Iterator[KeptModels]:
    """The models of all clients after the `last` round, at every point, some clients at a time."""
    for models in final_models(apart(method, simulation), simulation, progress, last):
        for network, where in models.fed.modalities:
            yield _of_network(models, network, where)


def _of_network(models: FinalModels, network: Network, where: Tensor) -> KeptModels:
    """The models of the clients at the positions `where`, whose batches go through one network."""
    chosen = where if len(where) < models.fed.size else slice(None)  # a slice leaves a shared row shared
    theta, state = rows(network.part_of_modality(models.theta), chosen), models.fed.state.gather(chosen)
    context = LossContext(network, state.server, row(state.clients, 0), None)
    used = {id(t) for t in _read(models, row(theta, 0), context)}
    return KeptModels(
        models.point,
        network.modality,
        models.by_network,
        [models.clients[position] for position in where.tolist()],
        theta,
        _chosen(state.server, used, context.server),
        _chosen(state.clients, used, context.client),
    )


class _Watch(TorchFunctionMode):
    """Notes the tensors that torch's functions are given."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[int, Tensor] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen |= {id(t): t for t in _pytree.tree_leaves((args, kwargs)) if isinstance(t, Tensor)}
        return func(*args, **(kwargs or {}))


@torch.no_grad()
def _read(models: FinalModels, theta: Tree, context: LossContext) -> list[Tensor]:
    """The tensors that one client's prediction reads; it may not depend on what they hold, so that no image will do."""
    data = models.fed.simulation.data
    nothing = data.batch(data.labels.new_empty(0), context.model.modality)
    with _Watch() as watch:
        models.predict(theta, nothing.x, context)
    return list(watch.seen.values())


def _chosen(tree: Tree, used: set[int], of_context: Tree) -> Tree:
    """The entries of a tree whose tensors in the context of a prediction were `used`."""
    chosen = Tree()
    for name, entry in of_context.items():
        if isinstance(entry, Tree):
            if part := _chosen(tree[name], used, entry):
                chosen[name] = part
        elif id(entry) in used:
            chosen[name] = tree[name]
    return chosen
