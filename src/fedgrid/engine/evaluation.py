"""Scores of models on every client's own test images."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from fedgrid.engine.federation import Federation, World
from fedgrid.engine.method import At, Batch, Method, State
from fedgrid.tree import Tree

Record = Callable[[str, list[int], Tensor], None]
"(metric, clients [n], values [n])."


def evaluate(method: Method, everyone: Federation, participants: Federation | None, s: State, record: Record) -> None:
    """Records accuracy and mean loss of the global, the personal and the just trained models.

    A client without training or without test images has no rows. The trained models are those of the last round's
    participants.
    """

    def shared_model(theta: Tree, batch: Batch, at: At) -> dict[str, Tensor]:
        return _hits(at.model(at.server.theta, batch.x), batch.y)

    def own_model(theta: Tree, batch: Batch, at: At) -> dict[str, Tensor]:
        return _hits(method.predict(theta, batch.x, at), batch.y)

    shared, personal = method.global_model(s), method.personal(everyone, s)
    if shared is not None:
        sums = everyone.test({}, shared_model, server={"theta": shared})
        for name in ["global", "personal"] if personal is None else ["global"]:
            _record(everyone, sums, name, record)
    if personal is not None:
        _record(everyone, everyone.test(personal, own_model, server=s.server), "personal", record)
    if s.trained is not None and participants is not None:
        _record(participants, participants.test(s.trained, own_model, server=s.server), "trained", record)


def _hits(scores: Tensor, labels: Tensor) -> dict[str, Tensor]:
    """Images that are classified correctly and their summed cross entropy, float64."""
    correct = (scores.argmax(dim=1) == labels).sum()
    return {"correct": correct.double(), "loss": cross_entropy(scores.double(), labels, reduction="sum")}


def _record(fed: Federation, sums: Mapping[str, Tensor], name: str, record: Record) -> None:
    train, test, clients = fed.world.data.train, fed.world.data.test, fed.ids.tolist()
    tested = [row for row, client in enumerate(clients) if len(train[client]) and len(test[client])]
    ids = [clients[row] for row in tested]
    images = torch.tensor([len(test[client]) for client in ids], dtype=torch.float64)
    for metric, total in (("accuracy", sums.get("correct")), ("loss", sums.get("loss"))):
        if tested:
            record(f"{metric}_{name}", ids, total[tested].cpu() / images)


def sizes(world: World) -> Mapping[str, Tensor]:
    """Numbers of training and test images of all clients, float64 [N]."""
    lists = {"train_samples": world.data.train, "test_samples": world.data.test}
    return {name: torch.tensor([len(index) for index in rows], dtype=torch.float64) for name, rows in lists.items()}
