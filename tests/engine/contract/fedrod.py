"""FedRoD: a generic head trained with balanced softmax, and a private head on top of its frozen prediction.

Chen & Chao, ICLR 2022. The private head rides in the same tree under ``private.head.*``.
"""

import torch
from torch import Tensor

from fedgrid.components import hp
from fedgrid.engine.federation import Federation
from fedgrid.engine.method import At, Batch, Identity, State
from fedgrid.methods.common.losses import cross_entropy
from fedgrid.methods.common.prototypes import FAR
from fedgrid.methods.fedavg import FedAvg
from fedgrid.models.base import part
from fedgrid.tree import Tree

PRIVATE = "private."


class FedRoD(FedAvg):
    source = "Chen & Chao, ICLR 2022"
    score = "personal"
    identities = (Identity("fedavg", {"gamma": 0.0}, models="global"),)

    gamma: float = hp(1.0, low=0)
    "Exponent γ of the class counts in the balanced softmax."

    def setup(self, fed: Federation) -> State:
        s = super().setup(fed)
        private = {PRIVATE + key: t for key, t in part(s.server.theta, "head").items()}
        return s.update(clients={"private": fed.replicate(private)})

    def logits(self, theta: Tree, x: Tensor, at: At) -> tuple[Tensor, Tensor]:
        """Generic logits, and those of the private head on constant features."""
        z = at.model.features(theta, x)
        private = {key.removeprefix(PRIVATE): t for key, t in theta.items()}
        own = {key: theta.get(PRIVATE + key, t) for key, t in private.items()}
        return at.model.head(theta, z), at.model.head(own, z.detach())

    def loss(self, theta: Tree, batch: Batch, at: At) -> Tensor:
        generic, private = self.logits(theta, batch.x, at)
        balanced = cross_entropy(generic + at.client.offset, batch.y)
        return balanced + cross_entropy(generic.detach() + private, batch.y)

    def round(self, fed: Federation, s: State) -> State:
        start = fed.broadcast(s.server.theta) | s.clients.private
        offset = self.gamma * fed.counts.log().clamp(min=FAR) if self.gamma else torch.zeros_like(fed.counts)
        theta = fed.train(start, self.loss, clients={"offset": offset.float()}).theta
        generic = {key: theta[key] for key in s.server.theta}
        private = {key: theta[key] for key in s.clients.private}
        average = fed.average(fed.upload(generic))
        return s.update(server={"theta": average}, clients={"private": private}, trained=theta)

    def personal(self, fed: Federation, s: State) -> Tree:
        return fed.replicate(s.server.theta) | s.clients.private

    def predict(self, theta: Tree, x: Tensor, at: At) -> Tensor:
        return sum(self.logits(theta, x, at))
