"""Where clients' rows are kept between rounds: in memory, or in a file where they are too many for it.

A *slot* holds one client's row of every tensor. New rows go to slots that nobody names any more. So the state before a
round, and the one that a checkpoint names, stay as they are until another has taken their place.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import torch
from torch import Tensor

from fedgrid.engine.local.devices import selection
from fedgrid.errors import UserError, reason
from fedgrid.files import lock
from fedgrid.tree import Tree, as_tree, leaves, plain, rows, tree_map

AT_ONCE = 2**24
"Bytes that are moved between memory and file together."


class Lost(Exception):
    """The file does not hold what was written to it."""


class Slots(ABC):
    """Rows by the number of their slot."""

    reserved: np.ndarray
    "Slots that a checkpoint names."

    @abstractmethod
    def __len__(self) -> int:
        """Number of slots, used or not."""

    @abstractmethod
    def read(self, slots: np.ndarray) -> Tree:
        """The rows of slots [n], as a stack on the device."""

    @abstractmethod
    def write(self, slots: np.ndarray, stack: Tree) -> None:
        """Puts the n rows of a stack into slots [n]; slots behind the last one are new."""

    @abstractmethod
    def saved(self, slots: np.ndarray) -> dict[str, Any]:
        """What a checkpoint has to hold so that the rows of these slots are found again."""

    def free(self, used: np.ndarray, number: int) -> np.ndarray:
        """The first slots [number] that are neither in `used` nor reserved."""
        taken = np.zeros(len(self) + number, dtype=bool)
        taken[used] = taken[self.reserved] = True
        return np.flatnonzero(~taken)[:number]


class InMemory(Slots):
    """Rows in stacks on the device, of which a checkpoint holds a copy."""

    reserved = np.empty(0, dtype=np.int64)

    def __init__(self, stack: Tree):
        self.stack = stack

    def __len__(self) -> int:
        return max(map(len, leaves(self.stack)), default=0)

    def read(self, slots: np.ndarray) -> Tree:
        return rows(self.stack, selection(slots, self._device))

    def write(self, slots: np.ndarray, stack: Tree) -> None:
        missing, where = int(slots.max()) + 1 - len(self), torch.from_numpy(slots).to(self._device)
        if missing > 0:
            more = max(missing, len(self))  # doubled, so that growing by and by costs little
            self.stack = tree_map(lambda t: torch.cat([t, t.new_empty(more, *t.shape[1:])]), self.stack)
        tree_map(lambda t, new: t.index_put_((where,), _owned(new)), self.stack, stack)

    def saved(self, slots: np.ndarray) -> dict[str, Any]:
        stack = self.read(slots)
        if len(slots) < len(self):  # a view would be saved with all rows
            stack = tree_map(torch.clone, stack)
        return {"rows": plain(stack)}

    @property
    def _device(self) -> torch.device:
        return next((t.device for t in leaves(self.stack)), torch.device("cpu"))


def _owned(t: Tensor) -> Tensor:
    """A tensor that is no view: what a round leaves as it was may be one of the very stack that is written."""
    return t.clone() if t._is_view() else t


class InFile(Slots):
    """Rows in a file, which one process has to itself; `form` is a stack [1, …] of the same names, types and shapes.

    The file is read and written, not mapped: pages of a mapping count as memory of the process. A checkpoint holds a
    checksum of every row, which tells after a crash of the machine whether all of them had reached the disk.
    """

    def __init__(self, file: Path, form: Tree):
        self.file, self.form, self.reserved = file, form, np.empty(0, dtype=np.int64)
        self.sizes = [t[0].numel() * t.element_size() for t in leaves(form)]
        self.size = sum(self.sizes)
        self.checksums = np.zeros(0, np.int64)
        self.descriptor = _locked(file)

    def __del__(self) -> None:
        if "descriptor" in vars(self):
            os.close(self.descriptor)

    @classmethod
    def reopened(cls, file: Path, saved: dict[str, Any], device: torch.device) -> "InFile":
        """The rows that a checkpoint names; raises Lost where the file does not hold them."""
        if not file.is_file():
            raise Lost(f"{file} is missing")
        opened, slots = (
            cls(file, tree_map(lambda t: t.to(device), as_tree(saved["form"]))),
            saved["slots"].cpu().numpy(),
        )
        opened.checksums = np.zeros(int(slots.max()) + 1, np.int64)
        opened.checksums[slots] = saved["checksums"].cpu().numpy()
        opened.reserved = slots
        for _, some in opened._pieces(slots):
            if [crc32(content.data) for content in opened._bytes(some)] != opened.checksums[some].tolist():
                raise Lost(f"{file} is damaged")
        return opened

    def __len__(self) -> int:
        return len(self.checksums)

    def read(self, slots: np.ndarray) -> Tree:
        stack = tree_map(lambda t: t.new_empty(len(slots), *t.shape[1:]), self.form)
        for position, some in self._pieces(slots):
            parts = torch.from_numpy(self._bytes(some)).split(self.sizes, dim=1)
            for t, part in zip(leaves(stack), parts, strict=True):
                _as_bytes(t[position]).copy_(part)
        return stack

    def write(self, slots: np.ndarray, stack: Tree) -> None:
        missing = int(slots.max()) + 1 - len(self)
        if missing > 0:
            self.checksums = np.concatenate([self.checksums, np.zeros(missing, np.int64)])
        for position, some in self._pieces(slots):
            contents = torch.cat([_as_bytes(t[position].cpu().contiguous()) for t in leaves(stack)], dim=1)
            for slot, content in zip(some.tolist(), contents, strict=True):
                self._put(slot, content.numpy())

    def saved(self, slots: np.ndarray) -> dict[str, Any]:
        named = {"slots": torch.from_numpy(slots), "checksums": torch.from_numpy(self.checksums[slots])}
        return {"form": plain(self.form)} | named

    def _put(self, slot: int, content: np.ndarray) -> None:
        try:
            written = os.pwrite(self.descriptor, content.data, slot * self.size)
        except OSError as error:
            raise UserError(f"{self.file}: cannot be written ({reason(error)})") from error
        if written < self.size:
            raise UserError(f"{self.file}: cannot be written (disk full)")
        self.checksums[slot] = crc32(content.data)

    def _bytes(self, slots: np.ndarray) -> np.ndarray:
        """The rows of slots [n], uint8 [n, bytes]; zeros behind the end of the file."""
        contents = np.zeros((len(slots), self.size), np.uint8)
        for content, slot in zip(contents, slots.tolist(), strict=True):
            os.preadv(self.descriptor, [content.data], slot * self.size)
        return contents

    def _pieces(self, slots: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """The slots in pieces that are moved together, with their places in a stack."""
        step = max(1, AT_ONCE // self.size)
        for start in range(0, len(slots), step):
            yield slice(start, start + step), slots[start : start + step]


def _locked(file: Path) -> int:
    """The file, open for this process alone; it is made where there is none."""
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)
    if not lock(descriptor):
        os.close(descriptor)
        raise UserError(f"{file}: in use by another process that trains the same cell")
    return descriptor


def _as_bytes(t: Tensor) -> Tensor:
    """The same memory as bytes, uint8 [n, bytes of a row]."""
    return t.reshape(len(t), -1).view(torch.uint8)
