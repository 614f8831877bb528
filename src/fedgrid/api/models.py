"""The final models of a cell as modules of torch."""

import functools
import json
import os
import warnings
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import torch
from torch import Tensor, nn

from fedgrid.api.program import Scores, layers, normalisation, program
from fedgrid.data.sources.digests import digest as file_digest
from fedgrid.engine.federation.method import Method
from fedgrid.engine.local.client_data import TEXTUAL
from fedgrid.engine.local.context import LossContext
from fedgrid.errors import UserError
from fedgrid.files import path_of
from fedgrid.grid.plan.keys import modules_of_model
from fedgrid.grid.study.fingerprint import modules
from fedgrid.grid.study.sources import forget_files
from fedgrid.jobs.apart import require
from fedgrid.jobs.models_file import ModelsFile, is_parameter, read
from fedgrid.loading import load, locate
from fedgrid.models.base import PADDING_AND_UNKNOWN, Model, Network
from fedgrid.models.common.partly_trained import digests
from fedgrid.settings import ARTIFACTS
from fedgrid.tree import Tree

SUFFIX = ARTIFACTS["models"]


def load_model(cell: str | os.PathLike[str], client: int | None = None, point: str | None = None) -> nn.Module:
    """A final model of a cell in evaluation mode: from images to class scores [B, C], whose softmax is probabilities.

    `cell` is the file of the cell's results or of its models. `client` is the number of a client; it may be left out if
    all clients have the same model. `point` is ``global``, ``received``, ``adapted`` or ``trained``; the default is the
    point that the method's paper scores.

    The module takes pixels [B, channels, height, width] as the data set has them, 0 to 255 for most, of any type, and
    normalises them itself. A model of a cell on features or on rows of a table takes [B, width, 1, 1], on signals
    [B, channels, 1, length], and that of a client that holds texts takes tokens [B, words] (int64). The module is a
    `torch.nn.Sequential` of ordinary layers or, where these do not suffice, as for a method that predicts in its own
    way, has a program of `torch.export` in their place; both run without fedgrid. Its attribute `classes` lists the
    names of the classes.

    Raises UserError if no models were kept, if none is of that client or point, or if torch cannot export the
    prediction, and `Damaged` if the file has changed since it was written. Warns if the model holds features of a
    client's training images, or if code of its prediction has been edited since the cell was trained.
    """
    models = StoredModels.of(Path(cell))
    choice = models.choose(client, point)
    for notice in (models.client_data_notice(choice), models.edited_code_notice(choice)):
        if notice:
            warnings.warn(notice, stacklevel=2)
    return models.module(choice)


def models_file(cell: Path) -> Path:
    """The file of the models of a cell, named by itself or by its results; UserError where none was kept."""
    file = cell if cell.name.endswith(SUFFIX) else cell.with_suffix(SUFFIX)
    if file.is_file():
        return file
    if not cell.exists():
        raise UserError(f"{cell} does not exist")
    raise UserError(f"{cell}: no models were kept beside these results; put 'artifacts: [models]' into the study")


@dataclass(frozen=True)
class Choice:
    """One model of a file."""

    modality: str
    by_network: bool
    row: int


