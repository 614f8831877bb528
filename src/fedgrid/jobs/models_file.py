"""A cell's final models in one safetensors file, which any reader of that format opens; nothing in it is code.

Each tensor is stored once, however many models have it: a model that all clients share, an extractor below many heads.
The metadata are a JSON text, ``fedgrid``, and its SHA-256, ``seal``. The text says of which cell the models are, and

    tensors   name, path and digest of each tensor; a path is ``theta``, ``head.weight`` for a parameter, and begins
              with ``server`` or ``client`` for what a method's `predict` reads of the state
    rows      each different model: the numbers of its tensors
    models    by point and modality: clients, the row of each, and whether the network alone predicts (`by_network`)
    contains  what the models hold beside parameters, such as features of training images; empty: nothing of clients
"""

import hashlib
import json
import os
import shutil
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from fedgrid.engine.kept_models import KeptModels
from fedgrid.errors import UserError
from fedgrid.files import reading, replacing
from fedgrid.models.base import PARTS

FORMAT = 1
METADATA, SEAL = "fedgrid", "seal"
LENGTH = struct.Struct("<Q")
"What the file begins with: the length of its header."
TYPES = {
    torch.float64: "F64",
    torch.int64: "I64",
    torch.float32: "F32",
    torch.int32: "I32",
    torch.bfloat16: "BF16",
    torch.float16: "F16",
    torch.int16: "I16",
    torch.uint8: "U8",
    torch.int8: "I8",
    torch.bool: "BOOL",
}
"Types of tensors as the format names them."
WIDTHS = (8, 4, 2, 1)
"Bytes of a number; wide ones lie first, so that all are aligned."


def write(path: Path, parts: Iterable[KeptModels], about: Mapping[str, Any], carries: str = "") -> None:
    """Writes models, in parts that are read one after the other; `about` joins the header.

    `carries` says what the method's models hold of clients' data, if they hold more than parameters.
    """
    with replacing(path) as temporary, ExitStack() as stack:
        files = {width: stack.enter_context(TemporaryFile(dir=path.parent)) for width in WIDTHS}
        collected = _Collected(files)
        for part in parts:
            collected.add(part)
        contains = "" if all(is_parameter(tensor["path"]) for tensor in collected.tensors) else carries
        text = json.dumps({**about, "format": FORMAT, "contains": contains, **collected.index})
        metadata = {METADATA: text, SEAL: _sum(text.encode())}
        header = json.dumps({"__metadata__": metadata, **collected.layout}).encode()
        header += b" " * (-len(header) % LENGTH.size)
        with open(temporary, "wb") as file:
            file.write(LENGTH.pack(len(header)) + header)
            for body in files.values():
                body.seek(0)
                shutil.copyfileobj(body, file)


@dataclass
class _Collected:
    """Models as they come in; the bytes of their tensors go to `files`, by the width of their numbers."""

    files: Mapping[int, IO[bytes]]
    tensors: list[dict[str, Any]] = field(default_factory=list)
    forms: list[tuple[torch.dtype, list[int], int]] = field(default_factory=list)
    "Of each tensor: type, shape, bytes."
    number_of: dict[tuple[tuple[str, ...], str], int] = field(default_factory=dict)
    "Of each tensor by path and digest."
    rows: dict[tuple[int, ...], int] = field(default_factory=dict)
    models: dict[tuple[str, str, bool], list[tuple[int, int]]] = field(default_factory=dict)
    "Client and row, by point, modality and whether the network alone predicts."

    def add(self, part: KeptModels) -> None:
        """Adds the models of some clients."""
        clients = len(part.clients)
        columns = [self._shared(("server", *path), t, clients) for path, t in _flat(part.server)]
        for root, stack in (("theta", part.theta), ("client", part.client)):
            columns += [self._stack((root, *path), t) for path, t in _flat(stack)]
        models = self.models.setdefault((part.point, part.modality, part.by_network), [])
        for client, tensors in zip(part.clients, zip(*columns, strict=True), strict=True):
            models.append((client, self.rows.setdefault(tensors, len(self.rows))))

    @property
    def index(self) -> dict[str, Any]:
        """What the header says of tensors, rows and models."""
        models = [
            {"point": point, "modality": modality, "by_network": by_network}
            | {"clients": [client for client, _ in sorted(pairs)], "rows": [row for _, row in sorted(pairs)]}
            for (point, modality, by_network), pairs in self.models.items()
        ]
        return {"tensors": self.tensors, "rows": list(map(list, self.rows)), "models": models}

    @property
    def layout(self) -> dict[str, Any]:
        """What the format says of each tensor by name: type, shape, and where it is."""
        layout, start = {}, 0
        for width in WIDTHS:
            for tensor, (dtype, shape, size) in zip(self.tensors, self.forms, strict=True):
                if dtype.itemsize == width:
                    offsets = [start, start := start + size]
                    layout[tensor["name"]] = {"dtype": TYPES[dtype], "shape": shape, "data_offsets": offsets}
        return layout

    def _shared(self, path: tuple[str, ...], tensor: Tensor, clients: int) -> list[int]:
        return [self._number(path, tensor.cpu())] * clients

    def _stack(self, path: tuple[str, ...], stack: Tensor) -> list[int]:
        if stack.stride(0) == 0:  # one row for all
            return self._shared(path, stack[0], len(stack))
        return [self._number(path, tensor) for tensor in stack.cpu()]

    def _number(self, path: tuple[str, ...], tensor: Tensor) -> int:
        """The number of a tensor, which is written if it is new."""
        if tensor.dtype not in TYPES:
            raise UserError(f"artifacts: 'models' cannot store {'.'.join(path)}, whose type is {tensor.dtype}")
        content, digest = _bytes(tensor), digest_of(tensor)
        number = self.number_of.setdefault((path, digest), len(self.tensors))
        if number == len(self.tensors):
            self.tensors.append({"name": f"{'/'.join(path)}/{number}", "path": path, "digest": digest})
            self.forms.append((tensor.dtype, list(tensor.shape), content.nbytes))
            self.files[tensor.dtype.itemsize].write(content)
        return number


