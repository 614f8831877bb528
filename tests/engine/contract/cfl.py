"""Clustered federated learning: one model per cluster; a cluster whose members disagree is split by cosine similarity.

Sattler, Müller & Samek, TNNLS 2020. Only a cluster all of whose members took part is split.
"""

import torch
from scipy.cluster.hierarchy import fcluster, linkage
from torch import Tensor

from fedgrid.components import hp
from fedgrid.engine.federation import Federation
from fedgrid.engine.method import Method, State
from fedgrid.tree import Tree, leaves, tree_map


class CFL(Method):
    source = "Sattler et al., TNNLS 2020"
    shares = "θ"

    small: float = hp(0.4)
    "Bound ε₁ on the norm of a cluster's mean update."
    large: float = hp(1.6)
    "Bound ε₂ on the largest norm of an update."

    def setup(self, fed: Federation) -> State:
        server = {"cluster": torch.zeros_like(fed.ids), "models": fed.replicate(fed.initial())}
        return State().update(server=server)

    def round(self, fed: Federation, s: State) -> State:
        start = self.models(fed, s)
        fed.send(start)
        local = fed.train(start, self.loss)
        delta = fed.upload(tree_map(torch.sub, local.theta, start))
        flat = torch.cat([t.flatten(start_dim=1) for t in leaves(delta)], dim=1).double()
        cluster = self.split(fed, s.server.cluster, flat)
        member = torch.nn.functional.one_hot(cluster[fed.ids], len(cluster)).T * fed.weights
        share = member / member.sum(dim=1, keepdim=True).clamp(min=1e-30)
        first = torch.stack(
            [s.server.cluster[cluster == c].min() if c in cluster else c for c in torch.arange(len(cluster))]
        )
        models = tree_map(lambda m, d: m[first] + torch.tensordot(share.to(d.dtype), d, 1), s.server.models, delta)
        return s.update(server={"cluster": cluster, "models": models}, trained=local.theta)

    def split(self, fed: Federation, cluster: Tensor, flat: Tensor) -> Tensor:
        """The clusters [N] after this round; a child gets the lowest number that is free."""
        unit, now = torch.nn.functional.normalize(flat, dim=1), cluster.clone()
        for c in cluster.unique().tolist():
            rows = (cluster[fed.ids] == c).nonzero().flatten()
            norms = flat[rows].norm(dim=1)
            calm = len(rows) == (cluster == c).sum() and len(rows) > 2 and flat[rows].mean(dim=0).norm() < self.small
            if calm and norms.max() > self.large:
                distance = 1 - (unit[rows] @ unit[rows].T)[tuple(torch.triu_indices(len(rows), len(rows), 1))]
                label = torch.from_numpy(fcluster(linkage(distance.cpu().numpy(), "complete"), 2, "maxclust"))
                now[fed.ids[rows[label == 2]]] = now.max() + 1
        return now

    def models(self, fed: Federation, s: State) -> Tree:
        return tree_map(lambda t: t[s.server.cluster[fed.ids]], s.server.models)

    def personal(self, fed: Federation, s: State) -> Tree:
        return self.models(fed, s)
