"""SCAFFOLD: control variates correct every local gradient; option II.

Karimireddy et al., ICML 2020. The correction κ_i = c − c_i is constant in a round, so it is the gradient of ⟨κ_i, θ⟩.
"""

import torch
from torch import Tensor

from fedgrid.components import hp
from fedgrid.engine.federation import Federation
from fedgrid.engine.method import At, Batch, State
from fedgrid.methods.fedavg import FedAvg
from fedgrid.tree import Tree, tree_map, weighted_sum


class Scaffold(FedAvg):
    source = "Karimireddy et al., ICML 2020"
    identities = ()

    global_lr: float = hp(1.0, above=0)
    "Step size η_g of the server."
    weighted: bool = hp(False)
    "Weights the clients by their images, not equally."

    def setup(self, fed: Federation) -> State:
        s = super().setup(fed)
        zero = tree_map(torch.zeros_like, s.server.theta)
        return s.update(server={"variate": zero}, clients={"variate": fed.replicate(zero)})

    def corrected(self, theta: Tree, batch: Batch, at: At) -> Tensor:
        products = [(at.client.kappa[key] * theta[key]).sum() for key in theta]
        return self.loss(theta, batch, at) + torch.stack(products).sum()

    def round(self, fed: Federation, s: State) -> State:
        w, c = fed.broadcast(s.server.theta), fed.broadcast(s.server.variate)
        kappa = tree_map(torch.sub, c, s.clients.variate)
        local = fed.train(w, self.corrected, clients={"kappa": kappa})
        distance = local.steps * fed.optimizer.lr

        def change(w: Tensor, theta: Tensor, c: Tensor) -> Tensor:
            k = distance.reshape(-1, *[1] * (w.dim() - 1))
            return torch.where(k > 0, (w - theta) / k.clamp(min=1e-30) - c, 0.0)

        dc = fed.upload(tree_map(change, w, local.theta, c))
        dw = fed.upload(tree_map(torch.sub, local.theta, w))
        share = fed.weights if self.weighted else torch.full_like(fed.weights, 1 / fed.size)
        theta = tree_map(lambda a, b: a + self.global_lr * b, s.server.theta, weighted_sum(dw, share))
        everyone = torch.full_like(fed.weights, 1 / fed.total)
        variate = tree_map(torch.add, s.server.variate, weighted_sum(dc, everyone))
        own = tree_map(torch.add, s.clients.variate, dc)
        return s.update(server={"theta": theta, "variate": variate}, clients={"variate": own}, trained=local.theta)
