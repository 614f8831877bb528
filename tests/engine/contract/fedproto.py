"""FedProto: only class means travel; features are pulled to the global mean of their class.

Tan et al., AAAI 2022. A model predicts by its nearest global prototype, and by its head while there is none.
"""

import torch
from torch import Tensor
from torch.nn.functional import mse_loss

from fedgrid.components import hp
from fedgrid.engine.federation import Federation
from fedgrid.engine.method import At, Batch, Identity, Method, State
from fedgrid.methods.common.losses import cross_entropy
from fedgrid.methods.common.prototypes import FAR, aggregate, class_means, class_sums
from fedgrid.tree import Tree


class FedProto(Method):
    source = "Tan et al., AAAI 2022"
    shares = "class means"
    identities = (Identity("local", {"lam": 0.0}),)

    lam: float = hp(1.0, low=0)
    "Weight λ of the pull."

    def setup(self, fed: Federation) -> State:
        theta = fed.initial()
        nothing = torch.zeros_like(theta["head.weight"])
        server = {"prototypes": nothing, "known": nothing.any(dim=1)}
        return State().update(server=server, clients={"theta": fed.replicate(theta)})

    def loss(self, theta: Tree, batch: Batch, at: At) -> Tensor:
        z = at.model.features(theta, batch.x)
        known = at.server.known[batch.y].unsqueeze(1)
        target = torch.where(known, at.server.prototypes[batch.y], z.detach())
        return cross_entropy(at.model.head(theta, z), batch.y) + self.lam * mse_loss(z, target)

    def round(self, fed: Federation, s: State) -> State:
        fed.broadcast(s.server.prototypes, s.server.known)
        local = fed.train(s.clients.theta, self.loss, server=s.server)
        means = class_means(fed.measure(local.theta, class_sums).sums, fed.counts)
        fed.upload(means, fed.counts > 0)
        equal = (fed.counts > 0).double()
        prototypes, known = aggregate(means, equal, s.server.prototypes, s.server.known)
        server = {"prototypes": prototypes, "known": known}
        return s.update(server=server, clients={"theta": local.theta}, trained=local.theta)

    def personal(self, fed: Federation, s: State) -> Tree:
        return s.clients.theta

    def predict(self, theta: Tree, x: Tensor, at: At) -> Tensor:
        z = at.model.features(theta, x)
        distance = torch.cdist(z, at.server.prototypes).square()
        nearest = torch.where(at.server.known, -distance, FAR)
        return torch.where(at.server.known.any(), nearest, at.model.head(theta, z))
