"""APFL: each client uses a mixture of a model of its own and the global one, whose weight it may learn.

Deng, Kamani & Mahdavi, Adaptive Personalized Federated Learning, arXiv 2003.13461, 2020, Algorithm 1. A client uses
v̄_i = α_i v_i + (1 − α_i) w_i. For every batch, from the values before it: w_i ← w_i − η∇f(w_i),
v_i ← v_i − η·α_i·∇f(v̄_i) and, where α is learned, α_i ← α_i − η⟨v_i − w_i, ∇f(v̄_i)⟩ within [0, 1]. Then
w ← Σ p_i w_i.

    w      s.server.theta
    w_i    models.local, lives within a round
    v_i    models.personal, s.clients.personal
    α_i    models.alpha, s.clients.alpha

Readings

* Parameters are mixed, as in Algorithm 1; the paper's theory and the authors' code (FedTorch) mix outputs. Batch-norm
  statistics of v̄_i are the mixture of both models' statistics.
* Clients are weighted by their number of images, as in FedAvg; in Algorithm 1 uniformly.
* The steps are plain SGD at one rate η for all three, the study's unless `lr` is given; the study's optimiser is not
  used.
* α_i takes a step on each batch; in FedTorch one step a round, on its first batch, if at all. FedTorch, PFLlib and
  FL-bench add 0.02·α_i to its gradient, which the paper does not. For ∇f(v̄_i) they take α_i times v_i's gradient plus
  1 − α_i times w_i's: of separate losses in PFLlib, of the mixed outputs' loss in FedTorch, of one each in FL-bench.
* PFLlib trains v_i on its own loss and then overwrites it with the mixture in every round. FL-bench's w_i takes each
  gradient twice, since one optimiser steps twice and its gradients are not reset in between.
* `received` is v̄_i of the client's v_i and α_i with the new w, which is what an idle client uses. Images of
  adversarial training are moved against v̄_i.
* The equations are written from memory of the paper.
"""

import torch

from fedgrid.methods import Batch, Federation, Identity, LossContext, State, Tensor, Tree, hp, inner
from fedgrid.methods.fedavg import FedAvg


def mixture(alpha: Tensor, personal: Tree, local: Tree) -> Tree:
    """v̄ of one client, or of a stack of them."""
    return alpha * personal + (1 - alpha) * local


class APFL(FedAvg):
    title = "APFL"
    source = "Deng et al., 2020"
    family = "personal model beside the global one: mixed with it"
    cite = "deng2020apfl"
    score = "trained"
    work = "2E"
    plain_rates = ("lr",)
    identities = [
        Identity("fedavg", models="global", exact=False),
        Identity("fedavg", {"alpha": 0.0, "adaptive": False}, exact=False),
        *(Identity("local", {"alpha": 1.0, "adaptive": False}, models=m, exact=False) for m in ("used", "trained")),
    ]

    alpha: float = hp(0.5, low=0, high=1)
    "Weight α of the personal model at the start (paper: 0.25 to 0.75; FedTorch and FL-bench: 0.5; PFLlib's is 1)."
    adaptive: bool = hp(True)
    "Each client learns its α; one that starts at 0 leaves 0 where a step from w towards v lowers its loss."
    lr: float | None = hp(None, above=0)
    "Learning rate η; none means the study's."

    def setup(self, fed: Federation) -> State:
        s = super().setup(fed)
        alpha = s.server.theta["head.weight"].new_full((fed.size,), self.alpha)
        return s.update(clients={"personal": fed.replicate(s.server.theta), "alpha": alpha})

    def step(self, models: Tree, batch: Batch, at: LossContext) -> tuple[Tree, Tensor]:
        w, v, alpha, lr = models.local, models.personal, models.alpha, at.server.lr
        slope = torch.func.grad(self.loss)(w, batch, at)
        mixed, value = torch.func.grad_and_value(self.loss)(mixture(alpha, v, w), batch, at)
        after = Tree(local=w - lr * slope, personal=v - lr * (alpha * mixed))
        if self.adaptive:
            after["alpha"] = (alpha - lr * inner(v - w, mixed)).clamp(0, 1)
        return models | after, value

    def round(self, fed: Federation, s: State) -> State:
        start, lr = s.clients | {"local": fed.broadcast(s.server.theta)}, self.lr or fed.optimizer.lr
        end = fed.iterate(start, self.step, server={"lr": lr}, model=lambda models, at: mixture(**models)).theta
        server = {"theta": fed.average(fed.upload(end.local))}
        return s.update(server=server, clients={name: end[name] for name in s.clients}, trained=mixture(**end))

    def received(self, fed: Federation, s: State) -> Tree:
        return mixture(s.clients.alpha, s.clients.personal, fed.replicate(s.server.theta))
