"""Low-rank updates of the layers of a frozen network (LoRA): Hu et al., LoRA, ICLR 2022, Sec. 4.1.

A layer with weight W becomes one with W + (alpha/rank)·B·A, of which A and B alone are trained. The update is added to
what the layer gives, so that of many clients in a stack W is applied to the images of all at once. A convolution's A
has its filters' height and width, and its B is a 1×1 convolution.

The library peft does the same to a network, but requires transformers and accelerate, and keeps frozen weights as
parameters, which fedgrid would send.
"""

import torch
from torch import Tensor, nn

from fedgrid.errors import UserError
from fedgrid.models.common.initial import set_initial_values


class LowRank(nn.Module):
    """A linear layer or convolution `base`, and `scale` times what `up` makes of what `down` makes of x."""

    def __init__(self, base: nn.Linear | nn.Conv2d, rank: int, scale: float):
        super().__init__()
        self.base, self.scale = base, scale
        with torch.device("meta"):
            self.down, self.up = _factors(base, rank)
        set_initial_values(self.up, {"weight": torch.zeros(self.up.weight.shape, device="cpu")})

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.base(x) + self.scale * self.up(self.down(x))
        return y

    @property
    def weight(self) -> Tensor:
        """W + scale·B·A, in the shape of W, which some networks ask of their layers."""
        update = self.up.weight.flatten(1) @ self.down.weight.flatten(1)
        return self.base.weight + self.scale * update.reshape(self.base.weight.shape)

    @property
    def bias(self) -> Tensor | None:
        """The bias of the layer, which is frozen."""
        return self.base.bias


def _factors(base: nn.Linear | nn.Conv2d, rank: int) -> tuple[nn.Linear | nn.Conv2d, nn.Linear | nn.Conv2d]:
    """The layers with the weights A and B."""
    if isinstance(base, nn.Linear):
        return nn.Linear(base.in_features, rank, bias=False), nn.Linear(rank, base.out_features, bias=False)
    form = (base.kernel_size, base.stride, base.padding, base.dilation)
    down = nn.Conv2d(base.in_channels, rank, *form, bias=False, padding_mode=base.padding_mode)  # type: ignore[arg-type]
    return down, nn.Conv2d(rank, base.out_channels, 1, bias=False)


def add_low_rank_updates(network: nn.Module, rank: int, scale: float) -> None:
    """Gives every linear layer and convolution of a network, but those of groups of channels, an update of its own.

    Raises UserError for a network with layers that compute their weights, or their padding, in a way of their own.
    """
    for name, layer in list(network.named_modules()):
        if not isinstance(layer, nn.Linear | nn.Conv2d) or getattr(layer, "groups", 1) > 1:
            continue
        if type(layer) not in (nn.Linear, nn.Conv2d):
            raise UserError(f"model.train: lora has no update for a {type(layer).__name__}, which this backbone has")
        network.set_submodule(name, LowRank(layer, rank, scale))
