"""FedALA: a client merges the global model into its own with element-wise weights that it learns on its own images.

Zhang, Hua, Wang, Song, Xue, Ma & Guan, FedALA: Adaptive Local Aggregation for Personalized Federated Learning, AAAI
2023, Algorithm 1. The lower layers are overwritten; for the last ones θ̂ = θ_i + (w − θ_i) ⊙ A_i (Eq. 4), and A_i moves
against the gradient, A_i ← clip(A_i − η·∇_θ̂ ℓ ⊙ (w − θ_i), 0, 1) (Eq. 5), until it settles the first time, then in one
pass a round. Local training starts from θ̂; the rest is FedAvg.

    θ_i, A_i    s.clients.theta, s.clients.weights
    w           s.server.theta
    w − θ_i     gap

Readings. The `rand_percent` of a client's images are drawn anew in every round and stay the same over the passes of a
round, where the authors cut one slice out of their stored order. The first phase comes in the first round that finds
global and own model different, ends once the last losses of 10 passes have settled, and, unlike in the authors' code,
after `max_passes` in any case. Clients that are idle in a round are evaluated with a θ̂ of their own but keep their A_i.
"""

import torch
from torch import Tensor

from fedgrid.components import hp
from fedgrid.engine.context import Batch, LossContext
from fedgrid.engine.federation import Federation
from fedgrid.engine.method import Identity, State
from fedgrid.methods.fedavg import FedAvg
from fedgrid.models.common.norm import is_statistic
from fedgrid.tree import Nested, Tree, leaves, tree_map

WINDOW = 10
"Passes whose losses must have settled (authors' code)."


class FedALA(FedAvg):
    source = "Zhang et al., AAAI 2023"
    family = "global model merged into each client's own"
    cite = "zhang2023fedala"
    score = "personal"
    identities = [
        Identity("fedavg", {"eta": 0.0}, models="global", exact=False),
        Identity("local", {"eta": 0.0, "start": 0.0, "layer_idx": 0}),
        Identity("local", clients=1),
    ]

    eta: float = hp(1.0, low=0)
    "Learning rate η of the weights A (paper)."
    rand_percent: float = hp(80.0, above=0, high=100)
    "Percentage s of a client's images on which A is learned (paper)."
    layer_idx: int = hp(2, low=0)
    "Number of parameter tensors, from the last, that are merged element-wise (authors' code); 0: all."
    threshold: float = hp(0.1, low=0)
    "Standard deviation of the last losses below which the first phase has settled (authors' code; README: 0.01)."
    max_passes: int = hp(100, low=1)
    "Largest number of passes of the first phase."
    start: float = hp(1.0, low=0, high=1)
    "Where all entries of A start; 1 is the global model (paper)."

    def upper(self, theta: Tree) -> Tree:
        """The last tensors of θ, which are merged."""
        names = [name for name in theta if not is_statistic(name)]
        return {name: theta[name] for name in names[-self.layer_idx :]}

    def setup(self, fed: Federation) -> State:
        s = super().setup(fed)
        theta = fed.replicate(s.server.theta)
        weights = tree_map(lambda t: torch.full_like(t, self.start), self.upper(theta))
        started = torch.zeros_like(fed.ids, dtype=torch.bool)
        return s.update(clients={"theta": theta, "weights": weights, "started": started})

    def learn(self, carried: Nested, batch: Batch, at: LossContext) -> tuple[Nested, Tensor]:
        """Eq. 5 on one batch."""
        merged = tree_map(lambda t, g, a: t + g * a, at.client.own, at.client.gap, carried["weights"])
        slope, value = torch.func.grad_and_value(lambda up: self.loss(at.server.theta | up, batch, at))(merged)
        moved = tree_map(lambda a, d, g: (a - self.eta * d * g).clamp(0, 1), carried["weights"], slope, at.client.gap)
        return {"weights": moved, "last": value}, value

    def merged(self, fed: Federation, s: State) -> tuple[Tree, dict[str, Tree | Tensor]]:
        """θ̂ of all these clients, and their new A."""
        received, own = fed.broadcast(s.server.theta), self.upper(s.clients.theta)
        gap = tree_map(torch.sub, self.upper(received), own)
        differs = torch.stack([(t != 0).flatten(1).any(dim=1) for t in leaves(gap)]).any(dim=0)
        carried = {"weights": s.clients.weights, "last": leaves(gap)[0].new_zeros(fed.size)}
        active = differs
        losses: list[Tensor] = []
        while active.any() and len(losses) < self.max_passes:
            carried = self.one_pass(fed, s, active, carried, {"own": own, "gap": gap})
            losses.append(carried["last"])
            settled = torch.stack(losses[-WINDOW:]).std(dim=0, unbiased=False) < self.threshold
            active = active & ~s.clients.started & ~(settled & (len(losses) > WINDOW))
        up = tree_map(lambda t, g, a: t + g * a, own, gap, carried["weights"])
        return received | up, {"weights": carried["weights"], "started": s.clients.started | differs}

    def one_pass(self, fed: Federation, s: State, active: Tensor, carried: Nested, context: Nested) -> Nested:
        """Eq. 5 on all chosen batches of the `active` clients; the others stay as they are."""
        of_active = [tree_map(lambda t: t[active], tree) for tree in (carried, context)]
        share, where = self.rand_percent / 100, active.nonzero().squeeze(1)
        some = fed.subset(active)
        learned = some.train_with_step(
            of_active[0], self.learn, server=s.server, clients=of_active[1], epochs=1, share=share, stream="ala"
        )
        return tree_map(lambda all_, new: all_.index_copy(0, where, new), carried, learned.theta)

    def round(self, fed: Federation, s: State) -> State:
        theta, learned = self.merged(fed, s)
        local = fed.train(theta, self.loss)
        average = fed.average(fed.upload(local.theta))
        return s.update(server={"theta": average}, clients={"theta": local.theta} | learned, trained=local.theta)

    def personal(self, fed: Federation, s: State) -> Tree:
        return self.merged(fed, s)[0]
