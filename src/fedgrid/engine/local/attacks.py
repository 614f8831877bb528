"""Images moved against a model: PGD in training, FGSM and PGD-20 in evaluation.

x^{s+1} = clip to the ε-ball around x and to what a pixel can be, of x^s + a·sign ∇_x CE(θ; x^s, y) (Madry et al., ICLR
2018; FedCCL, Eq. 20). FGSM is one step of length ε from x itself (Goodfellow et al., ICLR 2015); PGD-20 takes 20 steps
of ε/10 from there. Lengths are in pixels from 0, black, to 1, white; images are normalised, so they are rescaled here.
What an attack does to one image depends on no other.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from fedgrid.engine.local.client_data import Range
from fedgrid.engine.local.context import Batch, LossContext
from fedgrid.settings import Adversarial, Training
from fedgrid.tree import Tree, tree_map

EPS = {True: 8 / 255, False: 0.3}
"ε by whether images have colours."
REACH = {True: 2.5, False: 4 / 3}
"All steps of training together, in ε."
ATTACKED_ROUNDS = 5
"Evaluated rounds, the last ones, in which models are scored under attack too: what tables average at most."


ModelOf = Callable[[Tree, LossContext], Tree]
"(θ of a step, context) → the parameters of a client's model."


@dataclass(frozen=True)
class Attack:
    """`steps` of length `step` within `eps`, in pixels from 0 to 1."""

    eps: float
    step: float
    steps: int

    def __call__(
        self, scores: Callable[[Tensor], Tensor], batch: Batch, pixels: Range, start: Tensor | None = None
    ) -> Tensor:
        """The images [B, …] of a batch moved against `scores`, from the batch's, or from `start`·ε away from it.

        `scores` gives logits [B, C] and `start` is in [−1, 1). No gradient flows through what comes back.
        """
        x, eps, step = batch.x.detach(), self.eps * pixels.white, self.step * pixels.white
        low, high = torch.maximum(x - eps, pixels.low), torch.minimum(x + eps, pixels.high)
        slope = torch.func.grad(lambda moved: cross_entropy(scores(moved), batch.y, reduction="sum"))
        moved = x if start is None else (x + start * eps).clamp(low, high)
        for _ in range(self.steps):
            moved = (moved + step * slope(moved).sign()).clamp(low, high)
        return moved


def of_training(settings: Adversarial, colour: bool) -> Attack:
    """PGD as adversarial training takes it."""
    eps = EPS[colour] if settings.eps is None else settings.eps
    step = REACH[colour] * eps / max(1, settings.steps) if settings.step is None else settings.step
    return Attack(eps, step, settings.steps)


def of_evaluation(training: Training, colour: bool) -> dict[str, Attack]:
    """The attacks under which models are scored, by name."""
    eps = EPS[colour] if training.eval_eps is None else training.eval_eps
    known = {"fgsm": Attack(eps, eps, 1), "pgd20": Attack(eps, eps / 10, 20)}
    return {name: attack for name, attack in known.items() if name in training.evaluate}


def attacked_in(training: Training, done: int) -> bool:
    """Whether models are scored under attack after so many rounds, after which there is an evaluation."""
    evaluations_left = -(-(training.rounds - done) // training.eval_every)
    return done > 0 and evaluations_left < ATTACKED_ROUNDS


def moved_in_training(
    attack: Attack, pixels: Range, model: ModelOf, theta: Mapping[str, Any], batch: Batch, at: LossContext, number: int
) -> Batch:
    """A batch moved against a client's model as it is; `number` is its place among the batches of a step."""
    attacked_model = model(tree_map(torch.detach, theta), at)
    start = 2 * at.uniform(f"adversary {number}" if number else "adversary", batch.x) - 1
    return replace(batch, x=attack(lambda x: at.model(attacked_model, x), batch, pixels, start))


def model_itself(theta: Tree, at: LossContext) -> Tree:
    """The model of a client whose θ is one, or has one as its entry ``theta``."""
    model: Tree = theta.get("theta", theta)
    if not all(isinstance(t, Tensor) for t in model.values()):
        raise ValueError(f"iterate: say which `model` images are moved against; θ holds {', '.join(theta)}")
    return model
