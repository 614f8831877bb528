"""A pretended GPU: code for one is tested, and its traffic counted, where there is none.

Tensors of the class `Pretended` compute on the processor but say that they are on `DEVICE`. As on CUDA, an operator
that is given tensors of both devices raises `Mixed`, and such a tensor has no ``.numpy()``. The exceptions are CUDA's
too: what is on the processor may be a single number (0-dim), an index into a tensor on the device, or a side of a copy.

    with machine() as used:
        x = torch.ones(3, device=DEVICE)
        with used.counted() as counts:
            (x + 1).sum().item()
    counts  # Counts(sent=0, fetched=1, operators=2)

``lazy`` is a kind of device whose name every torch knows and for which it has nothing that computes. So nothing is
registered, and outside of ``with machine()`` torch is as it was.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from fedgrid.engine import rounds
from fedgrid.engine.federation.method import Method
from fedgrid.engine.federation.simulation import Simulation
from fedgrid.engine.state.checkpoint import Progress
from fedgrid.engine.state.state import State
from fedgrid.suite import simulations
from fedgrid.tree import leaves, tree_map

DEVICE, PROCESSOR = torch.device("lazy", 0), torch.device("cpu")
COPIES = {"_to_copy", "copy_"}
"Operators that may read from one device and write to the other."
INDEXING = {"index", "index_put", "index_put_", "_index_put_impl_"}
"Operators whose second argument is a list of indices."
STRICT = {"cat", "stack"}
"Operators that take not even a single number from the other device."
WAITS = {
    "_linalg_eigh",
    "_linalg_svd",
    "_local_scalar_dense",
    "_unique2",
    "bincount",
    "equal",
    "masked_select",
    "nonzero",
}
"Operators for which the processor waits: for a number, for a size that depends on values, or whether they converged."
FREE = {"_local_scalar_dense", "_unsafe_view", "_reshape_alias"}
"Operators that compute nothing on the device, beside views and new memory (``empty``)."


class Mixed(RuntimeError):
    """Tensors of two devices met."""


@dataclass
class Counts:
    """What happened."""

    sent: int = 0
    "Copies to the device."
    fetched: int = 0
    "Copies to the processor, and operators for which it waits."
    operators: int = 0
    "Operators that computed on the device, each of which launches a kernel or more."

    @property
    def transfers(self) -> int:
        """Copies in either direction."""
        return self.sent + self.fetched

    def __sub__(self, other: "Counts") -> "Counts":
        return Counts(self.sent - other.sent, self.fetched - other.fetched, self.operators - other.operators)


class Pretended(torch.Tensor):
    """A tensor that says it is on the device; its numbers are those of `host`."""

    host: torch.Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, host: torch.Tensor) -> "Pretended":
        form = {"strides": host.stride(), "storage_offset": host.storage_offset(), "dtype": host.dtype}
        made = torch.Tensor._make_wrapper_subclass(cls, host.shape, **form, device=DEVICE)
        made.host = host
        return made

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise RuntimeError(f"{function} of a tensor on the pretended device, outside of `with machine()`")

    def __repr__(self, **settings: Any) -> str:
        return f"Pretended({self.host})"

    def __reduce_ex__(self, protocol: Any) -> Any:
        """A file holds what is fetched; `torch.load` sends it to where it is wanted."""
        return self.cpu().__reduce_ex__(protocol)


class Machine(TorchDispatchMode):
    """Carries out every operator on the processor, and counts as if the device were another machine."""

    def __init__(self) -> None:
        super().__init__()
        self.counts = Counts()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled here, so the compiler need not be imported, which takes seconds."""
        return False

    @contextmanager
    def counted(self) -> Iterator[Counts]:
        """Counts what happens inside of ``with``; the numbers are there at its end."""
        before, actual = replace(self.counts), Counts()
        yield actual
        vars(actual).update(vars(self.counts - before))

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = [*tensors([*args, *kwargs.values()])]
        ours = [t for t in given if isinstance(t, Pretended)]
        wanted = kwargs.get("device")
        on_device = bool(ours) if wanted is None else wanted == DEVICE
        if not ours and not on_device:
            return function(*args, **kwargs)
        self.note(function, args, ours, [t for t in given if not isinstance(t, Pretended)], on_device)
        own = {} if wanted is None else {"device": PROCESSOR}
        result = function(*map(unwrapped, args), **{name: unwrapped(value) for name, value in kwargs.items()} | own)
        if torch.Tag.inplace_view in function.tags:  # as in squeeze_, which changes a shape
            with no_dispatch():
                args[0].data = Pretended(args[0].host)
        if function._schema.is_mutable:
            return args[0] if function._schema.returns else None  # nothing, where a list of tensors changes in place
        return wrapped(result) if on_device else result

    def note(self, function: Any, args: Any, ours: list, theirs: list, on_device: bool) -> None:
        """Counts an operator; raises Mixed where CUDA would refuse it."""
        name = function._schema.name.removeprefix("aten::")
        if name in COPIES:
            source = isinstance(args[name == "copy_"], Pretended)
            target = isinstance(args[0], Pretended) if name == "copy_" else on_device
            self.counts.sent += target > source
            self.counts.fetched += source > target
            self.counts.operators += source and target
            return
        require_one_device(name, args, ours, theirs)
        self.counts.sent += sum(t.dim() > 0 for t in theirs)  # what is left are indices
        self.counts.fetched += name in WAITS or (name in INDEXING and by_truth(args))
        self.counts.operators += not (function.is_view or name in FREE or "empty" in name)