def _flat(tree: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], Tensor]]:
    for name, entry in tree.items():
        if isinstance(entry, Mapping):
            yield from (((name, *path), t) for path, t in _flat(entry))
        else:
            yield (name,), entry


def is_parameter(path: Sequence[str]) -> bool:
    """Whether a tensor is a parameter of the network."""
    root, *names = path
    return root == "theta" and names[0].partition(".")[0] in PARTS


def _bytes(tensor: Tensor) -> memoryview:
    array: Any = tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy()
    return memoryview(array)


def digest_of(tensor: Tensor) -> str:
    """SHA-256 of a tensor's type, shape and bits."""
    form = f"{TYPES[tensor.dtype]} {list(tensor.shape)} ".encode()
    return _sum(form, _bytes(tensor))


def _sum(*parts: bytes | memoryview) -> str:
    total = hashlib.sha256()
    for part in parts:
        total.update(part)
    return total.hexdigest()


@dataclass(frozen=True)
class ModelsFile:
    """A file of models whose header is as it was written."""

    path: Path
    header: Mapping[str, Any]

    def row(self, numbers: Iterable[int]) -> list[tuple[tuple[str, ...], Tensor]]:
        """The tensors of these numbers, with their paths; raises `Damaged` where one has changed."""
        tensors: list[tuple[tuple[str, ...], Tensor]] = []
        with reading(self.path), _translated(), safe_open(self.path, framework="pt") as file:
            for entry in [self.header["tensors"][number] for number in numbers]:
                tensor = file.get_tensor(entry["name"]).clone()  # the file may change or go later
                if digest_of(tensor) != entry["digest"]:
                    raise ValueError(f"its tensor {entry['name']} has changed since it was written")
                tensors.append((tuple(entry["path"]), tensor))
        return tensors

    def check(self) -> None:
        """Raises `Damaged` where any tensor has changed."""
        for number in range(len(self.header["tensors"])):
            self.row([number])


def read(path: Path) -> ModelsFile:
    """The models of a file; UserError where there is none, and `Damaged` where its header has changed."""
    with reading(path), _translated():
        os.stat(path)
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
        if METADATA not in metadata or SEAL not in metadata:
            raise ValueError("not a file of models written by fedgrid")
        if _sum(metadata[METADATA].encode()) != metadata[SEAL]:
            raise ValueError("its header has changed since it was written")
        header = json.loads(metadata[METADATA])
    if header["format"] > FORMAT:
        raise UserError(f"{path}: written by fedgrid {header['fedgrid']} in a later format; update fedgrid")
    return ModelsFile(path, header)


@contextmanager
def _translated() -> Iterator[None]:
    """Turns the library's error into one that `reading` knows."""
    try:
        yield
    except SafetensorError as error:
        raise ValueError(str(error)) from error
