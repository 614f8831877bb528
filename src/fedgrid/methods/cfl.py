"""CFL: FedAvg inside clusters of clients; a cluster that has come to rest while its members still pull apart is split.

Sattler, Müller & Samek, Clustered Federated Learning: Model-Agnostic Distributed Multitask Optimization under Privacy
Constraints, TNNLS 2021. A cluster is cut in two by the cosines of its members' updates if ‖Σ_j p_j Δ_j‖ < ε₁ and max_j
‖Δ_j‖ > ε₂; both children go on from their parent's model.

    s.server.cluster [N]    the number of each client's cluster
    s.server.models [K, …]  the clusters' models
    Δ_j                     what a participant's model has moved in local training
    s.server.largest        max_j ‖Δ_j‖ of each of the first t₀ rounds; −1 before

Readings

* The cut is complete linkage on the distance 1 − cos, as in the authors' notebook, which stores positions in place of
  clients from the second split on; a further test of the paper, against γ_max, is in no public code and left out.
* A model is averaged within the new clusters in the round of the split. Clients are weighted by their number of images,
  as in FedAvg, or equally, as in the notebook: `weighting`.
* A cluster is split only in a round in which all its members with images took part, since a cut needs an update of
  each.
* Both bounds scale with the rate, the epochs and the model; with those of the notebook and the study's rate nothing may
  ever be split. `bounds` names where they come from; the relative ones, the default, are the notebook's as shares of
  the median of max_j ‖Δ_j‖ over the first t₀ rounds, there about 1.6 to 2.
* A cluster with one of a study's new clients is never split, since these take part in no round.
* Splits depend on the order of batches: in five runs from one initial model on one partition of MNIST, the first split
  came in round 4, in round 12 and, three times, not in 12 rounds (benchmarks/results/cfl_splits).
* The notebook scores the cluster's model (as here), pFedGraph's code the model after local training.
"""

from math import floor

import torch

from fedgrid.methods import Federation, Identity, Method, State, Tensor, Tree, hp
from fedgrid.methods.common.subspaces import gram

BOUNDS = {"notebook": (0.4, 1.6), "pfedgraph": (2.0, 2.5), "relative": (0.25, 0.8)}
"ε₁ and ε₂."


