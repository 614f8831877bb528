"""A network of which some parameters are trained, and everything else is constant."""

import hashlib
from collections.abc import Collection, Iterable

import torch
from torch import Tensor, nn
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from fedgrid.models.common.initial import set_initial_values
from fedgrid.models.common.norm import BatchNorm

Place = tuple[torch.device, torch.dtype]


class PartlyTrained(nn.Module):
    """A network from images [B, channels, height, width] to `width` numbers each, in evaluation mode.

    The parameters that are `trained`, by their names, are the module's, without memory; where they `start` from the
    network's values, their layers state these. Its batch norms with trained parameters become
    `BatchNorm`, with the network's statistics. All else is constant: no parameter and no buffer, so that it is neither
    sent nor counted. The network is changed, and is this module's from here on.
    """

    def __init__(self, network: nn.Module, trained: Collection[str], channels: int, width: int, start: bool = True):
        super().__init__()
        self.channels, self.width = channels, width
        _replace_layers(network, trained)
        self.network = network.eval()
        self._constants: list[tuple[nn.Module, str]] = []
        "What is constant: layers and names of their tensors."
        values: list[Tensor] = []
        for path, layer in network.named_modules():
            values += self._split(path, layer, trained, start)
        self._place = (torch.device("cpu"), torch.float32)
        self._values: dict[Place, list[Tensor]] = {self._place: values}
        "Constants by device and type; kept, for captured graphs read them where they are."

    @property
    def digest(self) -> str:
        """16 hexadecimal digits of the SHA-256 over the constants."""
        total = hashlib.sha256()
        for value in self._values[torch.device("cpu"), torch.float32]:
            total.update(value.numpy().tobytes())
        return total.hexdigest()[:16]

    def forward(self, x: Tensor) -> Tensor:
        self._move_constants((x.device, x.dtype))
        z: Tensor = self.network(x.expand(-1, self.channels, -1, -1))  # grey images have equal channels
        return z

    def train(self, mode: bool = True) -> "PartlyTrained":
        """Lets trained batch norms use a batch's statistics; nothing else is another network in training."""
        self.training = mode
        for layer in self.network.modules():
            if isinstance(layer, BatchNorm):
                layer.train(mode)
        return self

    def _split(self, path: str, layer: nn.Module, trained: Collection[str], start: bool) -> list[Tensor]:
        """Makes each tensor of one layer a trained one or a constant; returns the values of the constants."""
        initial: dict[str, Tensor] = {}
        constants: dict[str, Tensor] = {}
        for name, value in [*layer.named_parameters(recurse=False), *layer.named_buffers(recurse=False)]:
            if value.is_meta:  # an update's, which starts elsewhere
                continue
            if isinstance(layer, BatchNorm) or f"{path}.{name}".removeprefix(".") in trained:
                empty = torch.empty_like(value, device="meta")
                setattr(layer, name, nn.Parameter(empty) if isinstance(value, nn.Parameter) else empty)
                initial[name] = value.detach()
            else:
                delattr(layer, name)
                constants[name] = value.detach()
        if initial and start:
            set_initial_values(layer, initial)
        vars(layer).update(constants)
        self._constants += [(layer, name) for name in constants]
        return [*constants.values()]

    def _move_constants(self, place: Place) -> None:
        """Gives layers their constants on a device and in a type, of which there is one copy."""
        if place == self._place:
            return
        if place not in self._values:
            self._values[place] = _copied(self._values[torch.device("cpu"), torch.float32], *place)
        for (layer, name), value in zip(self._constants, self._values[place], strict=True):
            vars(layer)[name] = value
        self._place = place


def digests(modules: Iterable[nn.Module]) -> list[str]:
    """Digests of what is constant in the parts of a network, of each part that has such."""
    layers = [layer for module in modules for layer in module.modules()]
    return [layer.digest for layer in layers if isinstance(layer, PartlyTrained)]


def _copied(values: list[Tensor], device: torch.device, dtype: torch.dtype) -> list[Tensor]:
    """The values on a device, floats in a type: ordinary tensors, whatever transformation of torch asks for them."""
    with temporarily_clear_interpreter_stack(), torch.inference_mode(False), torch.no_grad():
        return [value.to(device, dtype if value.is_floating_point() else value.dtype) for value in values]


def _replace_layers(network: nn.Module, trained: Collection[str]) -> None:
    """Removes dropout, makes trained batch norms fedgrid's, and has attention written out."""
    for name, layer in list(network.named_modules()):
        if isinstance(layer, _DropoutNd):
            network.set_submodule(name, nn.Identity())
        elif isinstance(layer, _BatchNorm) and f"{name}.weight" in trained:
            network.set_submodule(name, _trained_norm(layer))
        if hasattr(layer, "fused_attn"):
            layer.fused_attn = False  # torch.vmap has no rule for the fused one


def _trained_norm(layer: _BatchNorm) -> nn.Module:
    """A batch norm of torch's, or timm's with an activation behind it, as fedgrid's with the same values."""
    norm = BatchNorm(layer.num_features, layer.eps)
    norm.load_state_dict({name: t for name, t in layer.state_dict().items() if name != "num_batches_tracked"})
    activation = getattr(layer, "act", None)
    return norm if activation is None else nn.Sequential(norm, activation)
