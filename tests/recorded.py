"""The double of a captured CUDA graph on a processor: the same operators on the same memory, and the same refusals."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

WAITING = ("_local_scalar_dense", "nonzero", "_unique2", "unique_dim", "bincount", "equal", "masked_select")
"Operators whose result a program waits for, which a stream under capture refuses."
SOLVED_BY_HOST = ("_linalg_eigh", "_linalg_svd", "linalg_lstsq")
"Operators that are computed by libraries that wait, too."


class Outside:
    """A tensor that lay in memory before the capture. A graph knows its address alone, and does not keep it."""

    def __init__(self, t: Tensor):
        self.memory = StorageWeakRef(t.untyped_storage())
        self.form, self.kind = (t.storage_offset(), t.size(), t.stride()), t.dtype

    def again(self) -> Tensor:
        memory = torch.UntypedStorage._new_with_weak_ptr(self.memory.cdata)
        if memory is None:
            raise RuntimeError(f"a graph reads memory that was given back: {self.kind} {tuple(self.form[1])}")
        return torch.empty(0, dtype=self.kind).set_(memory, *self.form)


class Recorded(TorchDispatchMode):
    """Records the operators of some work on `memory`, which is then as it was, and does them again at each replay."""

    def __init__(self, work: Callable[[], None], memory: Sequence[Tensor]):
        super().__init__()
        self.calls, self.kept, self.own = [], [], set()
        before = [t.clone() for t in memory]
        with self:
            work()
        for t, value in zip(memory, before, strict=True):
            t.copy_(value)

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs, name = kwargs or {}, function._schema.name.removeprefix("aten::")
        if name in WAITING + SOLVED_BY_HOST:
            raise RuntimeError(f"operation not permitted when stream is capturing: {name}")
        if torch.Tag.nondeterministic_seeded in function.tags:
            raise RuntimeError(f"operation not permitted when stream is capturing: {name} reads a generator")
        known = {_memory(t) for t in _tensors((args, kwargs))}
        result = function(*args, **kwargs)
        made = _tensors(tree_map(_as_it_is, result))
        is_view = bool(made) and all(_memory(t) in known for t in made)
        if not is_view:
            self.own.update(map(_memory, made))
        self.kept += [t for t in made if _memory(t) in self.own]  # or their memory would be given to others
        given, named = tree_map(self._held, (args, kwargs))
        if torch.Tag.inplace_view in function.tags:  # it changes no number
            return result
        if function._schema.is_mutable:
            self.calls.append((function, given, named, []))
        elif not is_view:
            self.calls.append((function, given, named, made))
        return result

    @torch.no_grad()
    def replay(self):
        for function, args, kwargs, made in self.calls:
            given, named = tree_map(_again, (args, kwargs))
            result = function(*given, **named)
            for place, value in zip(made, _tensors(result) if made else [], strict=True):
                place.copy_(value)

    def _held(self, value):
        """A tensor as a graph holds it; one of the pretended device has no memory to be given back."""
        if not isinstance(value, Tensor):
            return value
        pretended = value.device.type != "cpu"
        return value.detach() if pretended or _memory(value) in self.own else Outside(value)


def _again(value):
    return value.again() if isinstance(value, Outside) else value


def _as_it_is(value):
    """A tensor on the same memory that keeps its shape where the other's is changed in place."""
    return value.detach() if isinstance(value, Tensor) else value


def _tensors(tree) -> list[Tensor]:
    return [t for t in tree_leaves(tree) if isinstance(t, Tensor)]


def _memory(t: Tensor) -> int:
    return t.untyped_storage()._cdata
