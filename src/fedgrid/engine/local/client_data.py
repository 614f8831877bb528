"""A cell's samples on the device once; a client is two lists of indices."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fedgrid.data.common.columns import numbers
from fedgrid.data.common.images import MODALITIES, TEXT, Images
from fedgrid.data.common.store import read
from fedgrid.engine.local.context import Batch
from fedgrid.engine.local.devices import sent
from fedgrid.errors import Damaged
from fedgrid.files import read_metadata, read_table
from fedgrid.models.base import PADDING_AND_UNKNOWN
from fedgrid.partition.common.rows import EVERYONE

TEXTUAL = MODALITIES[1]
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

    The images lie in memory with their channels last, in which order convolutions are fastest. Signals and rows of a
    table have the form of images; texts are tokens [n, 1, 1, words] in place of them, int32. Where some clients hold
    texts, samples are numbered through: labels are of the images first and then of the texts.
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
    tokens: Tensor | None = None
    "Texts [n_textual, captions, words], int64: 0 fills up, 1 is an unknown word."
    modality: tuple[int, ...] = ()
    "Each client's position in `modalities`; both are empty on plain data, and in what `only` gives."
    modalities: tuple[str, ...] = ()
    vocabulary: int = PADDING_AND_UNKNOWN
    "Number of different tokens."
    numbers: tuple[int, ...] = ()
    "Numbers of one modality's clients in the whole federation, see `only`."
    samples: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64), repr=False)
    "The number of each sample [n] in its data set, as in the column `index` of a partition."

    @property
    def clients(self) -> int:
        """Number of clients, N."""
        return len(self.train)

    @cached_property
    def with_images(self) -> np.ndarray:
        """Ascending numbers of the clients that have training images, who alone can take part."""
        return np.flatnonzero([len(index) > 0 for index in self.train])

    @property
    def holds_texts(self) -> bool:
        """Whether all samples are texts."""
        return self.images.dtype == torch.int32

    @property
    def colour(self) -> bool:
        """Whether images have colours."""
        return self.images.shape[1] > 1

    @property
    def large_batch(self) -> int:
        """Images of one client in a batch of a pass without gradient, on this device."""
        return LARGE_BATCH.get(self.labels.device.type, 1024)

    @property
    def sample_size(self) -> int:
        """Numbers of a sample as it is stored; of several modalities, of the largest."""
        return max(t[0].numel() for t in (self.images, self.tokens) if t is not None and len(t))

    def only(self, modality: int) -> "ClientData":
        """The clients of one modality, as plain data of clients that are numbered from 0."""
        ids = [client for client, number in enumerate(self.modality) if number == modality]

        def chosen(lists: list[Tensor]) -> list[Tensor]:
            return [lists[client] for client in ids]

        held_out = None if self.validation is None else chosen(self.validation)
        tokens = self.tokens if self.modalities[modality] == TEXTUAL else None
        plain = replace(self, tokens=tokens, modality=(), modalities=(), numbers=tuple(ids))
        return replace(plain, train=chosen(self.train), test=chosen(self.test), validation=held_out)

    def number(self, client: int) -> int:
        """The number by which users know a client."""
        return self.numbers[client] if self.numbers else client

    def batch(self, index: Tensor, modality: str = "") -> Batch:
        """The images of `index` [B] or, of several clients, [k, B], normalised: (pixel − centre) / spread.

        With the modality ``textual`` they are tokens [B, captions, words] or [k, B, captions, words]; of data that are
        all texts, tokens [B, words] or [k, B, words].
        """
        if modality == TEXTUAL and self.tokens is not None:
            return Batch(self.tokens[index - len(self.images)], self.labels[index])
        if self.holds_texts:
            return Batch(self.images.flatten(1)[index].long(), self.labels[index])
        stored = self.images.permute(0, 2, 3, 1)
        pixels = stored.index_select(0, index.flatten()).unflatten(0, index.shape).to(self.centre.dtype)
        centre, spread = self._constants
        return Batch(pixels.sub_(centre).div_(spread).movedim(-1, -3), self.labels[index])

    def sample(self, share: float, draw: np.random.Generator) -> Tensor:
        """A random share of all clients' training images of each class, at least one: indices, class after class."""
        index = torch.cat([*self.train, torch.empty(0, dtype=torch.long, device=self.labels.device)])
        order, labels = draw.permutation(len(index)), self.labels[index].cpu().numpy()
        of_classes = [order[labels[order] == label] for label in range(self.classes)]
        few = [places[: max(1, math.floor(share * len(places) + 1e-9))] for places in of_classes]
        (chosen,) = sent([np.concatenate(few)], self.labels.device)
        return index[chosen]

    @cached_property
    def _constants(self) -> tuple[Tensor, Tensor]:
        """Centre and spread of every pixel [height, width, channels]: arithmetic on equal shapes is fastest."""
        shape = self.images.shape[1:]
        centre, spread = (t[0].expand(shape).permute(1, 2, 0).contiguous() for t in (self.centre, self.spread))
        return centre, spread

    @cached_property
    def pixels(self) -> Range:
        """The normalised range of pixels; contains every normalised image, to the last bit."""
        centre, spread = self.centre[0], self.spread[0]
        return Range((0 - centre) / spread, (self.white - centre) / spread, self.white / spread)

    @cached_property
    def counts(self) -> Tensor:
        """Number of training images of every client and class, float64 [N, C]."""
        return self._counted(self.train)

    @cached_property
    def counts_on_host(self) -> Tensor:
        """The same on the processor."""
        return self.counts.cpu()

    @cached_property
    def test_counts(self) -> Tensor:
        """Number of test images of every client and class, float64 [N, C], on the processor."""
        return self._counted(self.test).cpu()

    def _counted(self, lists: list[Tensor]) -> Tensor:
        distinct = {id(index): index for index in lists}  # all clients may have the same
        sizes, row_of = (
            np.array([len(index) for index in distinct.values()]),
            {key: n for n, key in enumerate(distinct)},
        )
        first, chosen = sent(
            [np.repeat(np.arange(len(sizes)) * self.classes, sizes), np.array([row_of[id(index)] for index in lists])],
            self.labels.device,
        )
        labels = self.labels[torch.cat(list(distinct.values()))]
        counts = torch.bincount(first + labels, minlength=len(sizes) * self.classes)
        return counts.reshape(-1, self.classes)[chosen].double()