class StoredModels(ModelsFile):
    """The models of a file, which can be chosen and built."""

    @classmethod
    def of(cls, cell: Path) -> "StoredModels":
        """The models of a cell, named by its results or by the file itself; UserError where none was kept."""
        file = read(models_file(cell))
        return cls(file.path, file.header)

    def choose(self, client: int | None, point: str | None) -> Choice:
        """The model of a client at a point; UserError, with the names there are, where there is none."""
        points = list(dict.fromkeys(group["point"] for group in self.header["models"]))
        point = point or (self.header["score"] if self.header["score"] in points else points[0])
        if point not in points:
            raise UserError(f"{self.path}: no models at the point '{point}'; there are {', '.join(points)}")
        groups = [group for group in self.header["models"] if group["point"] == point]
        by_client = {
            number: Choice(group["modality"], group["by_network"], row)
            for group in groups
            for number, row in zip(group["clients"], group["rows"], strict=True)
        }
        if client is None and len(set(by_client.values())) == 1:
            return next(iter(by_client.values()))
        if client not in by_client:
            raise UserError(self._no_client(client, point, sorted(by_client)))
        return by_client[client]

    def _no_client(self, client: int | None, point: str, known: list[int]) -> str:
        if client is None:
            return f"{self.path}: clients have different {point} models; name one of the clients {_ranges(known)}"
        everyone = {number for group in self.header["models"] for number in group["clients"]}
        if client in everyone and point == "trained":
            absent = f"client {client} did not take part in the last round and has no trained model"
            return f"{self.path}: {absent}; clients {_ranges(known)} have one"
        return f"{self.path}: no client {client} at the point '{point}'; there are {_ranges(known)}"

    def client_data_notice(self, choice: Choice) -> str:
        """What a user must know before passing the chosen model on; empty: nothing."""
        paths = (self.header["tensors"][number]["path"] for number in self.header["rows"][choice.row])
        if not self.header["contains"] or all(map(is_parameter, paths)):
            return ""
        return f"this model holds {self.header['contains']}: whoever has it has these too"

    def edited_code_notice(self, choice: Choice) -> str:
        """A sentence where code that the chosen model predicts by is not as it was in training; else empty."""
        forget_files()
        before, method = self.header["modules"], None if choice.by_network else self.header["reference"]
        now = _modules(self.model_reference, method)
        edited = [name for name, code in now.items() if _is_of_prediction(name) and before.get(name) != code]
        if not edited:
            return ""
        return f"{', '.join(edited)} differs from the code that trained this cell; the model may predict otherwise"

    def module(self, choice: Choice) -> nn.Module:
        """The chosen model; see `load_model`. A process of its own imports the files of users that it needs."""
        references = [self.model_reference, *([] if choice.by_network else [self.header["reference"]])]
        apart = any(reference.endswith(".py") for reference in references)
        module = self._built_apart(choice) if apart else self.built(choice)
        module.classes = self.header["classes"]
        return module.eval()

    def _built_apart(self, choice: Choice) -> nn.Module:
        with TemporaryDirectory(prefix="fedgrid-model-") as folder:
            out = Path(folder, "module.pt")
            require("fedgrid.api.built_apart", [str(self.path), json.dumps(asdict(choice)), str(out)])
            return cast(nn.Module, torch.load(out, weights_only=False))  # what this user's own process has just written

    def built(self, choice: Choice) -> nn.Module:
        """The chosen model, for whose code this process imports files."""
        kept = self._kept(choice)
        network = self.network.only(choice.modality) if choice.modality else self.network
        if network.textual or choice.modality == TEXTUAL:
            words = self.header["texts"]["captions"][-1]
            return program(self._predict(choice), network, kept, (words,), torch.int64)
        height, width, channels = self.header["images"]["shape"]
        scale, example = normalisation(*self.constants), torch.zeros(1, channels, height, width, dtype=self.dtype)
        if choice.by_network and (parts := layers(network, kept.theta, example)):
            return nn.Sequential(OrderedDict(normalisation=scale, **parts))
        predict = program(self._predict(choice), network, kept, (channels, height, width), self.dtype)
        return nn.Sequential(OrderedDict(normalisation=scale, prediction=predict))

    def _kept(self, choice: Choice) -> Tree:
        """The tensors of the chosen model: parameters, and what its prediction reads of the state."""
        kept = Tree()
        for path, t in self.row(self.header["rows"][choice.row]):
            node = kept
            for name in path[:-1]:
                node = node.setdefault(name, Tree())
            node[path[-1]] = t
        return kept

    def _predict(self, choice: Choice) -> Scores:
        if choice.by_network:
            return _by_network
        method = load("methods", self.header["reference"])(**self.header["spec"]["method"]["settings"])
        return cast(Method, method).predict

    @functools.cached_property
    def network(self) -> Network:
        """The network of all models."""
        spec, texts = self.header["spec"]["model"], self.header["texts"]
        self._check_weights(spec)
        vocabulary = len(texts["vocabulary"]) + PADDING_AND_UNKNOWN if texts else PADDING_AND_UNKNOWN
        model = cast(Model, load("models", self.model_reference)(**spec["settings"]))
        network = model.network(tuple(self.header["images"]["shape"]), len(self.header["classes"]), vocabulary)
        now = digests(network.modules.values())
        if "frozen" in self.header and self.header["frozen"] != now:
            weights = spec["settings"].get("weights")
            raise UserError(f"{self.path}: what stays frozen in the model ({weights}) is not what it was in training")
        return network.in_bfloat16() if self.header["dtype"] == "bfloat16-mixed" else network

    def _check_weights(self, spec: Mapping[str, Any]) -> None:
        """Raises UserError where the weights that a model started from, some of which it keeps, are not there."""
        if "weights" not in spec:
            return
        file = path_of(spec["settings"]["weights"], f"{self.path}: model.weights")
        if not file.is_file() or file_digest(file) != spec["weights"]:
            problem = "holds other weights now" if file.is_file() else "is not there"
            raise UserError(f"{self.path}: the model started from the weights in {file}, which {problem}")

    @property
    def model_reference(self) -> str:
        """The name of the model, or the path of its file."""
        reference: str = self.header.get("model_reference", self.header["spec"]["model"]["name"])
        return reference

    @property
    def dtype(self) -> torch.dtype:
        """The type of parameters."""
        return torch.float64 if self.header["dtype"] == "float64" else torch.float32

    @property
    def constants(self) -> tuple[Tensor, Tensor]:
        """Centre and spread of pixels [1, channels, 1, 1], as in training."""
        images = self.header["images"]
        centre, spread = (torch.tensor(images[name], dtype=self.dtype) * images["scale"] for name in ("mean", "std"))
        channels = images["shape"][2]
        return centre.expand(channels).reshape(1, channels, 1, 1), spread.expand(channels).reshape(1, channels, 1, 1)


def _by_network(theta: Tree, x: Tensor, at: LossContext) -> Tensor:
    return at.model(theta, x)


def _modules(model: str, method: str | None) -> dict[str, str]:
    """The modules of today's code of a model, and of a method if there is one, with their digests."""
    _, network, of_model = locate("models", model)
    of_network = modules_of_model(network, of_model)
    if method is None:
        return of_network
    _, module, file = locate("methods", method)
    return modules(module, file) | of_network


def _is_of_prediction(module: str) -> bool:
    """Whether a module is a model's or a method's, and not the engine's."""
    return module.startswith(("fedgrid.models", "fedgrid.methods")) or not module.startswith("fedgrid")


def _ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers in words: ``0 to 4, 7``."""
    texts, start = [], 0
    for end in range(1, len(numbers) + 1):
        if end == len(numbers) or numbers[end] != numbers[end - 1] + 1:
            first, last = numbers[start], numbers[end - 1]
            texts.append(f"{first} to {last}" if last > first else f"{first}")
            start = end
    return ", ".join(texts)
