"""FD: clients share their mean output for each class, and each is drawn to what the others say of its images' classes.

Jeong, Oh, Kim, Park, Bennis & Kim, Communication-Efficient On-Device Machine Learning: Federated Distillation and
Augmentation under Non-IID Private Data, arXiv 1811.11479, 2018: CE + λ·CE(G_{i,y}, logits), where G_{i,c} is the mean
of F_{j,c} over the other clients j that have class c, and F_{j,c} the mean of softmax(logits) over their images of c.

    θ_i       s.clients.theta, never overwritten
    F_j       s.server.outputs (where s.server.has), of the last round in which client j took part
    G_{i,c}   at.client.targets; zeros where it is unknown, which makes the second term 0

Readings

* The paper's logit vector is "a set of logit values normalized via a softmax function": probabilities are averaged.
  PFLlib and the FedGen repository average raw logits; the former gives their mean to the cross entropy as it is, the
  latter its softmax.
* No code by the authors was found. Their augmentation by generated images is left out.
* F is taken in a pass of its own after local training; PFLlib and the FedGen repository average the logits that come up
  in training.
* Both terms are means over the batch. An image whose class nobody else has shared has no second term, nor has any image
  in the first round.
* A client's last F counts even if it sits out a round; PFLlib and the FedGen repository average those of the last
  round's participants, and a client's own are in the mean (`exclude_own`).
* In the FedGen repository a client without a class adds zeros to its mean; counts start at 1 and run over all rounds.
"""

import torch
from torch.nn.functional import one_hot

from fedgrid.methods import (
    Batch,
    Federation,
    Identity,
    LossContext,
    Method,
    State,
    Tensor,
    Tree,
    counts_filled,
    cross_entropy,
    hp,
)
from fedgrid.methods.common.prototypes import class_means, summed_by_class


class FD(Method):
    source = "Jeong et al., 2018"
    family = "own models: shared mean outputs"
    cite = "jeong2018fd"
    score = "received"
    work = "E"
    shares = "mean outputs for classes"
    down = "M·C"
    up = "|C_i|·C"
    identities = [Identity("local", {"lam": 0.0}), Identity("local", clients=1)]

    lam: float = hp(1.0, low=0)
    "Weight λ of what the others say (PFLlib and the FedGen repository; the paper's value was not checked)."
    exclude_own: bool = hp(True)
    "Off: a client's own outputs are in the mean too (PFLlib, FedGen repository)."

    def setup(self, fed: Federation) -> State:
        theta, classes = fed.initial(), fed.model.classes
        outputs = theta["head.bias"].new_zeros(fed.total, classes, classes)
        return State(server={"outputs": outputs, "has": outputs.any(dim=2)}, clients={"theta": fed.replicate(theta)})

    def loss(self, theta: Tree, batch: Batch, at: LossContext) -> Tensor:
        logits = at.model(theta, batch.x)
        value = cross_entropy(logits, batch.y)
        return value + self.lam * cross_entropy(logits, at.client.targets[batch.y]) if self.lam else value

    def consensus(self, fed: Federation, s: State) -> tuple[Tensor, Tensor]:
        """G [n, C, C], and of which classes it is known [n, C]."""
        itself = one_hot(fed.ids, fed.total).double()
        others = 1 - itself if self.exclude_own else torch.ones_like(itself)
        number = others @ s.server.has.double()
        total = torch.einsum("ij,jck->ick", others, s.server.outputs.double())  # 0 where j lacks c
        return class_means(total, number).type_as(s.server.outputs), number > 0

    def round(self, fed: Federation, s: State) -> State:
        outputs, known = self.consensus(fed, s)
        targets = fed.send(outputs, known)  # 0 where they are unknown
        theta = fed.train(s.clients.theta, self.loss, clients={"targets": targets}).theta
        present = fed.counts > 0
        means = class_means(fed.measure(theta, output_sums).sums, fed.counts)
        server = s.server.placed(fed.ids, {"outputs": fed.upload(means, present), "has": present})
        return s.update(server=server, clients={"theta": theta}, trained=theta)

    def received(self, fed: Federation, s: State) -> Tree:
        return s.clients.theta


@counts_filled
def output_sums(theta: Tree, batch: Batch, at: LossContext) -> dict[str, Tensor]:
    """Sums [C, C] of the probabilities that images of each class are given; a measurement for `Federation.measure`."""
    return {"sums": summed_by_class(at.model(theta, batch.x).softmax(dim=1), batch, at.model.classes)}