def load(
    data_files: Mapping[str, Path], partition: Path, device: torch.device, dtype: torch.dtype = torch.float32
) -> ClientData:
    """The images and texts that a partition uses, for computation in `dtype`; Damaged where it was made for others."""
    table, metadata = read_table(partition, ["client", "split", "index"])
    if metadata["data_checksum"] != read_metadata(data_files["train"])["checksum"]:
        raise Damaged(partition, f"made for other images than {data_files['train']}")
    client, split = numbers(table["client"]), np.asarray(table["split"].to_pylist())
    used, rank = np.unique(numbers(table["index"]), return_inverse=True)
    pool = read(data_files, used)
    order, position = _in_order(pool.images, rank)
    clients, channels = metadata["clients"], pool.facts["shape"][2]
    modality = _modalities(pool.images, client, rank, clients)
    is_text = pool.facts.get("kind") == TEXT
    samples = pool.images.pixels.astype(np.int32) if is_text else pool.images.pixels
    pixels = torch.from_numpy(samples).to(device).permute(0, 3, 1, 2)

    def lists(name: str) -> list[Tensor]:
        chosen = split == name
        if (client[chosen] == EVERYONE).any():
            shared = torch.from_numpy(position[chosen]).to(device)
            of_each = [shared[shared < len(pixels)], shared[shared >= len(pixels)]]
            return [of_each[number] for number in modality] or [shared] * clients
        order = np.flatnonzero(chosen)[np.argsort(client[chosen], kind="stable")]
        cuts = np.searchsorted(client[order], np.arange(1, clients))
        return [torch.from_numpy(rows).to(device) for rows in np.split(position[order], cuts)]

    def constant(name: str) -> Tensor:
        values: Tensor = torch.tensor(pool.facts[name], dtype=dtype, device=device) * pool.facts["scale"]
        return values.expand(channels).reshape(1, channels, 1, 1)

    labels = torch.from_numpy(pool.images.labels[order]).to(device)
    classes = len(pool.facts["classes"])
    held_out = lists("validation") if (split == "validation").any() else None
    constants = constant("mean"), constant("std")
    weighted, white = metadata["test"] == "weighted", pool.facts["scale"]
    plain = ClientData(pixels, labels, lists("train"), lists("test"), classes, *constants, held_out, weighted, white)
    vocabulary = len(pool.facts.get("vocabulary", ())) + PADDING_AND_UNKNOWN
    plain = replace(plain, samples=used[order], vocabulary=vocabulary)
    if pool.images.tokens is None:
        return plain
    tokens = torch.from_numpy(pool.images.tokens.astype(np.int64)).to(device)
    return replace(plain, tokens=tokens, modality=modality, modalities=tuple(pool.facts["modalities"]))


def _in_order(images: Images, rank: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The samples with images before texts, and where those of a `rank` [m] come to stand."""
    if images.modality is None:
        return np.arange(len(images.labels)), rank
    order = np.argsort(images.modality, kind="stable")
    return order, np.argsort(order)[rank]


def _modalities(images: Images, client: np.ndarray, rank: np.ndarray, clients: int) -> tuple[int, ...]:
    """Each client's modality: that of its samples or, without any, the one that clients with its number are dealt."""
    if images.modality is None:
        return ()
    modality, has_images = np.arange(clients) * len(MODALITIES) // clients, client != EVERYONE
    modality[client[has_images]] = images.modality[rank[has_images]]
    return tuple(modality.tolist())
