"""The local optimisers, as steps on tensors: the same lines serve one client and a stack of clients.

Update rules and the order of their operations are those of `torch.optim.SGD` and `torch.optim.Adam`. As there, an
operation on all parameters is one call, which starts one kernel on a GPU and gives the bits of one call for each.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from fedgrid.settings import Training
from fedgrid.tree import Tree, tree_map

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8
"Adam's constants (Kingma & Ba, ICLR 2015)."


@dataclass(frozen=True)
class Optimizer:
    """How a client descends its loss; its moments are new for every client, round and training."""

    lr: float
    kind: str = "sgd"
    "``sgd`` or ``adam``."
    momentum: float = 0.0
    weight_decay: float = 0.0
    clip: float | None = None
    "Largest norm of one client's gradient over all trained parameters."
    rate: Tensor | None = None
    "Where a captured step reads the rate of each round, in place of `lr`: a tensor without axes."

    def but(self, **changes: Any) -> "Optimizer":
        """The same with other settings, such as ``fed.optimizer.but(lr=0.1)``."""
        return replace(self, **changes)

    def moments(self, trained: Tree) -> Tree:
        """What the optimiser remembers between steps, zero at first: nothing, the momentum, or Adam's two moments."""
        names = ("first", "second") if self.kind == "adam" else ("first",) if self.momentum else ()
        return Tree((name, tree_map(torch.zeros_like, trained)) for name in names)

    @torch.no_grad()
    def step(self, trained: Tree, slopes: Sequence[Tensor | None], moments: Mapping[str, Tree], taken: Tensor) -> None:
        """One step, in place, of one client (`taken` is a number) or of several (`taken` [k], client axis first).

        `taken` counts the steps with this one. A parameter that the loss does not use (no slope) stays as it is.
        """
        names = [key for key, g in zip(trained, slopes, strict=True) if g is not None]
        if not names:
            return
        used, parameters = [g for g in slopes if g is not None], [trained[key] for key in names]
        if self.clip is not None:
            used = _clipped(used, self.clip, taken.dim())
        if self.weight_decay:
            used = list(torch._foreach_add(used, parameters, alpha=self.weight_decay))
        used_moments = {name: [moment[key] for key in names] for name, moment in moments.items()}
        if self.kind == "adam":
            self._adam(parameters, used, used_moments["first"], used_moments["second"], taken)
            return
        if used_moments:
            torch._foreach_mul_(used_moments["first"], self.momentum)
            torch._foreach_add_(used_moments["first"], used)
        directions = used_moments.get("first", used)
        if self.rate is None:
            torch._foreach_add_(parameters, directions, alpha=-self.lr)
        else:  # as `alpha` it would have to be fetched
            torch._foreach_sub_(parameters, torch._foreach_mul(directions, self.rate))

    def _adam(
        self, parameters: list[Tensor], slopes: list[Tensor], first: list[Tensor], second: list[Tensor], taken: Tensor
    ) -> None:
        torch._foreach_lerp_(first, slopes, 1 - BETA1)
        torch._foreach_mul_(second, BETA2)
        torch._foreach_addcmul_(second, slopes, slopes, value=1 - BETA2)
        count = taken.to(parameters[0].dtype)
        size, root = (self.lr if self.rate is None else self.rate) / (1 - BETA1**count), (1 - BETA2**count).sqrt()
        for parameter, mean, deviation in zip(parameters, first, torch._foreach_sqrt(second), strict=True):
            shape = _per_client(taken.dim(), parameter)
            scale = (deviation / root.reshape(shape)).add_(EPSILON)
            parameter.sub_(size.reshape(shape) * mean / scale)


def study_optimizer(training: Training, round_: int) -> Optimizer:
    """The optimiser of a study in round t = `round_` (from 0): its rate depends on nothing but the round.

    What is trained for the last evaluation, after the last round, is trained at the last round's rate.
    """
    round_ = min(round_, training.rounds - 1)
    factor = {
        "constant": 1.0,
        "exponential": training.lr_decay**round_,
        "steps": training.lr_decay ** ((2 * round_ >= training.rounds) + (4 * round_ >= 3 * training.rounds)),
        "cosine": (1 + math.cos(math.pi * round_ / training.rounds)) / 2,
    }[training.lr_schedule]
    return Optimizer(training.lr * factor, training.optimizer, training.momentum, training.weight_decay, training.clip)


def depends_on_rounds(training: Training, round_: int) -> bool:
    """Whether the optimiser of a round would be another one if the study had more rounds."""
    after_the_last = round_ >= training.rounds
    return {"constant": False, "exponential": after_the_last, "steps": True, "cosine": True}[training.lr_schedule]


def _clipped(slopes: Sequence[Tensor], largest: float, axes: int) -> list[Tensor]:
    """Every client's slopes, scaled down where their common norm is above `largest`; 1 axis of clients, or 0."""
    squares = [slope.square().reshape(*slope.shape[:axes], -1).sum(dim=-1) for slope in slopes]
    factor = (largest / (torch.stack(squares).sum(dim=0).sqrt() + 1e-6)).clamp(max=1)
    return [slope * factor.reshape(_per_client(axes, slope)) for slope in slopes]


def _per_client(axes: int, like: Tensor) -> list[int]:
    """The shape in which one number for every client (or for the only one) meets a tensor."""
    return [*like.shape[:axes], *[1] * (like.dim() - axes)]
