"""A cell's images on the device once; a client is two lists of indices."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import torch
from torch import Tensor

from fedgrid.data.base import read
from fedgrid.engine.method import Batch
from fedgrid.errors import UserError
from fedgrid.files import read_metadata

LARGE_BATCH = 1024
"Images in a batch of a pass without gradient."


@dataclass(frozen=True)
class ClientData:
    """Images uint8 [n, channels, height, width] of all clients, labels [n], and each client's indices into them."""

    images: Tensor
    labels: Tensor
    train: list[Tensor]
    test: list[Tensor]
    classes: int
    centre: Tensor
    spread: Tensor

    @property
    def clients(self) -> int:
        """Number of clients, N."""
        return len(self.train)

    def batch(self, index: Tensor) -> Batch:
        """The images of `index` [B], normalised: (pixel − centre) / spread for every channel."""
        return Batch((self.images[index].float() - self.centre) / self.spread, self.labels[index])

    def large_batches(self, index: Tensor) -> Iterator[Batch]:
        """The images of `index` in batches for a pass without gradient; a single empty one where there are none."""
        return (self.batch(part) for part in index.split(LARGE_BATCH))

    @cached_property
    def counts(self) -> Tensor:
        """Number of training images of every client and class, float64 [N, C]."""
        rows = [torch.bincount(self.labels[index], minlength=self.classes) for index in self.train]
        return torch.stack(rows).double()


def load(data_files: Mapping[str, Path], partition: Path, device: torch.device) -> ClientData:
    """The images that a partition uses; UserError where it was made for other data."""
    pool = read(data_files)
    metadata = read_metadata(partition)
    if metadata["data_checksum"] != pool.facts["checksum"]:
        raise UserError(f"{partition}: made for other images than {data_files['train']}; delete it and run again")
    table = pq.read_table(partition, columns=["client", "split", "index"])
    client, index = table["client"].to_numpy(), table["index"].to_numpy()
    train = np.asarray(table["split"].to_pylist()) == "train"
    used, position = np.unique(index, return_inverse=True)  # only these images go to the device
    clients = metadata["clients"]
    channels = pool.facts["shape"][2]

    def lists(chosen: np.ndarray) -> list[Tensor]:
        return [torch.from_numpy(position[chosen & (client == i)]).to(device) for i in range(clients)]

    def constant(name: str) -> Tensor:
        values = torch.tensor(pool.facts[name], dtype=torch.float32, device=device) * pool.facts["scale"]
        return values.expand(channels).reshape(1, channels, 1, 1)

    pixels = torch.from_numpy(pool.images.pixels[used]).permute(0, 3, 1, 2).contiguous().to(device)
    labels = torch.from_numpy(pool.images.labels[used]).to(device)
    classes = len(pool.facts["classes"])
    return ClientData(pixels, labels, lists(train), lists(~train), classes, constant("mean"), constant("std"))
