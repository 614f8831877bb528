"""FedDyn: a linear term remembers how far a client was from the server's models, until clients rest at its optimum.

Acar, Zhao, Matas Navarro, Mattina, Whatmough & Saligrama, Federated Learning Based on Dynamic Regularization, ICLR
2021, Algorithm 1. A client minimises F_i(θ) + (α/2)‖θ − w‖² + α⟨d_i, θ⟩ from w, and then

    d_i ← d_i + θ_i − w
    d̄ ← d̄ + (1/N)·Σ_i (θ_i − w), the mean of all d_i
    w ← mean_i θ_i + d̄

    w, d̄    s.server.theta, s.server.drift
    d_i      s.clients.drift, at.client.drift: 0 at the start, of parameters alone

Readings

* d_i is −g_i/α with the paper's gradient g_i, and d̄ is −h/α, so that nothing is divided by α (authors' code). The
  paper's text was not read.
* Clients count equally in both means (authors' code); FL-bench weights the first by images. N counts the clients that
  can take part; one that was never drawn has d_i = 0. One whose upload is lost keeps the d_i that it had, so that d̄
  stays their mean.
* The authors plot the mean of the models that all clients trained last. Here it is w, or the mean of the round's
  models: `readout`. Clients receive w in both.
* The server's extrapolation is part of the method: with one client it is not Local, with α = 0 not FedAvg. With few
  local steps, d̄ is a momentum of 1 − ηα a step, so that a small α with one epoch may oscillate.
* PFLlib penalises ‖θ − w‖, not its square; FL-bench has no pull to w at all, since the authors' code leaves (α/2)‖θ‖²
  to the optimiser's weight decay, which FL-bench's lacks. FedRepo divides the linear term by the number of tensors.
* Batch-norm statistics are averaged by images, without drift.
* The authors clip gradients at 10 and decay weights: settings of a study.
"""

import torch

from fedgrid.methods import Batch, Federation, Identity, LossContext, State, Tensor, Tree, hp, inner, squared_distance
from fedgrid.methods.common.server_steps import ServerStep


class FedDyn(ServerStep):
    source = "Acar et al., ICLR 2021"
    cite = "acar2021feddyn"
    averages_uploads = False  # the server's drift is the mean of the clients'
    server_rows = ("drift",)
    identities = [
        Identity("fedprox", {"alpha": 0.5}, {"mu": 0.5}, models="trained", training={"rounds": 1}),
        Identity("fedavg", {"alpha": 0.0}, models="trained", training={"rounds": 1}),
    ]

    alpha: float = hp(0.1, low=0)
    "Weight α of both terms (paper: 0.1, 0.01 or 0.001, as remembered; authors' code 0.01, PFLlib 1, FL-bench 0.1)."
    by_size: bool = hp(False)
    "On: client i has α·n̄/n_i, with n̄ the mean number of images of all clients, new ones too (authors' code)."
    readout: str = hp("cloud", choices=("cloud", "average"))
    "The global model that is scored: w, or the mean of the models of the round, w − d̄."

    def setup(self, fed: Federation) -> State:
        zero = fed.parameters(fed.initial()).map(torch.zeros_like)
        clients = Tree(drift=fed.replicate(zero))
        if self.by_size:
            sizes = fed.counts.sum(dim=1)
            alpha = self.alpha * sizes[sizes > 0].mean() / sizes.clamp(min=1)
            clients["alpha"] = alpha.type_as(zero["head.weight"])
        return super().setup(fed).update(server={"drift": zero}, clients=clients)

    def loss(self, theta: Tree, batch: Batch, at: LossContext) -> Tensor:
        value = super().loss(theta, batch, at)
        if not self.alpha:
            return value
        alpha = at.client.alpha if self.by_size else self.alpha
        return value + alpha / 2 * squared_distance(theta, at.server.theta) + alpha * inner(theta, at.client.drift)

    def server_step(self, fed: Federation, updates: Tree, s: State) -> tuple[Tree, State]:
        mean = fed.average(updates, torch.full_like(fed.weights, 1 / fed.size))
        drift = s.server.drift + fed.size / fed.clients_with_data * mean
        return mean + drift, s.update(server={"drift": drift}, clients={"drift": s.clients.drift + updates})

    def global_model(self, s: State) -> Tree | None:
        parameters = Tree((name, s.server.theta[name]) for name in s.server.drift)
        return s.server.theta if self.readout == "cloud" else s.server.theta | (parameters - s.server.drift)

    def received(self, fed: Federation, s: State) -> Tree | None:
        return None if self.readout == "cloud" else fed.replicate(s.server.theta)
