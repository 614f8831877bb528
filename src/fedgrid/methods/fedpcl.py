"""FedPCL: clients exchange normalised class means, and contrast with their mean and with every client's set.

Tan, Long, Ma, Liu, Zhou & Jiang, Federated Learning from Pre-Trained Models: A Contrastive Learning Approach, NeurIPS
2022: L_g + L_p, the contrast of z = f(x)/‖f(x)‖ with the G_c, and its mean over the clients' sets, in which G_c stands
for what a client lacks. Logits are z·v/τ.

    θ_i              s.clients.theta, never overwritten
    μ_{j,c}          s.server.sets (where s.server.has), of the last round in which client j took part
    G_c              s.server.prototypes (rows with s.server.known), each client's mean counting once

Readings

* The paper trains a small projection on frozen, pre-trained backbones. Here θ_i is the whole model, as in PFLlib; on
  frozen features (`features:` in a study) that is the projection.
* The paper's loss leaves the positive out of the denominator and may fall below zero: `exclude_positive`. The default
  is the ordinary cross entropy over the classes, as in PFLlib. The third one, of the authors' executed code, with
  prototypes as anchors, two augmented views and a sum over clients, is not here.
* The first round only computes and sends means, and trains with `with_ce` alone. They are means of unit vectors and not
  normalised again.
* A model predicts the nearest of its client's own means, among the classes that it has, and by its head while there is
  none. These means are kept beside the parameters of the models that are scored: theta.means, theta.has.
* FedCCL also averages the parameters: `average`.
"""

import torch
from torch.nn.functional import normalize, one_hot

from fedgrid.methods import Batch, Federation, Identity, LossContext, Method, State, Tensor, Tree, cross_entropy, hp
from fedgrid.methods.common.banks import EPS, against, average, unit_means
from fedgrid.methods.common.prototypes import FAR, aggregate, unknown

PLAIN = {"contrast": 0.0, "with_ce": True, "readout": "head"}


class FedPCL(Method):
    source = "Tan et al., NeurIPS 2022"
    family = "own models: shared class means"
    cite = "tan2022fedpcl"
    score = "received"
    work = "E"
    shares = "class means of all clients"
    down = "(M + C)·k"
    up = "|C_i|·k"
    carries = "mean features of each class of a client's training images"
    identities = [Identity("local", PLAIN), Identity("fedavg", PLAIN | {"average": True})]

    temperature: float = hp(0.07, above=0)
    "Temperature τ of both contrasts (paper; PFLlib: 1)."
    contrast: float = hp(1.0, low=0)
    "Weight of the two contrasts."
    exclude_positive: bool = hp(False)
    "On: the denominator is over the other classes alone (paper)."
    with_ce: bool = hp(False)
    "On: cross entropy of the head is added."
    readout: str = hp("prototype", choices=("prototype", "head"))
    "What a client predicts by; a head is trained only `with_ce`."
    average: bool = hp(False)
    "On: parameters are averaged too and every client goes on from the average."

    def setup(self, fed: Federation) -> State:
        theta = fed.initial()
        sets = theta["head.weight"].new_zeros(fed.total, *theta["head.weight"].shape)
        server = unknown(theta) | {"sets": sets, "has": sets.any(dim=2)} | ({"theta": theta} if self.average else {})
        return State(server=server, clients={"theta": fed.replicate(theta)})

    def loss(self, theta: Tree, batch: Batch, at: LossContext) -> Tensor:
        z = at.model.features(theta, batch.x)
        objective = self.contrast * self.contrasts(normalize(z, dim=1, eps=EPS), batch.y, at.server)
        return objective + cross_entropy(at.model.head(theta, z), batch.y) if self.with_ce else objective

    def contrasts(self, z: Tensor, labels: Tensor, shared: Tree) -> Tensor:
        """L_g + L_p of unit vectors z [B, k]."""
        filled = torch.where(shared.has.unsqueeze(2), shared.sets, shared.prototypes)
        banks = torch.cat([shared.prototypes.unsqueeze(0), filled])
        logits = torch.einsum("bk,nck->nbc", z, banks) / self.temperature
        positive = one_hot(labels, len(shared.known)).bool()
        values, counted = against(logits, positive, shared.known, exclude=self.exclude_positive)
        sent = shared.has.any(dim=1, keepdim=True)
        return average(values[0], counted[0]) + average(values[1:] * sent, counted[1:] & sent)

    def round(self, fed: Federation, s: State) -> State:
        fed.broadcast(s.server.prototypes, s.server.known)
        fed.broadcast(s.server.sets, s.server.has)
        start = fed.broadcast(s.server.theta) if self.average else s.clients.theta
        idle = not (self.with_ce or s.server.known.any())
        theta = fed.train(start, self.loss, epochs=0 if idle else None).theta
        present = fed.counts > 0
        means = fed.upload(unit_means(fed, theta), present)
        prototypes, known = aggregate(means, present.double(), s.server.prototypes, s.server.known)
        sets = Tree(sets=s.server.sets, has=s.server.has).placed(fed.ids, {"sets": means, "has": present})
        server = Tree(prototypes=prototypes, known=known) | sets
        if self.average:
            server["theta"] = fed.average(fed.upload(theta))
        return s.update(server=server, clients={"theta": theta}, trained=self.with_means(theta, means, present))

    def with_means(self, theta: Tree, means: Tensor, has: Tensor) -> Tree:
        """Models with what they predict by: their clients' own means [n, C, k], and which there are [n, C]."""
        return theta | {"means": means, "has": has} if self.readout == "prototype" else theta

    def global_model(self, s: State) -> Tree | None:
        return s.server.theta if self.average and self.with_ce else None  # else its head was never trained

    def received(self, fed: Federation, s: State) -> Tree:
        if not self.average:
            return self.with_means(s.clients.theta, s.server.sets[fed.ids], s.server.has[fed.ids])
        theta = fed.replicate(s.server.theta)  # under which a client's own prototypes are others than it sent
        if self.readout == "head" or not s.server.known.any():
            return theta
        return self.with_means(theta, unit_means(fed, theta), fed.counts > 0)

    def predict(self, theta: Tree, x: Tensor, at: LossContext) -> Tensor:
        z = at.model.features(theta, x)
        by_head = at.model.head(theta, z)
        if "means" not in theta:
            return by_head
        distance = torch.cdist(normalize(z, dim=1, eps=EPS), theta.means).square()
        nearest = torch.where(theta.has, -distance / (2 * self.temperature), FAR)
        return torch.where(theta.has.any(), nearest, by_head)
