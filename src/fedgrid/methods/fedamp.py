"""FedAMP: the server keeps a cloud model for every client, in which similar clients' models attract each other.

Huang, Chu, Zhou, Wang, Liu, Pei & Zhang, Personalized Cross-Silo Federated Learning on Non-IID Data, AAAI 2021,
Algorithm 1. A client minimises F_i(θ) + (λ/2α)‖θ − u_i‖² from its own last model; the server then sets
u_i = Σ_j ξ_ij θ_j with ξ_ij = α·A′(‖θ_i − θ_j‖²), A′(x) = e^{−x/σ}/σ, and ξ_ii = 1 − Σ_{j≠i} ξ_ij.

    θ_i      s.clients.theta; the server's copies of all clients' last models are s.server.models [N, …]
    u_i      at.client.cloud, made when a client is about to take part
    ξ        attention; only the last round's participants (s.server.fresh) count beside the client itself

Readings. The penalty is the square of the distance, where PFLlib has the distance itself. ξ_ii is kept from falling
below 0, as α·(N−1)/σ > 1 would allow: a row's other weights are scaled down to a sum of 1. The pull is active from the
first round on, towards θ⁰. The paper's values of α, σ and λ depend on a model's size and are not known here: the
defaults make the pull's weight λ/α equal to 1 and keep ξ_ii ≥ 0 for 20 clients. `heuristic` is HeurFedAMP as
pFedGraph's and FedSaC's codes run it: others share 1 − ξ_self by the softmax of s·cos(θ_i − θ⁰, θ_j − θ⁰).
"""

from functools import reduce

import torch
from torch import Tensor

from fedgrid.components import hp
from fedgrid.engine.context import Batch, LossContext
from fedgrid.engine.federation import Federation
from fedgrid.engine.method import Identity, Method, State
from fedgrid.tree import Tree, combine, leaves, squared_distance, tree_map


class FedAMP(Method):
    source = "Huang et al., AAAI 2021"
    family = "one cloud model for each client"
    cite = "huang2021fedamp"
    shares = "θ"
    identities = [Identity("local", {"lam": 0.0}), Identity("local", {"lam": 0.0, "heuristic": True})]

    alpha: float = hp(0.05, above=0)
    "Step size α of the server's attention."
    sigma: float = hp(1.0, above=0)
    "Width σ of the attention, of the order of squared distances between clients' models."
    lam: float = hp(0.05, low=0)
    "λ: the pull to the cloud model has weight λ/α."
    heuristic: bool = hp(False)
    "Cosine weights in place of distances (HeurFedAMP)."
    sharpness: float = hp(10.0, low=0)
    "s, of the heuristic (pFedGraph's code)."
    own: float = hp(0.3, low=0, high=1)
    "A client's weight ξ_self on its own model, of the heuristic (pFedGraph's code)."

    def setup(self, fed: Federation) -> State:
        models = fed.replicate(fed.initial())
        server = {"models": models, "fresh": torch.zeros_like(fed.ids, dtype=torch.bool)}
        return State().update(server=server, clients={"theta": models})

    def pull(self, theta: Tree, batch: Batch, at: LossContext) -> Tensor:
        penalty = self.lam / self.alpha / 2 * squared_distance(theta, at.client.cloud)
        return self.loss(theta, batch, at) + penalty

    def round(self, fed: Federation, s: State) -> State:
        cloud = fed.send(combine(s.server.models, self.attention(fed, s)))
        local = fed.train(s.clients.theta, self.pull, clients={"cloud": cloud})
        sent = fed.upload(local.theta)
        models = tree_map(lambda all_, new: all_.index_copy(0, fed.ids, new), s.server.models, sent)
        fresh = torch.zeros_like(s.server.fresh).index_fill(0, fed.ids, True)
        return s.update(server={"models": models, "fresh": fresh}, clients={"theta": local.theta}, trained=local.theta)

    def attention(self, fed: Federation, s: State) -> Tensor:
        """ξ [n, N], float64, whose rows sum to 1."""
        itself = fed.ids.unsqueeze(1) == torch.arange(fed.total, device=fed.ids.device)
        others = s.server.fresh & ~itself
        kind = self.by_cosine if self.heuristic else self.by_distance
        weights = kind(fed, s.server.models) * others
        total = weights.sum(dim=1, keepdim=True)
        scale = (1 - self.own) / total.clamp(min=1e-300) if self.heuristic else 1 / total.clamp(min=1)
        weights = weights * scale
        return torch.where(itself, 1 - weights.sum(dim=1, keepdim=True), weights)

    def by_distance(self, fed: Federation, models: Tree) -> Tensor:
        """α·A′(‖θ_i − θ_j‖²) [n, N], from differences, since models may lie close together."""
        flat = [t.flatten(1).double() for t in leaves(models)]
        exact = "donot_use_mm_for_euclid_dist"
        squared = reduce(torch.add, [torch.cdist(t[fed.ids], t, compute_mode=exact).square() for t in flat])
        return self.alpha * torch.exp(-squared / self.sigma) / self.sigma

    def by_cosine(self, fed: Federation, models: Tree) -> Tensor:
        """exp(s·cos) [n, N] of what the models have moved from θ⁰, up to a factor that keeps it from overflowing."""
        moved = tree_map(lambda t, start: (t - start).flatten(1).double(), models, fed.initial())
        flat = torch.nn.functional.normalize(torch.cat(leaves(moved), dim=1))
        return torch.exp(self.sharpness * (flat[fed.ids] @ flat.T - 1))

    def personal(self, fed: Federation, s: State) -> Tree:
        return s.clients.theta