class CFL(Method):
    title = "CFL"
    source = "Sattler et al., TNNLS 2021"
    family = "one model for each cluster of clients"
    cite = "sattler2021cfl"
    score = "received"
    work = "E"
    shares = "θ"
    identities = [
        Identity("fedavg", {"eps1": 0.0, "t0": 0}, exact=False),
        Identity("fedavg", training={"rounds": 2}, exact=False),
        Identity("local", clients=1, settings={"eps1": 1e9, "eps2": 0.0, "t0": 0}),
    ]

    bounds: str = hp("relative", choices=tuple(BOUNDS))
    """ε₁ and ε₂ where they are not given: 0.4 and 1.6 (authors' notebook), 2.0 and 2.5 (pFedGraph's code, FedSaC's
    baseline), or 0.25 and 0.8 as shares of a typical longest update."""
    eps1: float | None = hp(None, low=0)
    "ε₁: a cluster whose mean update is shorter has come to rest; a share where bounds are relative."
    eps2: float | None = hp(None, low=0)
    "ε₂: a member whose update is longer pulls away; a share where bounds are relative."
    t0: int | None = hp(None, low=0)
    """t₀, rounds before the first split; none: 20 (authors' notebook), in a study of fewer than 50 rounds two fifths of
    them; for pFedGraph's bounds 0 (its code)."""
    min_size: int = hp(3, low=2)
    "Members of the smallest cluster that is split (authors' notebook: more than 2)."
    weighting: str = hp("count", choices=("count", "equal"))
    "How members are averaged: by their images or equally."

    def first(self, fed: Federation) -> int:
        """t₀."""
        derived = 0 if self.bounds == "pfedgraph" else min(20, floor(0.4 * fed.training.rounds))
        return derived if self.t0 is None else self.t0

    def setup(self, fed: Federation) -> State:
        theta = fed.initial()
        largest = theta["head.weight"].new_full((max(1, self.first(fed)),), -1.0, dtype=torch.float64)
        active = fed.counts.sum(dim=1) > 0
        server = {"cluster": torch.zeros_like(fed.ids), "largest": largest, "active": active}
        return State(server=server | {"models": theta.map(lambda t: t.unsqueeze(0))})

    def round(self, fed: Federation, s: State) -> State:
        start = fed.send(self.received(fed, s))
        theta = fed.upload(fed.train(start, self.loss).theta)
        products = gram(fed.parameters(theta - start))
        largest = s.server.largest.clone()
        if fed.round < len(largest) or not (largest >= 0).any():  # the clients of a modality may have sat out the first
            largest[min(fed.round, len(largest) - 1)] = products.diagonal().max().sqrt()
        typical = largest[largest >= 0].quantile(0.5)
        cluster = self.split(fed, s.server.cluster, s.server.active, products, typical)
        models = self.averaged(fed, cluster, theta, s.server.models)
        return s.update(server={"cluster": cluster, "models": models, "largest": largest}, trained=theta)

    def member_weights(self, fed: Federation) -> Tensor:
        """Weights [n] of the participants in their cluster's mean, before they are scaled."""
        return fed.weights if self.weighting == "count" else torch.full_like(fed.weights, 1 / fed.size)

    def averaged(self, fed: Federation, cluster: Tensor, theta: Tree, models: Tree) -> Tree:
        """The models [K, …] of the clusters: the means of those who took part, where anyone did."""
        numbers = torch.arange(int(cluster.max()) + 1, device=cluster.device)
        shares = (cluster[fed.ids] == numbers.unsqueeze(1)) * self.member_weights(fed)
        total = shares.sum(dim=1, keepdim=True)
        means = (shares / total.clamp(min=1e-300)) @ theta
        absent = (total == 0).flatten().nonzero().flatten()  # no cluster that has just split off is among them
        return means.placed(absent, models.rows(absent)) if len(absent) else means

    def split(self, fed: Federation, cluster: Tensor, active: Tensor, products: Tensor, typical: Tensor) -> Tensor:
        """The clusters [N] after a round, from the inner products [n, n] of the participants' updates."""
        unit = typical if self.bounds == "relative" else 1.0
        bounds = zip((self.eps1, self.eps2), BOUNDS[self.bounds], strict=True)
        eps1, eps2 = ((default if eps is None else eps) * unit for eps, default in bounds)
        divided = cluster.clone()
        for number in cluster.unique() if fed.round >= self.first(fed) else ():
            members = (cluster[fed.ids] == number).nonzero().flatten()
            inner, p = products[members][:, members], self.member_weights(fed)[members]
            if len(members) < max(self.min_size, int(((cluster == number) & active).sum())):
                continue
            mean, longest = (p @ inner @ p).clamp(min=0).sqrt() / p.sum(), inner.diagonal().max().sqrt()
            if mean < eps1 and longest > eps2:
                divided[fed.ids[members[two_groups(inner)]]] = divided.max() + 1
        return divided

    def clusters(self, s: State) -> dict[str, Tensor]:
        return {"client": torch.arange(len(s.server.cluster)), "cluster": s.server.cluster}

    def received(self, fed: Federation, s: State) -> Tree:
        models: Tree = s.server.models
        return models.map(lambda t: t[s.server.cluster[fed.ids]])


def two_groups(inner: Tensor) -> Tensor:
    """Which members [m] leave the first one, by complete linkage on 1 − cosine; from inner products [m, m]."""
    from scipy.cluster.hierarchy import cut_tree, linkage

    norms = inner.diagonal().sqrt().clamp(min=1e-12)
    pairs = tuple(torch.triu_indices(len(inner), len(inner), 1))
    distance = (1 - inner / torch.outer(norms, norms)).clamp(min=0)[pairs]
    group = inner.new_tensor(cut_tree(linkage(distance.cpu().numpy(), "complete"), n_clusters=2)[:, 0])
    return group != group[0]
