"""FedAMP: the server keeps a cloud model for every client, in which similar clients' models attract each other.

Huang, Chu, Zhou, Wang, Liu, Pei & Zhang, Personalized Cross-Silo Federated Learning on Non-IID Data, AAAI 2021,
Algorithm 1. A client minimises F_i(θ) + (λ/2α)‖θ − u_i‖² from its own last model; the server then sets
u_i = Σ_j ξ_ij θ_j with ξ_ij = α·A′(‖θ_i − θ_j‖²), A′(x) = e^{−x/σ}/σ, and ξ_ii = 1 − Σ_{j≠i} ξ_ij.

    θ_i      s.clients.theta; the server's copies of all clients' last models are s.server.models [N, …]
    u_i      at.client.cloud, made when a client is about to take part
    ξ        attention, s.server.attention; only the last round's participants (s.server.fresh) count beside oneself

Readings

* The penalty is the square of the distance, where PFLlib has the distance itself. It is active from the first round on,
  towards θ⁰.
* The paper's values of α and σ belong to its models and are not known here. A σ far below the squared distances, 3 to 9
  for a small network, makes every cloud model the client's own, and nothing is exchanged. So σ is their median unless
  given, and α is σ/N, which keeps ξ_ii at 1/N or more.
* With a larger α, ξ_ii is kept from falling below 0: a row's other weights are scaled down to a sum of 1.
* Statistics of batch norm are mixed, but are no part of distances, cosines and the pull.
* `heuristic` is HeurFedAMP as the code of pFedGraph and of FedSaC runs it: others share 1 − ξ_self by the softmax of
  s·cos(θ_i − θ⁰, θ_j − θ⁰).
"""

from functools import reduce

import torch

from fedgrid.methods import Batch, Federation, Identity, LossContext, Method, State, Tensor, Tree, hp, squared_distance


class FedAMP(Method):
    source = "Huang et al., AAAI 2021"
    family = "one mixture of models for each client: similar ones attract"
    cite = "huang2021fedamp"
    score = "trained"
    work = "E"
    shares = "θ"
    identities = [Identity("local", {"lam": 0.0}), Identity("local", {"lam": 0.0, "heuristic": True})]

    alpha: float | None = hp(None, above=0)
    "Step size α of the server's attention; none: σ/N, at which equal models are averaged."
    sigma: float | None = hp(None, above=0)
    "Width σ of the attention; none: the median of the squared distances between clients' models, in every round."
    lam: float = hp(0.1, low=0)
    "λ: the pull to the cloud model has weight λ/α, and λ itself where α is none."
    heuristic: bool = hp(False)
    "Cosine weights in place of distances (HeurFedAMP)."
    sharpness: float = hp(10.0, low=0)
    "s, of the heuristic (pFedGraph's code)."
    own: float = hp(0.3, low=0, high=1)
    "A client's weight ξ_self on its own model, of the heuristic (pFedGraph's code)."

    def setup(self, fed: Federation) -> State:
        models = fed.replicate(fed.initial())
        attention = torch.eye(fed.size, dtype=torch.float64, device=fed.ids.device)
        server = {"models": models, "fresh": torch.zeros_like(fed.ids, dtype=torch.bool), "attention": attention}
        return State(server=server, clients={"theta": models})

    def pull(self, theta: Tree, batch: Batch, at: LossContext) -> Tensor:
        """Local loss + λ/(2α)·‖w − u‖², which pulls w towards the client's cloud model u."""
        weight = self.lam / (self.alpha or 1.0)
        return self.loss(theta, batch, at) + weight / 2 * squared_distance(at.model.parameters(theta), at.client.cloud)

    def round(self, fed: Federation, s: State) -> State:
        xi = self.attention(fed, s)
        cloud = fed.send(xi @ s.server.models)
        theta = fed.upload(fed.train(s.clients.theta, self.pull, clients={"cloud": fed.parameters(cloud)}).theta)
        server = {
            "models": s.server.models.placed(fed.ids, theta),
            "fresh": torch.zeros_like(s.server.fresh).index_fill(0, fed.ids, True),
            "attention": s.server.attention.index_copy(0, fed.ids, xi),
        }
        return s.update(server=server, clients={"theta": theta}, trained=theta)

    def attention(self, fed: Federation, s: State) -> Tensor:
        """ξ [n, N], float64, whose rows sum to 1."""
        itself = fed.ids.unsqueeze(1) == torch.arange(fed.total, device=fed.ids.device)
        kind = self.by_cosine if self.heuristic else self.by_distance
        weights = kind(fed, fed.parameters(s.server.models), s.server.fresh & ~itself)
        return torch.where(itself, 1 - weights.sum(dim=1, keepdim=True), weights)

    def by_distance(self, fed: Federation, models: Tree, others: Tensor) -> Tensor:
        """ξ_ij of the `others` [n, N], from differences, since models may lie close together."""
        flat = [t.flatten(1).double() for t in models.values()]
        exact = "donot_use_mm_for_euclid_dist"
        squared = reduce(torch.add, [torch.cdist(t[fed.ids], t, compute_mode=exact).square() for t in flat])
        typical = squared[others].median().clamp(min=1e-12) if others.any() else squared.new_ones(())
        sigma = squared.new_tensor(self.sigma) if self.sigma else typical
        alpha = self.alpha or sigma / fed.total
        weights = alpha * torch.exp(-squared / sigma) / sigma * others
        return weights / weights.sum(dim=1, keepdim=True).clamp(min=1)

    def by_cosine(self, fed: Federation, models: Tree, others: Tensor) -> Tensor:
        """ξ_ij of the `others` [n, N]: shares of exp(s·cos) of what the models have moved from θ⁰."""
        moved = models - fed.parameters(fed.initial())
        flat = torch.cat([t.flatten(1).double() for t in moved.values()], dim=1)
        unit = torch.nn.functional.normalize(flat)
        sharp = torch.where(others, self.sharpness * (unit[fed.ids] @ unit.T), -torch.inf)
        return (1 - self.own) * sharp.softmax(dim=1).nan_to_num(0.0)  # NaN: there are no others

    def received(self, fed: Federation, s: State) -> Tree:
        return s.clients.theta

    def cooperation(self, s: State) -> dict[str, Tensor]:
        return {"attention": s.server.attention}
