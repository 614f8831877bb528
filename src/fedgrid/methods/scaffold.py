"""SCAFFOLD: control variates estimate how a client's gradient differs from all clients' and correct every local step.

Karimireddy, Kale, Mohri, Reddi, Stich & Suresh, SCAFFOLD: Stochastic Controlled Averaging for Federated Learning, ICML
2020, Algorithm 1 with option II: θ ← θ − η·(∇ℓ_b(θ) + c − c_i); c_i⁺ = c_i − c + (w − θ)/(K_i·η);
w ← w + η_g·mean_i(θ − w); c ← c + Σ_i (c_i⁺ − c_i)/N.

    w, c    s.server.theta, s.server.variate
    c_i     s.clients.variate, all 0 at the start
    κ_i     c − c_i, at.client.kappa: constant in a round, so it is the gradient of ⟨κ_i, θ⟩

Readings. Clients count equally (paper, PFLlib); `weighted` counts their images. Local steps are plain SGD whatever the
study's optimiser, since with momentum, Adam or clipping (w − θ)/(K·η) is no mean gradient; weight decay is part of the
gradient. η is the rate of the round. N counts the clients that have images.
"""

import torch
from torch import Tensor

from fedgrid.components import hp
from fedgrid.engine.context import Batch, LossContext
from fedgrid.engine.federation import Federation
from fedgrid.engine.method import Identity, State
from fedgrid.methods.fedavg import FedAvg
from fedgrid.tree import Tree, tree_map, weighted_sum


class Scaffold(FedAvg):
    title = "SCAFFOLD"
    source = "Karimireddy et al., ICML 2020"
    cite = "karimireddy2020scaffold"
    shares = "θ and control variates"
    down = up = "2·|θ|"
    plain_rates = ("lr",)
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
        zero = tree_map(torch.zeros_like, s.server.theta)
        return s.update(server={"variate": zero}, clients={"variate": fed.replicate(zero)})

    def corrected(self, theta: Tree, batch: Batch, at: LossContext) -> Tensor:
        products = [(at.client.kappa[key] * theta[key]).sum() for key in theta]
        return self.loss(theta, batch, at) + torch.stack(products).sum()

    def round(self, fed: Federation, s: State) -> State:
        w, c = fed.broadcast(s.server.theta), fed.broadcast(s.server.variate)
        plain = fed.optimizer.but(kind="sgd", momentum=0.0, clip=None, lr=self.lr or fed.optimizer.lr)
        kappa = tree_map(torch.sub, c, s.clients.variate)
        local = fed.train(w, self.corrected, clients={"kappa": kappa}, optimizer=plain)
        distance = local.steps.type_as(local.loss) * plain.lr

        def change(w: Tensor, theta: Tensor, c: Tensor) -> Tensor:
            k = distance.reshape(-1, *[1] * (w.dim() - 1))
            return torch.where(k > 0, (w - theta) / k - c, 0.0)

        dc = fed.upload(tree_map(change, w, local.theta, c))
        dw = fed.upload(tree_map(torch.sub, local.theta, w))
        share = fed.weights if self.weighted else torch.full_like(fed.weights, 1 / fed.size)
        theta = tree_map(lambda a, b: a + self.global_lr * b, s.server.theta, weighted_sum(dw, share))
        everyone = torch.full_like(
            fed.weights, 1 / fed.clients_with_data
        )  # N: a client without images never takes part
        variate = tree_map(torch.add, s.server.variate, weighted_sum(dc, everyone))
        own = tree_map(torch.add, s.clients.variate, dc)
        return s.update(server={"theta": theta, "variate": variate}, clients={"variate": own}, trained=local.theta)