def require_one_device(name: str, args: Any, ours: list, theirs: list) -> None:
    """Raises Mixed where an operator would refuse these tensors on the device and on the processor."""
    if not ours or not theirs:
        return
    refused = theirs if name in STRICT else [t for t in theirs if t.dim()]
    if name in INDEXING and isinstance(args[0], Pretended):
        refused = [t for t in refused if not any(t is index for index in args[1])]
    if name.endswith("_") and not isinstance(args[0], Pretended):
        refused = [args[0]]
    if refused:
        device, processor = ([tuple(t.shape) for t in side] for side in (ours, refused))
        raise Mixed(f"{name} of tensors on the device, {device}, and on the processor, {processor}")


def by_truth(args: Any) -> bool:
    """Whether an index holds truth values, whose places are then looked for; not to write one number at them."""
    return any(t is not None and t.dtype == torch.bool for t in args[1]) and not (len(args) > 2 and args[2].dim() == 0)


def tensors(values: Any) -> Iterator[torch.Tensor]:
    """The tensors among an operator's arguments."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from tensors(value)


def unwrapped(value: Any) -> Any:
    """An argument as the processor knows it."""
    if isinstance(value, Pretended):
        return value.host
    return [unwrapped(part) for part in value] if isinstance(value, list | tuple) else value


def wrapped(result: Any) -> Any:
    """A result as the device holds it."""
    if isinstance(result, torch.Tensor):
        return Pretended(result)
    return type(result)(map(wrapped, result)) if isinstance(result, list | tuple) else result


class Lists(TorchFunctionMode):
    """Python's numbers are a tensor on the processor before they are sent; on the way back they are fetched first."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, first = kwargs or {}, next(iter(args), None)
        if function in (torch.tensor, torch.as_tensor) and kwargs.get("device") == DEVICE:
            return first.to(DEVICE, kwargs.get("dtype")) if isinstance(first, torch.Tensor) else sent(first, **kwargs)
        if not isinstance(first, Pretended):
            return function(*args, **kwargs)
        if function is torch.Tensor.new_tensor:
            return sent(args[1], **{"dtype": first.dtype} | kwargs)
        if function is torch.Tensor.tolist:
            return first.cpu().tolist()
        if function in (torch.Tensor.__getitem__, torch.Tensor.__setitem__):
            args = (first, positions(args[1]), *args[2:])
        return function(*args, **kwargs)


def sent(numbers: Any, **settings: Any) -> torch.Tensor:
    """A tensor of numbers, sent to the device."""
    return torch.tensor(numbers, **settings | {"device": PROCESSOR}).to(DEVICE)


def positions(index: Any) -> Any:
    """An index whose lists are sent."""
    if isinstance(index, tuple):
        return tuple(map(positions, index))
    if isinstance(index, list | np.ndarray):
        return sent(index, dtype=None if len(index) else torch.long)
    return index


def loading(load: Any) -> Any:
    """`torch.load` that sends what it has read, where `map_location` says so."""

    def loaded(*args: Any, map_location: Any = None, **kwargs: Any) -> Any:
        if map_location != DEVICE:
            return load(*args, map_location=map_location, **kwargs)
        return tree_map_only(torch.Tensor, lambda t: t.to(DEVICE), load(*args, map_location=PROCESSOR, **kwargs))

    return loaded


@contextmanager
def machine() -> Iterator[Machine]:
    """The pretended device at work."""
    with patch.object(torch, "load", loading(torch.load)), Lists(), Machine() as used:
        yield used


def fetched(state: State) -> State:
    """A state that is all on the device, on the processor."""
    assert {t.device for t in leaves(state.server) + leaves(state.clients)} <= {DEVICE}
    return State(*(tree_map(lambda t: t.cpu(), tree) for tree in (state.server, state.clients)))


def last_round(method: Method, where: Simulation) -> tuple[Progress, Counts, Counts]:
    """(progress after all rounds on the device, counts of the last one without its evaluation, counts of that)."""
    evaluate, evaluations, ends = rounds.evaluate, [], []

    def noted(*given: Any) -> None:
        with used.counted() as counts:
            evaluate(*given)
        evaluations.append(counts)

    with machine() as used, patch.object(rounds, "evaluate", noted):
        moved = simulations.moved(where, DEVICE)
        outcome = rounds.federate(method, moved, tell=lambda *_: ends.append(replace(used.counts)))
    assert outcome.status == "ok"
    return outcome.progress, ends[-1] - ends[-2] - evaluations[-1], evaluations[-1]
