"""One piece of local work: which clients go through which of their images, from which parameters, in which order."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from fedgrid.engine.local.augmentation import captioned
from fedgrid.engine.local.client_data import TEXTUAL, ClientData
from fedgrid.engine.local.context import Batch, LossContext, Objective
from fedgrid.models.base import Network
from fedgrid.randomness import generator
from fedgrid.tree import Tree, rows

Loss = Callable[[Tree, Batch, LossContext], Objective]
Step = Callable[[Tree, Any, LossContext], tuple[Mapping[str, Any], Objective]]
Measurement = Callable[[Tree, Batch, LossContext], Mapping[str, Tensor]]
Each = TypeVar("Each", bound=Callable[..., Any])
Apply = Callable[[Callable[[Any, Any, LossContext], Any], Tree], Any]
"Calls a function of one client with θ and the batch (or batches) at hand, for one client or for each of a stack."


def counts_filled(measurement: Each) -> Each:
    """Marks a measurement that leaves out the images that `Batch.counted` says only fill up a batch.

    On a GPU, clients with unequal numbers of images then share calls.
    """
    measurement.counts_filled = True  # type: ignore[attr-defined]
    return measurement


@dataclass(frozen=True)
class LocalTask:
    """Clients that go through their own images, each with its own parameters."""

    data: ClientData
    images: list[Tensor]
    "Indices of each client's images, for all N clients: its training or its test images."
    model: Network
    batch_size: int
    seed: int
    round: int
    ids: list[int]
    theta: Tree
    "Stack [n, …]: where each client starts."
    server: Tree
    "The same for all clients."
    clients: Tree
    "Stacks [n, …]: one row for each client."
    epochs: int = 1
    steps: int | None = None
    "Batches that every client sees in place of `epochs`; one that has fewer goes through its images again."
    together: int = 1
    "Batches of one step."
    share: float = 1.0
    "Part of a client's images that an epoch uses, drawn anew with their order; at least one image."
    stream: str = "main"
    "Name of the batch order: the same name in a round gives the same batches."
    work: Mapping[int, float] = field(default_factory=dict)
    "Of stragglers: the share of its steps after which a client is stopped."

    def batch(self, index: Tensor) -> Batch:
        """The samples of `index` [B] or, of several clients, [k, B], of the modality that the network takes."""
        return self.data.batch(index, self.model.modality)

    def loss_input(self, batches: list[Batch], at: LossContext) -> Any:
        """What a function of one client gets of a step's batches; in training, one caption of each text."""
        if at.key is not None and self.model.modality == TEXTUAL:
            batches = [captioned(batch, at, number) for number, batch in enumerate(batches)]
        return batches if self.together > 1 else batches[0]

    def of_one_modality(self) -> list[tuple[Tensor, "LocalTask"]]:
        """The clients of each modality that is here, who never share a call: their positions [m], their work."""
        tasks = []
        for number, name in enumerate(self.data.modalities):
            positions = [position for position, client in enumerate(self.ids) if self.data.modality[client] == number]
            if positions:
                where = torch.tensor(positions, device=self.data.labels.device)
                theta, clients = rows(self.theta, where), rows(self.clients, where)
                ids = [self.ids[position] for position in positions]
                task = replace(self, model=self.model.only(name), ids=ids, theta=theta, clients=clients)
                tasks.append((where, task))
        return tasks

    def epochs_of(self, client: int) -> int:
        """Epochs that a client begins."""
        steps = self._steps(client)
        if steps is None or not len(self.images[client]):
            return self.epochs
        return -(-steps // self._batches(client))

    def order(self, client: int, epoch: int) -> np.ndarray:
        """Which of its images a client sees in one epoch, by their numbers among them, in their order."""
        used, steps = self._used(client), self._steps(client)
        if steps is not None:
            steps_left = steps - epoch * self._batches(client)
            used = min(used, max(0, steps_left) * self.batch_size)
        return self._random("batches", client, epoch).permutation(len(self.images[client]))[:used]

    @cached_property
    def pool(self) -> Tensor:
        """Indices of the images of all clients here, one client's after the other's."""
        nothing = torch.empty(0, dtype=torch.long, device=self.data.labels.device)
        return torch.cat([nothing, *(self.images[client] for client in self.ids)])

    def places(self, client: int, epoch: int) -> np.ndarray:
        """The same images as `order` gives, as places in `pool`."""
        return self._starts[client] + self.order(client, epoch)

    def images_at(self, places: Tensor, like: Iterable[np.ndarray]) -> Iterator[Tensor]:
        """Indices of the images at these places of `pool`, which are on the device: tensors in the shapes of `like`."""
        shapes = [array.shape for array in like]
        parts = self.pool.index_select(0, places).split(list(map(math.prod, shapes)))
        return (part.view(shape) for part, shape in zip(parts, shapes, strict=True))

    def batches(self, client: int, epoch: int) -> Iterator[tuple[int, np.ndarray]]:
        """The batches of one epoch, the last of which may be smaller: where its random numbers start, and `places`."""
        places, key = self.places(client, epoch), self.key(client, epoch)
        for number, start in enumerate(range(0, len(places), self.batch_size)):
            yield key + number, places[start : start + self.batch_size]

    def key(self, client: int, epoch: int) -> int:
        """Where the random numbers inside the batches of one epoch start."""
        return int(self._random("noise", client, epoch).integers(1 << 62))

    def at(self, client: Tree, key: int | Tensor | None) -> LossContext:
        """What a function of one client may look at; without a key, nothing is random and nothing is dropped."""
        return LossContext(self.model if key is None else self.model.learning(key), self.server, client, key)

    @cached_property
    def _starts(self) -> dict[int, int]:
        """Where each client's images begin in `pool`."""
        sizes = (len(self.images[client]) for client in self.ids)
        return dict(zip(self.ids, accumulate(sizes, initial=0), strict=False))

    def _steps(self, client: int) -> int | None:
        """Batches that a client sees; none: those of all epochs."""
        if client not in self.work:
            return self.steps
        full = self.epochs * self._batches(client) if self.steps is None else self.steps
        return min(full, max(self.together, math.floor(self.work[client] * full + 1e-9)))

    def _batches(self, client: int) -> int:
        return -(-self._used(client) // self.batch_size)

    def _used(self, client: int) -> int:
        images = len(self.images[client])
        return min(images, max(1, math.floor(self.share * images + 1e-9)))

    def _random(self, purpose: str, client: int, epoch: int) -> np.random.Generator:
        return generator(purpose, self.seed, client, self.round, epoch, self.stream)
