"""Per-FedAvg: the server's model is one from which a gradient step on a client's own images leads to a good model.

Fallah, Mokhtari & Ozdaglar, Personalized Federated Learning with Theoretical Guarantees: A Model-Agnostic Meta-Learning
Approach, NeurIPS 2020, Algorithm 1. A meta-step takes consecutive batches b, b′ (and b″):
θ̃ = θ − α·∇ℓ_b(θ), d = ∇ℓ_{b′}(θ̃), and then, first order (FO), θ ← θ − β·d, or, Hessian-free (HF),
θ ← θ − β·[d − α/(2δ)·(∇ℓ_{b″}(θ + δd) − ∇ℓ_{b″}(θ − δd))].

    θ, θ̃ (or θ + δd), θ − δd    s["theta"], s["ahead"], s["behind"]; b, b′, b″ are s["phase"] 0, 1, 2

Readings. A round goes through the images `passes` times, so that there are as many meta-steps as FedAvg has steps; the
batches of a meta-step may lie in two passes, so that a client with a single batch trains too (in PFLlib it never does).
The personal model is one step of rate α away from the server's, on one training batch (PFLlib); no test image is used,
as the pFedMe repository does. Averages are weighted by images; the study's optimiser is not used.
"""

import torch
from torch import Tensor

from fedgrid.components import hp
from fedgrid.engine.context import Batch, LossContext
from fedgrid.engine.federation import Federation
from fedgrid.engine.method import Identity, State
from fedgrid.methods.fedavg import FedAvg
from fedgrid.tree import Nested, Tree, tree_map

FULL = {"batch_size": 99, "lr": 0.05}


class PerFedAvg(FedAvg):
    title = "PerFedAvg"
    source = "Fallah et al., NeurIPS 2020"
    family = "meta-learned global model"
    cite = "fallah2020perfedavg"
    score = "personal"
    plain_rates = ("alpha", "beta")
    identities = [
        Identity("fedavg", {"alpha": 0.0}, training=FULL, exact=False),
        Identity("fedavg", {"alpha": 0.0, "version": "hf"}, training=FULL, exact=False),
        Identity("fedavg", {"adaptation_steps": 0, "beta": 0.0}, training={"local_epochs": 0}, exact=False),
    ]

    version: str = hp("fo", choices=("fo", "hf"))
    "First order, or Hessian-free with finite differences."
    alpha: float | None = hp(None, low=0)
    "Step size α inside a meta-step and of the adaptation; none means the study's rate (PFLlib)."
    beta: float | None = hp(None, low=0)
    "Step size β of a meta-step; none means the study's rate (PFLlib)."
    delta: float = hp(1e-3, above=0)
    "Width δ of the finite differences; wider ones cross the kinks of ReLU networks."
    passes: int | None = hp(None, low=0)
    "Times that a local epoch goes through the images; none means 2 for FO, 3 for HF."
    adaptation_steps: int | None = hp(1, low=0)
    "Steps of the adaptation before a model is used; none means one epoch (FL-bench)."

    def rates(self, fed: Federation) -> dict[str, float]:
        """α and β."""
        given = {"alpha": self.alpha, "beta": self.beta}
        return {name: fed.optimizer.lr if rate is None else rate for name, rate in given.items()}

    def meta_step(self, s: Nested, batch: Batch, at: LossContext) -> tuple[Nested, Tensor]:
        theta, phase, alpha, beta = s["theta"], s["phase"], at.server.alpha, at.server.beta
        ahead, value = self.slope(s["ahead"], batch, at)
        if self.version == "fo":
            theta = tree_map(lambda t, d: torch.where(phase == 1, t - beta * d, t), theta, ahead)
            point = tree_map(lambda t, g: torch.where(phase == 0, t - alpha * g, t), theta, ahead)
            return {"theta": theta, "ahead": point, "phase": (phase + 1) % 2}, value
        behind, _ = self.slope(s["behind"], batch, at)
        d = tree_map(lambda old, g: torch.where(phase == 1, g, old), s["d"], ahead)
        meta = tree_map(lambda d, a, b: d - alpha / (2 * self.delta) * (a - b), d, ahead, behind)
        theta = tree_map(lambda t, m: torch.where(phase == 2, t - beta * m, t), theta, meta)
        move = tree_map(lambda g, d: torch.where(phase == 0, -alpha * g, self.delta * (d * (phase == 1))), ahead, d)
        back = tree_map(lambda t, d: t - self.delta * (d * (phase == 1)), theta, d)
        point = tree_map(torch.add, theta, move)
        return {"theta": theta, "ahead": point, "behind": back, "d": d, "phase": (phase + 1) % 3}, value

    def adapt(self, theta: Tree, batch: Batch, at: LossContext) -> tuple[Tree, Tensor]:
        slope, value = self.slope(theta, batch, at)
        return tree_map(lambda t, g: t - at.server.alpha * g, theta, slope), value

    def slope(self, theta: Tree, batch: Batch, at: LossContext) -> tuple[Tree, Tensor]:
        return torch.func.grad_and_value(lambda t: self.loss(t, batch, at))(theta)

    def round(self, fed: Federation, s: State) -> State:
        w, order = fed.broadcast(s.server.theta), 2 if self.version == "fo" else 3
        start = {"theta": w, "ahead": w, "phase": torch.zeros_like(fed.ids)}
        if order == 3:
            start |= {"behind": w, "d": tree_map(torch.zeros_like, w)}
        passes, usual = order if self.passes is None else self.passes, fed.training
        epochs, steps = usual.local_epochs * passes, usual.local_steps and usual.local_steps * passes
        local = fed.train_with_step(start, self.meta_step, server=self.rates(fed), epochs=epochs, steps=steps).theta[
            "theta"
        ]
        return s.update(server={"theta": fed.average(fed.upload(local))}, trained=local)

    def personal(self, fed: Federation, s: State) -> Tree:
        w, one_epoch = fed.replicate(s.server.theta), 1
        rates, steps = self.rates(fed), self.adaptation_steps
        return fed.train_with_step(w, self.adapt, server=rates, epochs=one_epoch, steps=steps, stream="adapt").theta
