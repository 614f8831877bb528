"""A network as ordinary layers of torch, or a method's own prediction as a program: both run without fedgrid."""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import partial

import torch
from torch import Tensor, fx, nn
from torch.export import Dim
from torch.func import functional_call

from fedgrid.engine.local.client_data import TEXTUAL
from fedgrid.engine.local.context import LossContext
from fedgrid.errors import UserError
from fedgrid.models.base import Network
from fedgrid.models.common.norm import BatchNorm, GroupNorm
from fedgrid.tree import Tree, leaves, rebuilt

BATCH_NORMS: Mapping[int, type[nn.BatchNorm1d] | type[nn.BatchNorm2d]] = {2: nn.BatchNorm1d, 4: nn.BatchNorm2d}
"Torch's batch norm for inputs of so many dimensions."


class Normalisation(nn.Module):
    """(pixel − centre) / spread, in the type of both."""

    centre: Tensor
    spread: Tensor

    def __init__(self, centre: Tensor, spread: Tensor):
        super().__init__()
        self.register_buffer("centre", centre)
        self.register_buffer("spread", spread)

    def forward(self, pixels: Tensor) -> Tensor:
        values: Tensor = (pixels.to(self.centre.dtype) - self.centre) / self.spread
        return values


def normalisation(centre: Tensor, spread: Tensor) -> nn.Module:
    """The layer from pixels to what a network takes; both are [1, channels, 1, 1]."""
    return fx.symbolic_trace(Normalisation(centre, spread))


def layers(network: Network, theta: Mapping[str, Tensor], images: Tensor) -> OrderedDict[str, nn.Module] | None:
    """The parts of a network as layers with their parameters; None where it has layers that torch has not.

    `images` [1, channels, height, width] are an example of what it takes, in the type of its parameters.
    """
    if network.mixed or network.modality == TEXTUAL:
        return None
    parts, x = OrderedDict[str, nn.Module](), images
    for name, module in network.modules.items():
        parameters = {key.removeprefix(f"{name}."): t for key, t in theta.items() if key.startswith(f"{name}.")}
        shapes: dict[str, torch.Size] = {}  # of what each normalising layer sees
        norms = [(path, layer) for path, layer in module.named_modules() if isinstance(layer, BatchNorm | GroupNorm)]
        hooks = [layer.register_forward_pre_hook(partial(_note, shapes, path)) for path, layer in norms]
        x = functional_call(module.eval(), parameters, x)
        for hook in hooks:
            hook.remove()
        part = _with_ordinary_norms(deepcopy(module), shapes)
        if not all(type(layer).__module__.startswith("torch.nn.") for layer in part.modules()):
            return None
        parts[name.partition(".")[0]] = _filled(part.to_empty(device="cpu").to(images.dtype), parameters)
    return parts


def _note(shapes: dict[str, torch.Size], name: str, layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
    """Notes the shape of what a layer sees."""
    shapes[name] = inputs[0].shape


def _with_ordinary_norms(module: nn.Module, shapes: Mapping[str, torch.Size]) -> nn.Module:
    """The module with torch's norms in place of fedgrid's, which in evaluation are the same, bit for bit."""
    for name, shape in shapes.items():
        parent, _, last = name.rpartition(".")
        ordinary = _ordinary_norm(module.get_submodule(name), shape)
        if ordinary and last:
            setattr(module.get_submodule(parent), last, ordinary)
    return module


def _ordinary_norm(layer: nn.Module, shape: torch.Size) -> nn.Module | None:
    """Torch's norm that takes inputs of a `shape`; None where it has none, as for a single value a group."""
    if not isinstance(layer, GroupNorm):
        return BATCH_NORMS[len(shape)](shape[1], device="meta") if len(shape) in BATCH_NORMS else None
    several = shape[1:].numel() > layer.num_groups
    return nn.GroupNorm(layer.num_groups, layer.num_channels, layer.eps, device="meta") if several else None


def _filled(part: nn.Module, parameters: Mapping[str, Tensor]) -> nn.Module:
    """The part of a network with its parameters."""
    batches = {name: torch.tensor(0) for name in part.state_dict() if name.endswith("num_batches_tracked")}
    variances = {name: t.clamp(min=0) for name, t in parameters.items() if name.endswith("running_var")}
    part.load_state_dict({**batches, **parameters, **variances})
    return part


Scores = Callable[[Tree, Tensor, LossContext], Tensor]
"(θ, x [B, …], context) → class scores [B, C]."


class Prediction(nn.Module):
    """A prediction whose θ and state are buffers."""

    def __init__(self, predict: Scores, network: Network, kept: Tree):
        super().__init__()
        self.predict, self.network, self.kept = predict, network, kept
        for number, t in enumerate(leaves(kept)):
            self.register_buffer(f"kept_{number}", t)

    def forward(self, x: Tensor) -> Tensor:
        kept = rebuilt(self.kept, list(self.buffers()))
        at = LossContext(self.network, kept.get("server", Tree()), kept.get("client", Tree()), None)
        return self.predict(kept.theta, x, at)


def program(predict: Scores, network: Network, kept: Tree, shape: Sequence[int], dtype: torch.dtype) -> nn.Module:
    """What `predict` does with inputs [B, *shape] of a type, for any B.

    `kept` are θ and what it reads of the state, under ``theta``, ``server`` and ``client``. Raises UserError where
    torch cannot export it.
    """
    example = torch.zeros(2, *shape, dtype=dtype)
    try:
        return _exported(Prediction(predict, network, kept), example, network.mixed)
    except Exception as error:  # of a method's own code, which may do anything
        first, *_ = str(error).strip().split("\n")
        why = f"{type(error).__name__}: {first}"
        raise UserError(f"torch.export cannot export how this model predicts ({why})") from error


@torch.no_grad()
def _exported(module: nn.Module, example: Tensor, mixed: bool) -> nn.Module:
    module(example)  # a network moves its constants at a first call, which may not be one that is written down
    exported = torch.export.export(module, (example,), dynamic_shapes=({0: Dim.DYNAMIC},))
    if mixed:  # what autocast does is written out, or it would be lost below
        exported = exported.run_decompositions({})
    return _plain(exported.module())


def _plain(module: fx.GraphModule) -> fx.GraphModule:
    """The same program, without checks of what it is given, as a module that can be pickled and told `eval`."""
    for node in module.graph.find_nodes(op="call_module", target="_guards_fn"):
        module.graph.erase_node(node)
    module.recompile()
    return fx.symbolic_trace(module)
