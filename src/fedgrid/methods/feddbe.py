"""DBE: a vector of the client's own takes up what is biased in its features, and a common mean holds the shared ones.

Zhang, Hua, Cao, Wang, Song, Xue, Ma & Guan, Eliminating Domain Bias for Federated Learning in Representation Space,
NeurIPS 2023: FedAvg with the domain bias eliminator. After an initial period clients send their mean features z̄_i, and
z̄ = Σ p_i z̄_i is fixed for ever. From then on logits are h(f(x) + m_i; π), with m_i trained beside θ from 0, and the
loss is CE + κ·½·mean_k(r − z̄)², where r is the mean of f(x) over the batch.

    w      s.server.theta
    z̄      s.server.mean_feature, once s.server.known
    m_i    s.clients.memory, theta.memory in training; never sent

Readings

* The first round is the initial period of its participants: a plain round of FedAvg, then one pass for the means under
  the models that they trained. The authors spend a local training of all clients and drop its models. PFLlib averages
  features while it trains, with momentum 0.1 from 0, so that z̄ is too short after few batches.
* r is the batch's mean. In the authors' code it is a running mean that starts at 0 in every round, with momentum μ and
  a gradient through the last batch alone; for CNNs their ``run_me.sh`` has μ = 1, with which it is the same, and κ of
  50. With that μ the z̄_i that their clients send is the mean of the last training batch; here it is of all images.
* κ = 50 belongs to the authors' rate of 0.005: the default keeps κ·η.
* m_i takes the steps of the study's optimiser, weight decay included. A client that was never drawn has m_i = 0.
* `global` is scored with m = 0.
* The equations are written from memory of the paper and from the authors' code.
"""

import torch

from fedgrid.methods import Batch, Federation, Identity, LossContext, State, Tensor, Tree, cross_entropy, hp
from fedgrid.methods.common.prototypes import class_sums
from fedgrid.methods.fedavg import FedAvg

PULL = 0.25
"κ·η."


class FedDBE(FedAvg):
    title = "DBE"
    source = "Zhang et al., NeurIPS 2023"
    family = "global model, with a private shift of its features"
    cite = "zhang2023dbe"
    score = "received"
    shares = "θ, a mean feature"
    down = "|θ| + k"
    identities = [
        Identity("fedavg", {"kappa": 0.0, "memory": False}),
        Identity("fedavg", models="global", training={"rounds": 1}),
    ]

    kappa: float | None = hp(None, low=0)
    """Weight κ of the distance of mean features; none: 0.25/η with the study's rate η, which is 50 at 0.005, the
    authors' for a CNN (remembered: 1 for ResNet-18, 0.1 for fastText; PFLlib's default of 0 switches it off)."""
    memory: bool = hp(True)
    "Off: clients have no vector m_i, and use the global model."

    def setup(self, fed: Federation) -> State:
        s = super().setup(fed)
        zero = s.server.theta["head.weight"].new_zeros(fed.model.width)
        clients = {"memory": fed.replicate(zero)} if self.memory else {}
        return s.update(server={"mean_feature": zero, "known": zero.any()}, clients=clients)

    def logits(self, theta: Tree, z: Tensor, at: LossContext) -> Tensor:
        """h(z + m; π) of features z [B, k], and h(z; π) of a model without m."""
        return at.model.head(theta, z + theta["memory"] if "memory" in theta else z)

    def loss(self, theta: Tree, batch: Batch, at: LossContext) -> Tensor:
        z = at.model.features(theta, batch.x)
        entropy = cross_entropy(self.logits(theta, z, at), batch.y)
        if self.kappa == 0:
            return entropy
        common: Tensor = at.server.mean_feature
        distance = (z.mean(dim=0) - common).square().mean()
        kappa: float = at.server.kappa if self.kappa is None else self.kappa
        return entropy + kappa / 2 * distance

    def predict(self, theta: Tree, x: Tensor, at: LossContext) -> Tensor:
        return self.logits(theta, at.model.features(theta, x), at)

    def round(self, fed: Federation, s: State) -> State:
        known = bool(s.server.known)
        start = fed.broadcast(s.server.theta)
        if known:
            fed.broadcast(s.server.mean_feature)
        loss, rule = self.loss if known else super().loss, {"kappa": PULL / fed.training.lr}
        local = fed.train(start | s.clients, loss, server=rule).theta
        theta = Tree((name, local[name]) for name in start)
        server = Tree(theta=fed.average(fed.upload(theta)))
        if not known:
            mean = fed.average(fed.upload(self.mean_features(fed, theta)))
            server |= Tree(mean_feature=mean, known=torch.ones_like(s.server.known))
        return s.update(server=server, clients={name: local[name] for name in s.clients}, trained=local)

    def mean_features(self, fed: Federation, theta: Tree) -> Tensor:
        """z̄_i [n, k] of all training images under the models `theta`."""
        sums: Tensor = fed.measure(theta, class_sums).sums.sum(dim=1)
        return sums / fed.counts.sum(dim=1, keepdim=True).type_as(sums)

    def received(self, fed: Federation, s: State) -> Tree | None:
        return fed.replicate(s.server.theta) | s.clients if self.memory else None
