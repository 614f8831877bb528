"""What happens to parameters at a batch: the optimiser steps down a loss, or the method takes its own step."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from fedgrid.engine.local.context import Batch, LossContext, Objective
from fedgrid.engine.local.optimizers import Optimizer
from fedgrid.engine.local.task import Apply, Loss, Step
from fedgrid.errors import UserError
from fedgrid.models.common.norm import is_statistic
from fedgrid.tree import Tree, as_tree


class Solver(Protocol):
    """What happens to θ at a batch."""

    def memory(self, theta: Tree) -> Tree:
        """Tensors that a solver keeps from batch to batch besides θ, with θ's client axis if it has one."""

    def advance(self, apply: Apply, theta: Tree, memory: Tree, taken: Tensor) -> tuple[Tree, dict[str, Any]]:
        """(new θ, entry of `TrainingStats`): `taken` counts the steps with this one.

        What is given may change in place.
        """


@dataclass(frozen=True)
class Descent:
    """A step of the optimiser down a loss, on the parameters whose names start with `part`."""

    loss: Loss
    optimizer: Optimizer
    part: str

    def memory(self, theta: Tree) -> Tree:
        return self.optimizer.moments(self._trained(theta))

    def advance(self, apply: Apply, theta: Tree, memory: Tree, taken: Tensor) -> tuple[Tree, dict[str, Any]]:
        trained = Tree((name, t.detach().requires_grad_()) for name, t in self._trained(theta).items())
        with torch.enable_grad():
            entry = apply(self._entry, theta | trained)
            total = entry["loss"].sum()
        if total.requires_grad:  # not if the loss is a constant
            # clients share nothing that is trained, so the gradient of the sum holds each one's own
            slopes = torch.autograd.grad(total, list(trained.values()), allow_unused=True)
            self.optimizer.step(trained, slopes, memory, taken)
        return theta, entry

    def _trained(self, theta: Tree) -> Tree:
        trained = Tree((key, t) for key, t in theta.items() if key.startswith(self.part) and not is_statistic(key))
        if not trained and self.part == "extractor":
            raise UserError(
                "model: nothing of its extractor is trained, and the method trains the extractor by itself; "
                "choose another value of train, or set features, so that a trained layer leads to the head"
            )
        if not trained:
            raise ValueError(f"part: no parameter's name starts with '{self.part}', only: {', '.join(theta)}")
        return trained

    def _entry(self, theta: Tree, batch: Batch, at: LossContext) -> dict[str, Any]:
        return _entry(self.loss(theta, batch, at))


@dataclass(frozen=True)
class CustomStep:
    """A step that the method itself takes."""

    step: Step

    def memory(self, theta: Tree) -> Tree:
        return Tree()

    def advance(self, apply: Apply, theta: Tree, memory: Tree, taken: Tensor) -> tuple[Tree, dict[str, Any]]:
        result = apply(self._result, theta)
        if _form(result["theta"]) != _form(theta):
            raise ValueError("a step must return a tree with the names, shapes and types of its input")
        return result["theta"], result["entry"]

    def _result(self, theta: Tree, batch: Any, at: LossContext) -> dict[str, Any]:
        moved, objective = self.step(theta, batch, at)
        return {"theta": as_tree(moved), "entry": _entry(objective)}


def _entry(objective: Objective) -> dict[str, Any]:
    """A batch's loss, and its named sums and numbers of samples, as tensors."""
    value, named = objective if isinstance(objective, tuple) else (objective, {})
    # copies: a quantity may be a parameter itself, which the step is about to change in place
    sums = {name: _on(value.device, total).clone() for name, (total, _) in named.items()}
    samples = {name: _on(value.device, counted) for name, (_, counted) in named.items()}
    return {"loss": value, "sums": sums, "samples": samples}


def _on(device: torch.device, value: Any) -> Tensor:
    """A number as a tensor that is made on the device; to send it would make a GPU wait."""
    return value.to(device) if isinstance(value, Tensor) else torch.full((), value, device=device)


def _form(tree: Any) -> Any:
    if isinstance(tree, Mapping):
        return {name: _form(part) for name, part in tree.items()}
    return tree.shape, tree.dtype
