"""A model is a pure function of its parameters, in two named parts: extractor φ and head π.

Parameters θ are a flat dictionary from names to tensors; a name starts with ``extractor.`` or ``head.``. A model for
data of several modalities has an extractor for each (``extractor.visual.``, ``extractor.textual.``) and one head.
Samples are images x [B, channels, height, width]; signals are [B, channels, 1, length], rows of a table [B, columns, 1,
1], and texts are tokens [B, words].
"""

import abc
import math
from collections.abc import Mapping
from copy import copy
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.func import functional_call

from fedgrid.components import Component, hp
from fedgrid.data.common.images import IMAGE, TEXT
from fedgrid.errors import UserError
from fedgrid.models.common.initial import initial_values
from fedgrid.models.common.norm import BatchNorm, is_statistic, named_layers, noting
from fedgrid.randomness import generator, uniform
from fedgrid.tree import Tree

PARTS = ("extractor", "head")
DROPOUT = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout)
COUNTED = (nn.Linear, nn.Conv1d, nn.Conv2d)
PADDING_AND_UNKNOWN = 2
"Tokens that are no words: 0 fills up a text, 1 stands for a word that the vocabulary lacks."


class Model(Component, abc.ABC):
    """An architecture. A subclass defines `extractor`; the head, one linear layer from z [B, k] to logits, is added."""

    features: int = hp(128, low=1, high=65_536)
    "Width k of the representation z that the extractor gives to the head."
    dropout: float = hp(0.0, low=0, high=0.95)
    "Share of the representation's numbers that are dropped before the head in training."
    projection: int | None = hp(None, low=1, high=65_536)
    "Width of a projection head (linear, ReLU, linear) behind the features, as in MOON's code; its output is then z."

    smallest: ClassVar[int] = 1
    "Smallest height and width of an image that the extractor takes."
    modalities: ClassVar[tuple[str, ...]] = ()
    "What it has an extractor each for; empty: one extractor."
    kinds: ClassVar[tuple[str, ...]] = (IMAGE,)
    "What samples it takes, of image, text, signal and tabular; a model of texts takes nothing else."
    pretrained: ClassVar[bool] = False
    """Whether its `backbone` is a network of timm, and its `weights` are those of the hub, random ones or a file, whose
    content counts in keys."""

    @classmethod
    def facts(cls) -> dict[str, Any]:
        facts = {"smallest": cls.smallest, "modalities": list(cls.modalities), "kinds": list(cls.kinds)}
        return facts | ({"pretrained": True} if cls.pretrained else {})

    @abc.abstractmethod
    def extractor(self, shape: tuple[int, int, int]) -> nn.Module:
        """The module from images [B, channels, height, width] to z [B, features]; `shape` is (h, w, channels)."""

    def extractors(self, shape: tuple[int, int, int], vocabulary: int) -> dict[str, nn.Module]:
        """The extractors by the part of θ that each is; `vocabulary` is the number of different tokens of texts."""
        return {"extractor": self.extractor(shape)}

    def network(self, shape: tuple[int, int, int], classes: int, vocabulary: int = PADDING_AND_UNKNOWN) -> "Network":
        """The model for images of `shape` (height, width, channels), for texts, and for a number of `classes`.

        Raises UserError for images that are too small, and for layers with state or randomness of their own: layers
        must be pure functions of their parameters, with `common.norm.BatchNorm` in place of torch's batch norm, and the
        setting `dropout`, which draws from the client's and batch's generator, in place of dropout layers.
        """
        if min(shape[:2]) < self.smallest:
            raise UserError(f"model: {type(self).__name__} needs images of at least {self.smallest}×{self.smallest}")
        with torch.device("meta"):  # parameters are drawn by `Network.initial`, never by the modules themselves
            modules = self.extractors(shape, vocabulary)
            features = self.extractor_width(next(iter(modules.values())))
            width = self.projection or features
            if self.projection:
                modules = {
                    name: nn.Sequential(extractor, *_projection(features, width)) for name, extractor in modules.items()
                }
            modules["head"] = nn.Linear(width, classes)
        for layer in (layer for module in modules.values() for layer in module.modules()):
            stateful = list(layer.buffers(recurse=False)) and not isinstance(layer, BatchNorm)
            if stateful or isinstance(layer, DROPOUT):
                what = f"{type(self).__name__} holds a {type(layer).__name__}"
                raise UserError(f"model: {what}, a layer with state or randomness of its own; see Model.network")
        return Network(modules, width, classes, self.dropout, TEXT in self.kinds)

    def extractor_width(self, extractor: nn.Module) -> int:
        """How many numbers an extractor of this model gives; those of all modalities give as many."""
        return self.features


