"""Scores of models on every client's own test images."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, one_hot

from fedgrid.engine.federation.federation import Federation
from fedgrid.engine.federation.method import Method
from fedgrid.engine.federation.simulation import Simulation
from fedgrid.engine.local.attacks import Attack, attacked_in, of_evaluation
from fedgrid.engine.local.client_data import ClientData
from fedgrid.engine.local.context import Batch, LossContext
from fedgrid.engine.local.devices import fetched, selection
from fedgrid.engine.local.executor import Diverged
from fedgrid.engine.local.task import Measurement, counts_filled
from fedgrid.settings import Training
from fedgrid.tree import Tree, leaves, rows, tree_map

Scores = Callable[[Tree, Tensor, LossContext], Tensor]
"(θ of a client, images [B, …], context) → class scores [B, C]."


@dataclass(frozen=True)
class View:
    """Images as models are scored on them: a list of every client's, as they are or under an attack."""

    images: str
    "``test`` or ``validation``."
    name: str
    "With which the names of metrics begin, as in ``fgsm_accuracy_received``; empty for clean test images."
    data: ClientData
    attack: Attack | None = None

    def measurement(self, scores: Scores) -> Measurement:
        """What counts the hits of `scores` on a batch."""
        by_class = self.data.classes if self.data.weighted and self.images == "test" else None

        @counts_filled
        def hits(theta: Tree, batch: Batch, at: LossContext) -> dict[str, Tensor]:
            x = batch.x
            if self.attack:
                x = self.attack(lambda moved: scores(theta, moved, at), batch, self.data.pixels)
            return _hits(scores(theta, x, at), replace(batch, x=x), by_class)

        return hits


def views(data: ClientData, training: Training, done: int) -> list[View]:
    """What models are scored on after so many rounds."""
    selected = [View("test", "", data)]
    if data.validation is not None:
        selected.append(View("validation", "validation", data))
    if attacked_in(training, done):
        selected += [View("test", name, data, attack) for name, attack in of_evaluation(training, data.colour).items()]
    return selected


class RoundScores:
    """The scores of a round as they come in, part by part of the clients."""

    def __init__(self) -> None:
        self.parts: dict[tuple[str, str], list[tuple[list[int], Tensor]]] = {}
        self.shared: dict[tuple[str, str], Tree] = {}
        "Sums of a model that all clients have, on images that all have, by modality and view."

    def add(self, modality: str, metric: str, clients: list[int], values: Tensor) -> None:
        """Adds the scores of some clients."""
        self.parts.setdefault((modality, metric), []).append((clients, values))

    def entries(self) -> Iterator[tuple[str, list[int], Tensor]]:
        """(metric, clients, values), each modality separately."""
        for (_, metric), parts in self.parts.items():
            yield metric, [client for clients, _ in parts for client in clients], torch.cat([v for _, v in parts])


def evaluate(
    method: Method, everyone: Federation, participants: Federation | None, trained: Tree | None, scores: RoundScores
) -> None:
    """Adds accuracy and mean loss of all clients' models, and of those that the last round's participants `trained`.

    `everyone` holds the state after the round, `participants` that in which they trained; `everyone` may be a part of
    all clients, and then only the participants among them count. A client without training or without test images has
    no rows. Scores on images held out for validation are recorded beside, as ``validation_…``, and scores under attack,
    as ``fgsm_…``: every model against images moved against itself.
    """
    s, data = everyone.state, everyone.simulation.data
    shared, received, adapted = method.global_model(s), method.received(everyone, s), method.adapted(everyone, s)
    participants, trained = among(everyone, participants, trained)
    unchanged = _unchanged(method, everyone, participants, received, trained)
    for view in views(data, everyone.simulation.training, everyone.round):
        if shared is not None:
            sums = _of_one_model(everyone, shared, view, scores)
            for name in ["global", "received"] if received is None else ["global"]:
                _record(everyone, view, sums, name, scores)
        measurement = view.measurement(method.predict)
        if received is not None:
            sums = everyone.test(received, measurement, images=view.images)
            _record(everyone, view, sums, "received", scores)
        if adapted is not None:
            _record(everyone, view, everyone.test(adapted, measurement, images=view.images), "adapted", scores)
        if trained is not None and participants is not None:
            if unchanged is not None:
                sums = rows(sums, unchanged)
            else:
                sums = participants.test(trained, measurement, images=view.images)
            _record(participants, view, sums, "trained", scores)


def among(
    everyone: Federation, participants: Federation | None, trained: Tree | None
) -> tuple[Federation | None, Tree | None]:
    """The participants that are in `everyone`, and their models; None, None where there are none."""
    if participants is None or trained is None:
        return None, None
    some = set(everyone.numbers)
    chosen = np.flatnonzero([client in some for client in participants.numbers])
    if len(chosen) == participants.size:
        return participants, trained
    where = selection(chosen, participants.ids.device)
    return (participants.subset(where), rows(trained, where)) if len(chosen) else (None, None)


