"""SCAFFOLD: control variates estimate how a client's gradient differs from all clients' and correct every local step.

Karimireddy, Kale, Mohri, Reddi, Stich & Suresh, SCAFFOLD: Stochastic Controlled Averaging for Federated Learning, ICML
2020, Algorithm 1 with option II: θ ← θ − η·(∇ℓ_b(θ) + c − c_i); c_i⁺ = c_i − c + (w − θ)/(K_i·η);
w ← w + η_g·mean_i(θ − w); c ← c + Σ_i (c_i⁺ − c_i)/N.

    w, c    s.server.theta, s.server.variate
    c_i     s.clients.variate, all 0 at the start
    κ_i     c − c_i, at.client.kappa: constant in a round, so it is the gradient of ⟨κ_i, θ⟩

Readings

* Clients count equally (paper, PFLlib); `weighted` counts their images.
* Local steps are plain SGD whatever the study's optimiser: with momentum, Adam or clipping, (w − θ)/(K·η) is no mean
  gradient. Weight decay is part of the gradient.
* η is the learning rate of the round.
* N counts the clients that have images; a client without images never takes part.
* A client whose upload is lost keeps the c_i that it had, so that c stays the mean of all of them.
"""

import torch

from fedgrid.methods import Batch, Federation, Identity, LossContext, State, Tensor, Tree, hp, inner
from fedgrid.methods.fedavg import FedAvg
from fedgrid.tree import weighted_sum


class Scaffold(FedAvg):
    title = "SCAFFOLD"
    source = "Karimireddy et al., ICML 2020"
    cite = "karimireddy2020scaffold"
    averages_uploads = False  # clients upload updates and variates
    shares = "θ and control variates"
    down = up = "2·|θ|"
    plain_rates = ("lr",)
    server_rows = ("variate",)
    identities = [
        Identity("local", clients=1, exact=False),
        Identity("fedavg", {"weighted": True}, training={"rounds": 1}, exact=False),
    ]

    global_lr: float = hp(1.0, above=0)
    "Step size η_g of the server."
    lr: float | None = hp(None, above=0)
    "Local learning rate η; none means the study's."
    weighted: bool = hp(False)
    "Weights the clients' models by their images, not equally."

    def setup(self, fed: Federation) -> State:
        s = super().setup(fed)
        zero = s.server.theta.map(torch.zeros_like)
        return s.update(server={"variate": zero}, clients={"variate": fed.replicate(zero)})

    def corrected(self, theta: Tree, batch: Batch, at: LossContext) -> Tensor:
        """Local loss + ⟨θ, c − c_i⟩, whose gradient has the control variates added."""
        return self.loss(theta, batch, at) + inner(theta, at.client.kappa)

    def round(self, fed: Federation, s: State) -> State:
        w, c = fed.broadcast(s.server.theta), fed.broadcast(s.server.variate)
        plain = fed.optimizer.but(kind="sgd", momentum=0.0, clip=None, lr=self.lr or fed.optimizer.lr)
        local = fed.train(w, self.corrected, clients={"kappa": c - s.clients.variate}, optimizer=plain)
        moved = (local.steps > 0).type_as(local.loss)
        distance = local.steps.clamp(min=1).type_as(local.loss) * plain.lr  # K_i·η
        dc = fed.upload(((w - local.theta) / distance - c) * moved)
        dw = fed.upload(local.theta - w)
        share = fed.weights if self.weighted else torch.full_like(fed.weights, 1 / fed.size)
        everyone = torch.full_like(fed.weights, 1 / fed.clients_with_data)  # N
        server = {
            "theta": s.server.theta + self.global_lr * weighted_sum(dw, share),
            "variate": s.server.variate + weighted_sum(dc, everyone),
        }
        return s.update(server=server, clients={"variate": s.clients.variate + dc}, trained=local.theta)