class TextModel(Model):
    """An architecture for texts. A subclass defines `encoder`."""

    kinds = (TEXT,)

    @abc.abstractmethod
    def encoder(self, length: int, vocabulary: int) -> nn.Module:
        """The module from tokens [B, length] to z [B, features]; there are `vocabulary` different ones, 0 fills up."""

    def extractor(self, shape: tuple[int, int, int]) -> nn.Module:
        return self.encoder(shape[1], PADDING_AND_UNKNOWN)

    def extractors(self, shape: tuple[int, int, int], vocabulary: int) -> dict[str, nn.Module]:
        return {"extractor": self.encoder(shape[1], vocabulary)}


class Network:
    """What a method calls: ``network(θ, x)``, ``network.features(θ, x)``, ``network.head(θ, z)``."""

    key: int | Tensor | None = None
    "What dropout's random numbers start from; None: not in training, nothing is dropped."
    mixed = False
    "Layers compute in bfloat16; parameters and what comes out stay as they are."
    modality = ""
    "The modality of the batches that it takes; empty: the only one, or (see `modalities`) none before `only`."

    def __init__(
        self, modules: Mapping[str, nn.Module], features: int, classes: int, dropout: float = 0.0, textual: bool = False
    ):
        self.modules, self.width, self.classes, self.dropout = modules, features, classes, dropout
        self.textual = textual
        "Whether all that it takes are texts."
        self.modalities = tuple(part.partition(".")[2] for part in modules if part.startswith("extractor."))
        "What it has an extractor each for; empty: it is plain."
        buffers = [f"{part}.{name}" for part, module in modules.items() for name, _ in module.named_buffers()]
        self.statistics = tuple(name for name in buffers if is_statistic(name))
        "Names of the entries of θ that are statistics of images, not trained."

    def only(self, modality: str) -> "Network":
        """The network of clients of one modality: its extractor and the head, under the same names."""
        part = f"extractor.{modality}"
        modules = {name: self.modules[name] for name in (part, "head")}
        statistics = tuple(name for name in self.statistics if name.startswith(part + "."))
        return self._with(modules=modules, statistics=statistics, modality=modality)

    def part_of_modality(self, theta: Any) -> Any:
        """θ, a stack or a tree of them, without the entries ``part.modality.…`` of other modalities than its own."""
        if not isinstance(theta, Mapping):
            return theta
        others = {*self.modalities} - {self.modality}
        return Tree(
            (name, self.part_of_modality(t)) for name, t in theta.items() if others.isdisjoint(name.split(".")[1:2])
        )

    def learning(self, key: int | Tensor) -> "Network":
        """The network as it is in training: dropout is a function of `key`, batch norm uses the batch's statistics."""
        return self._with(key=key) if self.dropout or self.statistics else self

    def evaluating(self) -> "Network":
        """The network as it is in evaluation, for models that a loss compares with."""
        return self if self.key is None else self._with(key=None)

    def in_bfloat16(self) -> "Network":
        """The network with layers that compute in bfloat16."""
        return self._with(mixed=True)

    def __call__(self, theta: Mapping[str, Tensor], x: Tensor) -> Tensor:
        """Logits [B, C] of images x [B, channels, height, width], or of texts [B, words]."""
        return self.head(theta, self.features(theta, x))

    def features(self, theta: Mapping[str, Tensor], x: Tensor) -> Tensor:
        """Representations z [B, k]."""
        return self._call(self._extractor, theta, x)

    def head(self, theta: Mapping[str, Tensor], z: Tensor) -> Tensor:
        """Logits [B, C] of representations z [B, k]."""
        if self.key is not None and self.dropout:
            retained = uniform(self.key, "dropout", z) >= self.dropout
            z = z * retained / (1 - self.dropout)
        return self._call("head", theta, z)

    def moments(self, theta: Mapping[str, Tensor], x: Tensor) -> Tree:
        """First and second moments of what the batch-norm layers see of images x, under the names of `statistics`."""
        layers = named_layers(self.modules[self._extractor], self._extractor)
        moments = Tree()
        hooks = [layer.register_forward_pre_hook(noting(name, moments)) for name, layer in layers.items()]
        self.features(theta, x)
        for hook in hooks:
            hook.remove()
        return moments

    def parameters(self, theta: Mapping[str, Tensor]) -> Tree:
        """What is trained of θ (or of a stack): no statistics of batch norm, no other modality's extractor."""
        part = self.part_of_modality(theta) if self.modality else theta
        return Tree((name, t) for name, t in part.items() if not is_statistic(name))

    def initial(self, seed: int) -> Tree:
        """Parameters drawn as torch's layers do, U(−1/√fan_in, 1/√fan_in), from generators keyed by name and seed.

        Those of layers that state where they start (`common.initial`) are copies of these values.
        """
        theta = Tree()
        for part, module in self.modules.items():
            for name, layer in module.named_modules():
                stated = initial_values(layer)
                for key, empty in (*layer.named_parameters(recurse=False), *layer.named_buffers(recurse=False)):
                    full, weight = ".".join(filter(None, (part, name, key))), getattr(layer, "weight", empty)
                    drawn = key not in stated
                    theta[full] = drawn_values(full, empty.shape, weight.shape, seed) if drawn else stated[key].clone()
        return theta

    def flops(self, shape: tuple[int, int, int], tokens: int = 1) -> int:
        """Floating-point operations of linear layers and convolutions in a forward pass for one image of `shape`.

        Two for each multiplication with a weight, as `torch.utils.flop_counter` counts (whose use costs a second). Of
        several modalities, whose texts have so many `tokens`, those of the one that costs most. A network of texts
        takes them as wide as `shape`.
        """
        if self.modalities and not self.modality:
            return max(self.only(modality).flops(shape, tokens) for modality in self.modalities)
        height, width, channels = shape
        counts: list[int] = []
        layers = [layer for module in self.modules.values() for layer in module.modules() if isinstance(layer, COUNTED)]
        hooks = [layer.register_forward_hook(lambda *a: counts.append(_operations(*a))) for layer in layers]
        text = torch.zeros(1, width if self.textual else tokens, dtype=torch.long)
        is_text = self.textual or self.modality == "textual"
        with torch.no_grad():
            self(self.initial(0), text if is_text else torch.zeros(1, channels, height, width))
        for hook in hooks:
            hook.remove()
        return sum(counts)

    @property
    def _extractor(self) -> str:
        return f"extractor.{self.modality}" if self.modality else "extractor"

    def _call(self, part: str, theta: Mapping[str, Tensor], x: Tensor) -> Tensor:
        parameters = {name[len(part) + 1 :]: value for name, value in theta.items() if name.startswith(part + ".")}
        if self.statistics:
            self.modules[part].train(self.key is not None)
        output: Tensor
        if not self.mixed:
            output = functional_call(self.modules[part], parameters, x, tie_weights=False)
            return output
        kind = x.dtype if x.is_floating_point() else next(iter(parameters.values())).dtype  # tokens are whole numbers
        with torch.autocast(x.device.type, torch.bfloat16):
            output = functional_call(self.modules[part], parameters, x, tie_weights=False)
            return output.to(kind)

    def _with(self, **changes: Any) -> "Network":
        other = copy(self)
        vars(other).update(changes)
        return other


def _operations(layer: nn.Linear | nn.Conv1d | nn.Conv2d, inputs: tuple[Tensor, ...], output: Tensor) -> int:
    return 2 * output.numel() * layer.weight[0].numel()


def _projection(features: int, width: int) -> tuple[nn.Module, ...]:
    return nn.Linear(features, features), nn.ReLU(), nn.Linear(features, width)


def drawn_values(name: str, shape: torch.Size, weight: torch.Size, seed: int) -> Tensor:
    """Initial values of a parameter, or of a statistic, of a layer whose weight has the shape `weight`."""
    if len(weight) == 1:  # a normalisation layer starts as the identity
        return torch.ones(shape) if name.endswith(("weight", "running_var")) else torch.zeros(shape)
    bound = 1 / math.sqrt(math.prod(weight[1:]))
    return torch.from_numpy(generator("init", seed, name).uniform(-bound, bound, tuple(shape))).to(torch.float32)