def _of_one_model(everyone: Federation, model: Tree, view: View, scores: RoundScores) -> Tree:
    """The sums of a model that all clients have, as a stack; images that all share go through it once, for all."""
    measurement = view.measurement(lambda theta, x, at: at.model(at.server.scored, x))
    lists = getattr(everyone.simulation.data, view.images)
    if any(index is not lists[0] for index in lists):
        return everyone.test(Tree(), measurement, server={"scored": model}, images=view.images)
    kind = everyone.model.modality, f"{view.images} {view.name}"
    if kind not in scores.shared:
        first = everyone.subset(everyone.ids.new_zeros(1))
        scores.shared[kind] = first.test(Tree(), measurement, server={"scored": model}, images=view.images)
    return tree_map(lambda t: t.expand(everyone.size, *t.shape[1:]), scores.shared[kind])


def _unchanged(
    method: Method, everyone: Federation, participants: Federation | None, received: Tree | None, trained: Tree | None
) -> Tensor | slice | None:
    """Positions of the participants, where they go on from what they trained, so that one score is both; else None.

    It is never both where the state speaks in `predict`.
    """
    if participants is None or trained is None or received is None or type(method).predict is not Method.predict:
        return None
    where = selection(np.searchsorted(everyone.numbers, participants.numbers), everyone.ids.device)
    return where if _same(rows(received, where), trained) else None


def _same(a: Tree, b: Tree) -> bool:
    """Whether two stacks have the same names, shapes and numbers."""
    if a.keys() != b.keys():
        return False
    ours, theirs = leaves(a), leaves(b)
    if [t.shape for t in ours] != [t.shape for t in theirs]:
        return False
    if ours[0].device.type != "cpu":  # a call for all tensors, and one wait
        ours, theirs = ([torch.cat([t.flatten() for t in tensors])] for tensors in (ours, theirs))
    return all(bool((x == y).all()) for x, y in zip(ours, theirs, strict=True))


def _hits(scores: Tensor, batch: Batch, by_class: int | None) -> dict[str, Tensor]:
    """Images that are classified correctly and their summed cross entropy, float64; [C] where `by_class` is C."""
    correct = batch.only_counted(scores.argmax(dim=1) == batch.y)
    if by_class is None and batch.counted is None and scores.device.type == "cpu":
        loss = cross_entropy(scores.double(), batch.y, reduction="sum")
        return {"correct": correct.sum(dtype=torch.float64), "loss": loss}
    # cross_entropy, of which vmap would make many more calls
    losses = batch.only_counted(-scores.double().log_softmax(dim=1).gather(1, batch.y.unsqueeze(1)).squeeze(1))
    if by_class is None:
        return {"correct": correct.sum(dtype=torch.float64), "loss": losses.sum()}
    of_class = one_hot(batch.y, by_class).double()
    return {"correct": correct.double() @ of_class, "loss": losses @ of_class}


def _record(fed: Federation, view: View, sums: Tree, name: str, scores: RoundScores) -> None:
    data, clients = fed.simulation.data, fed.numbers
    lists = getattr(data, view.images)
    tested = [row for row, client in enumerate(clients) if len(data.train[client]) and len(lists[client])]
    ids = [clients[row] for row in tested]
    if not tested:
        return
    by_class = sums.correct.dim() > 1
    shares = _class_shares(data.counts_on_host[ids]) if by_class else torch.ones(len(ids), 1, dtype=torch.float64)
    number = (shares * _images(data, lists, ids, by_class)).sum(dim=1)
    known = number > 0  # a client of whose classes none is tested has no score
    ids = [client for client, scored in zip(ids, known.tolist(), strict=True) if scored]
    if not ids:
        return
    prefix = view.name and f"{view.name}_"
    for metric, total in zip(("accuracy", "loss"), fetched([sums.correct, sums.loss]), strict=True):
        means = ((shares * total[tested].reshape(len(tested), -1)).sum(dim=1) / number)[known]
        if not means.isfinite().all():
            wrong = ids[int((~means.isfinite()).nonzero()[0])]
            loss_name = f"the {view.name or view.images} loss of the {name} model of client {data.number(wrong)}"
            raise Diverged(fed.round - 1, loss_name)
        scores.add(fed.model.modality, f"{prefix}{metric}_{name}", list(map(data.number, ids)), means)


def _class_shares(counts: Tensor) -> Tensor:
    """Shares q [n, C] of the classes among the clients' training images `counts` [n, C].

    With them an official test set is scored as Σ_c q_ic·correct_ic / Σ_c q_ic·images_c, as FedSaC's and pFedGraph's
    codes do: a frequent class counts by its share of the client's images and by its number of test images.
    """
    return counts / counts.sum(dim=1, keepdim=True)


def _images(data: ClientData, lists: list[Tensor], ids: list[int], by_class: bool) -> Tensor:
    """Numbers of images [n, 1] of the clients, or by class [n, C] of the test sets that those of a modality share."""
    if by_class:
        return data.test_counts[ids]
    return torch.tensor([[len(lists[client])] for client in ids], dtype=torch.float64)


def sizes(simulation: Simulation) -> Mapping[str, Tensor]:
    """Numbers of training and test images of all clients, float64 [N]."""
    lists = {"train_samples": simulation.data.train, "test_samples": simulation.data.test}
    return {name: torch.tensor([len(index) for index in rows], dtype=torch.float64) for name, rows in lists.items()}
