"""Scores of models on every client's own test images."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from fedgrid.engine.federation import Federation, World
from fedgrid.engine.method import At, Method, State
from fedgrid.tree import Bundle, Tree, row

Scores = Callable[[int, Tensor], Tensor]
Record = Callable[[str, list[int], Tensor], None]
"(metric, clients [n], values [n])."


def evaluate(method: Method, everyone: Federation, participants: list[int], s: State, record: Record) -> None:
    """Records accuracy and mean loss of the global, the personal and the just trained models.

    A client without training or without test images has no rows. The trained models are those of the last round's
    participants.
    """
    world, clients = everyone.world, everyone.ids.tolist()
    at = At(world.model, s.server, Bundle())
    shared, personal = method.global_model(s), method.personal(everyone, s)
    if shared is not None:
        names = ["global", "personal"] if personal is None else ["global"]
        _score(world, clients, lambda _, x: world.model(shared, x), names, record)
    if personal is not None:
        _score(world, clients, _each(method, personal, at), ["personal"], record)
    if s.trained is not None:
        _score(world, participants, _each(method, s.trained, at), ["trained"], record)


def _each(method: Method, stack: Tree, at: At) -> Scores:
    return lambda position, x: method.predict(row(stack, position), x, at)


@torch.inference_mode()
def _score(world: World, clients: list[int], scores: Scores, names: list[str], record: Record) -> None:
    train, test = world.data.train, world.data.test
    tested = [(position, client) for position, client in enumerate(clients) if len(train[client]) and len(test[client])]
    if not tested:
        return
    results = torch.stack([_client(world, client, position, scores) for position, client in tested]).cpu()
    for name in names:
        record(f"accuracy_{name}", [client for _, client in tested], results[:, 0])
        record(f"loss_{name}", [client for _, client in tested], results[:, 1])


def _client(world: World, client: int, position: int, scores: Scores) -> Tensor:
    """(accuracy, mean cross entropy) float64 [2] of one client's model on its test images."""
    index = world.data.test[client]
    total = torch.zeros(2, dtype=torch.float64, device=index.device)
    for batch in world.data.large_batches(index):
        predicted = scores(position, batch.x)
        correct = (predicted.argmax(dim=1) == batch.y).sum()
        total += torch.stack([correct.double(), cross_entropy(predicted.double(), batch.y, reduction="sum")])
    return total / len(index)


def sizes(world: World) -> Mapping[str, Tensor]:
    """Numbers of training and test images of all clients, float64 [N]."""
    lists = {"train_samples": world.data.train, "test_samples": world.data.test}
    return {name: torch.tensor([len(index) for index in rows], dtype=torch.float64) for name, rows in lists.items()}
