"""A cell's images on the device once; a client is two lists of indices."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fedgrid.data.common.columns import numbers
from fedgrid.data.common.store import read
from fedgrid.engine.context import Batch
from fedgrid.errors import Damaged
from fedgrid.files import read_table
from fedgrid.partition.common.rows import EVERYONE

LARGE_BATCH = {"cpu": 64, "cuda": 1024}
"Images of one client in a batch of a pass without gradient: what fits a processor's cache, what fills a GPU."


@dataclass(frozen=True)
class Range:
    """What a normalised pixel can be, by channel [channels, 1, 1]: black, white, and the distance between them."""

    low: Tensor
    high: Tensor
    white: Tensor


@dataclass(frozen=True)
class ClientData:
    """Images [n, channels, height, width] of all clients (uint8, or float features), labels [n], and indices into them.

    The images lie in memory with their channels last, in which order convolutions are fastest.
    """

    images: Tensor
    labels: Tensor
    train: list[Tensor]
    test: list[Tensor]
    "The same tensor for all clients where they share the official test set."
    classes: int
    centre: Tensor
    spread: Tensor
    "Subtracted from and divided out of every channel [1, channels, 1, 1]; their type is that of the computation."
    validation: list[Tensor] | None = None
    "Indices of images held out for validation, where the partition holds any out."
    weighted: bool = False
    "Whether a test image counts by the share of its class among the client's training images."
    white: float = 255.0
    "Value of a white pixel, where black is 0."

    @property
    def clients(self) -> int:
        """Number of clients, N."""
        return len(self.train)

    @property
    def colour(self) -> bool:
        """Whether images have colours."""
        return self.images.shape[1] > 1

    @property
    def large_batch(self) -> int:
        """Images of one client in a batch of a pass without gradient, on this device."""
        return LARGE_BATCH.get(self.labels.device.type, 1024)

    def batch(self, index: Tensor) -> Batch:
        """The images of `index` [B] or, of several clients, [k, B], normalised: (pixel − centre) / spread."""
        stored = self.images.permute(0, 2, 3, 1)
        pixels = stored.index_select(0, index.flatten()).unflatten(0, index.shape).to(self.centre.dtype)
        centre, spread = self._constants
        return Batch(pixels.sub_(centre).div_(spread).movedim(-1, -3), self.labels[index])

    @cached_property
    def _constants(self) -> tuple[Tensor, Tensor]:
        """Centre and spread of every pixel [height, width, channels]: arithmetic on equal shapes is fastest."""
        shape = self.images.shape[1:]
        centre, spread = (t[0].expand(shape).permute(1, 2, 0).contiguous() for t in (self.centre, self.spread))
        return centre, spread

    @cached_property
    def pixels(self) -> Range:
        """The normalised range of pixels; no normalised image lies outside, to the last bit."""
        centre, spread = self.centre[0], self.spread[0]
        return Range((0 - centre) / spread, (self.white - centre) / spread, self.white / spread)

    @cached_property
    def counts(self) -> Tensor:
        """Number of training images of every client and class, float64 [N, C]."""
        rows = [torch.bincount(self.labels[index], minlength=self.classes) for index in self.train]
        return torch.stack(rows).double()


def load(
    data_files: Mapping[str, Path], partition: Path, device: torch.device, dtype: torch.dtype = torch.float32
) -> ClientData:
    """The images that a partition uses, for computation in `dtype`; UserError where it was made for other data."""
    pool = read(data_files)
    table, metadata = read_table(partition, ["client", "split", "index"])
    if metadata["data_checksum"] != pool.facts["checksum"]:
        raise Damaged(partition, f"it was made for other images than {data_files['train']}")
    client, index = numbers(table["client"]), numbers(table["index"])
    split = np.asarray(table["split"].to_pylist())
    used, position = np.unique(index, return_inverse=True)  # only these images go to the device
    clients = metadata["clients"]
    channels = pool.facts["shape"][2]

    def lists(name: str) -> list[Tensor]:
        chosen = split == name
        if (client[chosen] == EVERYONE).any():
            return [torch.from_numpy(position[chosen]).to(device)] * clients
        order = np.flatnonzero(chosen)[np.argsort(client[chosen], kind="stable")]
        cuts = np.searchsorted(client[order], np.arange(1, clients))
        return [torch.from_numpy(rows).to(device) for rows in np.split(position[order], cuts)]

    def constant(name: str) -> Tensor:
        values = torch.tensor(pool.facts[name], dtype=dtype, device=device) * pool.facts["scale"]
        return values.expand(channels).reshape(1, channels, 1, 1)

    pixels = torch.from_numpy(pool.images.pixels[used]).to(device).permute(0, 3, 1, 2)
    labels = torch.from_numpy(pool.images.labels[used]).to(device)
    classes = len(pool.facts["classes"])
    held_out = lists("validation") if (split == "validation").any() else None
    constants = constant("mean"), constant("std")
    weighted, white = metadata["test"] == "weighted", pool.facts["scale"]
    return ClientData(pixels, labels, lists("train"), lists("test"), classes, *constants, held_out, weighted, white)
