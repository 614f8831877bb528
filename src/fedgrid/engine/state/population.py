"""The state of all clients between rounds; a round reads and writes only its participants' rows."""

import math
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedgrid.engine.state.slots import InFile, InMemory, Slots
from fedgrid.engine.state.state import State
from fedgrid.files import replacing
from fedgrid.tree import Tree, as_tree, leaves, plain, rows, tree_map

IN_MEMORY = 2**30
"Up to so many bytes, clients' rows are kept in memory."


@dataclass(frozen=True)
class Population:
    """`State.server`, and the slot of each client's row.

    A client that has never taken part shares its row with all others that have not, where a method's setup gives all
    clients the same. A population stays valid until the second one after it is made.
    """

    server: Tree
    slots: Slots
    slot_of: np.ndarray
    "The slot of each client [N]."

    @classmethod
    def of(cls, state: State, clients: int, file: Path | None) -> "Population":
        """All clients after a method's setup; too many rows for memory go to `file`, where one is given."""
        stack = state.clients
        alike = all(_alike(t) for t in leaves(stack))
        slot_of = np.zeros(clients, dtype=np.int64) if alike else np.arange(clients)
        distinct = rows(stack, slice(0, 1)) if alike else stack
        if file is None or clients * row_size(stack) <= IN_MEMORY:
            return cls(state.server, InMemory(tree_map(torch.clone, distinct)), slot_of)
        slots = InFile(file, tree_map(torch.clone, rows(stack, slice(0, 1))))
        slots.write(np.unique(slot_of), distinct)
        return cls(state.server, slots, slot_of)

    def gather(self, clients: np.ndarray) -> State:
        """The state as clients [n] see it; a row that they all share is read once, and takes no memory for each."""
        slots = self.slot_of[clients]
        if len(slots) > 1 and (slots == slots[0]).all():
            shared = self.slots.read(slots[:1])
            return State(self.server, tree_map(lambda t: t.expand(len(slots), *t.shape[1:]), shared))
        return State(self.server, self.slots.read(slots))

    def everyone(self) -> State:
        """The state of all clients."""
        return self.gather(np.arange(len(self.slot_of)))

    def scatter(self, clients: np.ndarray, before: State, merged: State) -> "Population":
        """All clients after a round of some, who saw the state `before` and leave `merged`."""
        before.require_same_entries(merged)
        if isinstance(self.slots, InMemory) and (len(clients) == len(self.slot_of) or not leaves(merged.clients)):
            return Population(merged.server, InMemory(merged.clients), np.arange(len(self.slot_of)))
        slot_of, new = self.slot_of.copy(), self.slots.free(self.slot_of, len(clients))
        self.slots.write(new, merged.clients)
        slot_of[clients] = new
        return Population(merged.server, self.slots, slot_of)

    def saved(self) -> dict[str, Any]:
        """What a checkpoint holds; rows in a file stay there."""
        named, number = np.unique(self.slot_of, return_inverse=True)
        return {"server": plain(self.server), "place": torch.from_numpy(number)} | self.slots.saved(named)

    def reserve(self) -> None:
        """Keeps the rows from being written over, since a checkpoint names them now."""
        if isinstance(self.slots, InFile):
            self.slots.reserved = np.unique(self.slot_of)

    def copy_rows(self, file: Path) -> None:
        """Copies the file of clients' rows, if they are in one."""
        if isinstance(self.slots, InFile):
            with replacing(file) as temporary:
                shutil.copyfile(self.slots.file, temporary)

    @classmethod
    def loaded(cls, content: dict[str, Any], file: Path, device: torch.device) -> "Population":
        """The inverse of `saved`, with the rows in `file` where they were kept there; raises Lost."""
        server, slot_of = as_tree(content["server"]), content["place"].cpu().numpy()
        if "rows" in content:
            return cls(server, InMemory(as_tree(content["rows"])), slot_of)
        slots = InFile.reopened(file, content, device)
        return cls(server, slots, slots.reserved[slot_of])


def row_size(stack: Tree) -> int:
    """Bytes of one row of every tensor."""
    return sum(math.prod(t.shape[1:]) * t.element_size() for t in leaves(stack))


def _alike(t: Tensor) -> bool:
    """Whether all rows have the same bits."""
    if t.stride(0) == 0:
        return True
    bits = t.contiguous().reshape(len(t), -1).view(torch.uint8)
    return torch.equal(bits, bits[:1].expand_as(bits))
