"""A backbone of the library timm, from pre-trained weights, of which all or a part is trained | classes.

What is frozen is a constant of the network: it does not travel, is not counted in bytes or parameters, and is the same
for all clients. `train` says what is trained beside the head:

    all       the whole backbone
    head      nothing of it
    last N    its last N blocks, as timm counts them for layer-wise learning rates: a residual block of a ResNet, a
              block of a ViT (with the norm behind the last one); the stem is the first
    lora      low-rank updates of its linear layers and convolutions (`fedgrid.models.common.low_rank`)

A batch norm that is trained starts from the pre-trained statistics; a frozen one keeps them. Dropout and stochastic
depth of timm are off: `dropout` is fedgrid's. Images are normalised as for any other model, by mean and standard
deviation of their data set and not of ImageNet, and keep their size; a ViT's positions are interpolated to it.
"""

from collections.abc import Collection
from types import ModuleType
from typing import Any

import torch
from torch import nn

from fedgrid.components import hp
from fedgrid.errors import UserError
from fedgrid.models.base import Model, drawn_values
from fedgrid.models.common.low_rank import add_low_rank_updates
from fedgrid.models.common.partly_trained import PartlyTrained
from fedgrid.models.common.pretrained import check_known, library, pretrained_network
from fedgrid.models.common.residual import resized_features

RANDOM = "random"


class Timm(Model):
    title = "timm"
    source = "Wightman, PyTorch Image Models, 2019; LoRA: Hu et al., LoRA, ICLR 2022"
    pretrained = True

    features: int = hp(0, low=0, high=65_536)
    "Width k of the representation; 0: the backbone's own, else one more layer, always trained, leads to it."
    backbone: str = hp("resnet18")
    "A network of timm by its name."
    weights: str = hp("hub")
    "`hub`: the published weights, downloaded; a .safetensors or .pth file of them; or `random`: drawn."
    train: str = hp("all", pattern="all|head|lora|last [1-9][0-9]{0,2}", form="all, head, lora or last N")
    "What is trained beside the head: the whole backbone, nothing, low-rank updates, or its last N blocks."
    rank: int = hp(8, low=1, high=4_096)
    "Rank of the updates of `lora`."
    alpha: float = hp(8.0, above=0)
    "Updates of `lora` are multiplied by alpha/rank."

    def extractor(self, shape: tuple[int, int, int]) -> nn.Module:
        with torch.device("cpu"), torch.random.fork_rng(devices=[]):  # timm draws weights, which are then replaced
            extractor = self._pretrained(shape)
        width = extractor.width
        return nn.Sequential(extractor, *resized_features(width, self.features or width))

    def extractor_width(self, extractor: nn.Module) -> int:
        first: Any = extractor.get_submodule("0")
        return self.features or first.width

    def _pretrained(self, shape: tuple[int, int, int]) -> PartlyTrained:
        """The backbone, with what is trained of it."""
        timm = library()
        check_known(timm, self.backbone)
        network = self._network(timm).eval()
        channels, width = _fitted(network, shape, self.backbone)
        trained = self._trained(timm, network)
        if self.train == "lora":
            add_low_rank_updates(network, self.rank, self.alpha / self.rank)
        return PartlyTrained(network, trained, channels, width, start=self.weights != RANDOM)

    def _network(self, timm: ModuleType) -> nn.Module:
        """The backbone with the weights that training starts from; of random ones, with those that are frozen."""
        if self.weights != RANDOM:
            return pretrained_network(timm, self.backbone, self.weights, f", or take weights: {RANDOM}")
        network: nn.Module = timm.create_model(self.backbone, pretrained=False, num_classes=0)
        with torch.no_grad():
            for path, layer in network.named_modules():
                for name, parameter in layer.named_parameters(recurse=False):
                    weight = getattr(layer, "weight", parameter)
                    parameter.copy_(drawn_values(f"{path}.{name}", parameter.shape, weight.shape, 0))
        return network

    def _trained(self, timm: ModuleType, network: nn.Module) -> Collection[str]:
        """Names of the backbone's own parameters that are trained."""
        kind, _, count = self.train.partition(" ")
        if kind == "all":
            return {name for name, _ in network.named_parameters()}
        return _last_blocks(timm, network, int(count), self.backbone) if kind == "last" else set()


def _last_blocks(timm: ModuleType, network: Any, count: int, backbone: str) -> set[str]:
    """Names of the parameters of the last blocks; UserError where there are not as many, or where none are defined."""
    if not hasattr(network, "group_matcher"):
        raise UserError(f"model.train: timm defines no blocks of '{backbone}'; choose all, head or lora")
    blocks: dict[str, int] = timm.models.group_parameters(network, network.group_matcher(), reverse=True)
    total = max(blocks.values()) + 1
    if count > total:
        raise UserError(f"model.train: '{backbone}' has {total} blocks, not {count}")
    return {name for name, block in blocks.items() if block >= total - count}


def _fitted(network: Any, shape: tuple[int, int, int], backbone: str) -> tuple[int, int]:
    """Makes a network take images of a shape; its numbers of channels and of features; UserError where it cannot."""
    height, width, colours = shape
    fixed, channels = network.pretrained_cfg["fixed_input_size"], network.pretrained_cfg["input_size"][0]
    if colours not in (1, channels):
        raise UserError(f"model.backbone: '{backbone}' takes images of {channels} channels, not {colours}")
    try:
        if fixed and hasattr(network, "set_input_size"):
            network.set_input_size(img_size=(height, width))
        with torch.no_grad():
            features = network(torch.zeros(1, channels, height, width))
    except Exception as error:  # in how many ways images can be too small, or of a wrong size, only the networks know
        why, *_ = f"{error}\n".splitlines()
        raise UserError(f"model.backbone: '{backbone}' cannot take images of {height}×{width} ({why})") from error
    return channels, features.shape[1]
