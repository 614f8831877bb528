"""CFL: FedAvg inside clusters of clients; a cluster that has come to rest while its members still pull apart is split.

Sattler, Müller & Samek, Clustered Federated Learning: Model-Agnostic Distributed Multitask Optimization under Privacy
Constraints, TNNLS 2021. A cluster is cut in two by the cosines of its members' updates if ‖Σ_j p_j Δ_j‖ < ε₁ and max_j
‖Δ_j‖ > ε₂; both children go on from their parent's model.

    s.server.cluster [N]    the number of each client's cluster
    s.server.models [K, …]  the clusters' models
    Δ_j                     what a participant's model has moved in local training
    s.server.largest        max_j ‖Δ_j‖ of each of the first t₀ rounds; −1 before

Readings. The cut is complete linkage on the distance 1 − cos, as in the authors' notebook, which stores positions in
place of clients from the second split on; a further test of the paper, against γ_max, is in no public code and left
out. A model is averaged within the new clusters in the round of the split. Clients count by their images, as in FedAvg,
or equally, as in the notebook: `weighting`. A cluster is split only in a round in which all its members with images
took part, since a cut needs an update of each. The bounds are absolute and scale with the rate, the epochs and the
model: `relative` takes them as shares of the median of max_j ‖Δ_j‖ over the first t₀ rounds. The notebook scores the
cluster's model (as here), pFedGraph's code the model after local training, with ε₁ = 2.0, ε₂ = 2.5 and t₀ = 0.
"""

import torch
from torch import Tensor

from fedgrid.components import hp
from fedgrid.engine.federation import Federation
from fedgrid.engine.method import Identity, Method, State
from fedgrid.methods.common.subspaces import gram
from fedgrid.tree import Tree, combine, tree_map


class CFL(Method):
    title = "CFL"
    source = "Sattler et al., TNNLS 2021"
    family = "one model for each cluster of clients"
    cite = "sattler2021cfl"
    shares = "θ"
    identities = [
        Identity("fedavg", {"eps1": 0.0, "t0": 0}, exact=False),
        Identity("fedavg", training={"rounds": 5}, exact=False),
        Identity("local", clients=1, given={"eps1": 1e9, "eps2": 0.0, "t0": 0}),
    ]

    eps1: float = hp(0.4, low=0)
    "ε₁: a cluster whose mean update is shorter has come to rest (authors' notebook)."
    eps2: float = hp(1.6, low=0)
    "ε₂: a member whose update is longer pulls away (authors' notebook)."
    relative: bool = hp(False)
    "On: ε₁ and ε₂ are shares of a typical longest update, such as 0.25 and 0.8."
    t0: int = hp(20, low=0)
    "t₀: rounds before the first split (authors' notebook)."
    min_size: int = hp(3, low=2)
    "Members of the smallest cluster that is split (authors' notebook: more than 2)."
    weighting: str = hp("count", choices=("count", "equal"))
    "How members are averaged: by their images or equally."

    def setup(self, fed: Federation) -> State:
        theta = fed.initial()
        largest = theta["head.weight"].new_full((max(1, self.t0),), -1.0, dtype=torch.float64)
        active = fed.counts.sum(dim=1) > 0
        server = {"cluster": torch.zeros_like(fed.ids), "largest": largest, "active": active}
        return State().update(server=server | {"models": tree_map(lambda t: t.unsqueeze(0), theta)})

    def round(self, fed: Federation, s: State) -> State:
        start = fed.send(self.personal(fed, s))
        theta = fed.upload(fed.train(start, self.loss).theta)
        moved = tree_map(torch.sub, theta, start)
        products = gram({name: t for name, t in moved.items() if name not in fed.model.statistics})
        largest = s.server.largest.clone()
        if fed.round < len(largest):
            largest[fed.round] = products.diagonal().max().sqrt()
        cluster = self.split(fed, s.server.cluster, s.server.active, products, largest[largest >= 0].quantile(0.5))
        models = self.averaged(fed, cluster, theta, s.server.models)
        return s.update(server={"cluster": cluster, "models": models, "largest": largest}, trained=theta)

    def member_weights(self, fed: Federation) -> Tensor:
        return fed.weights if self.weighting == "count" else torch.full_like(fed.weights, 1 / fed.size)

    def averaged(self, fed: Federation, cluster: Tensor, theta: Tree, models: Tree) -> Tree:
        """The models [K, …] of the clusters: the means of those who took part, where anyone did."""
        numbers = torch.arange(int(cluster.max()) + 1, device=cluster.device)
        shares = (cluster[fed.ids] == numbers.unsqueeze(1)) * self.member_weights(fed)
        total = shares.sum(dim=1, keepdim=True)
        means = combine(theta, shares / total.clamp(min=1e-300))
        absent = (total == 0).flatten().nonzero().flatten()  # no cluster that has just split off is among them
        return tree_map(lambda mean, old: mean.index_copy(0, absent, old[absent]), means, models)

    def split(self, fed: Federation, cluster: Tensor, active: Tensor, products: Tensor, typical: Tensor) -> Tensor:
        """The clusters [N] after a round, from the inner products [n, n] of the participants' updates."""
        eps1, eps2 = (eps * typical if self.relative else eps for eps in (self.eps1, self.eps2))
        after = cluster.clone()
        for number in cluster.unique() if fed.round >= self.t0 else ():
            rows = (cluster[fed.ids] == number).nonzero().flatten()
            inner, p = products[rows][:, rows], self.member_weights(fed)[rows]
            if len(rows) < max(self.min_size, int(((cluster == number) & active).sum())):
                continue
            mean, longest = (p @ inner @ p).clamp(min=0).sqrt() / p.sum(), inner.diagonal().max().sqrt()
            if mean < eps1 and longest > eps2:
                after[fed.ids[rows[two_groups(inner)]]] = after.max() + 1
        return after

    def clusters(self, s: State) -> dict[str, Tensor]:
        return {"client": torch.arange(len(s.server.cluster)), "cluster": s.server.cluster}

    def personal(self, fed: Federation, s: State) -> Tree:
        return tree_map(lambda t: t[s.server.cluster[fed.ids]], s.server.models)


def two_groups(inner: Tensor) -> Tensor:
    """Which members [m] leave the first one, by complete linkage on 1 − cosine; from inner products [m, m]."""
    from scipy.cluster.hierarchy import cut_tree, linkage

    norms = inner.diagonal().sqrt().clamp(min=1e-12)
    distance = (1 - inner / torch.outer(norms, norms)).clamp(min=0)[
        tuple(torch.triu_indices(len(inner), len(inner), 1))
    ]
    group = inner.new_tensor(cut_tree(linkage(distance.cpu().numpy(), "complete"), n_clusters=2)[:, 0])
    return group != group[0]
