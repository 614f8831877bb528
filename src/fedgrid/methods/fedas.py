"""FedAS: the received extractor is first aligned to the client's own class means; Fisher traces weigh the average.

Yang, Huang & Ye, FedAS: Bridging Inconsistency in Personalized Federated Learning, CVPR 2024. Heads stay at home, as in
FedPer. A participant measures the mean feature μ_{i,c} of each class under the extractor that it kept; fits the
received one to Σ_c (1/(m_c·k))·Σ_{b: y_b = c} ‖z_b − μ_{i,c}‖² over the classes of a batch, with m_c images each;
trains extractor and head; and sends φ_i with F_i = Σ_b ‖∇_θ ℓ_b(θ_i)‖² over the batches of one epoch, ℓ_b the mean
negative log-likelihood of batch b. The server sets φ = Σ_i F_i φ_i/Σ_i F_i.

    φ          s.server.theta (the shared part of θ)
    θ_i        s.clients.theta, all of the client's model
    μ_{i,c}    at.client.means
    F_i        fisher, recorded of every participant

Readings

* The paper's text was not at hand; the equations are those of the authors' code.
* The idea is that clients who have trained little weigh little. But a client that fits its images has gradients, and
  hence F, near 0 as well, and F adds up over batches, so that clients with more images weigh more.
* Batches are the study's, for the alignment and for F too; both implementations align in batches of 16. F is measured
  after local training, in evaluation mode, of head and extractor. If all F are 0, clients weigh by their images.
* In a client's first round the class means are those of θ⁰.
* The authors' server hands its own model out, so that the alignment of one client changes what the next one receives;
  PFLlib copies it. FL-bench aligns the mean of a class in a batch, and averages heads too.
* The implementations test the models that clients kept, so *received* is not the new extractor.
"""

from dataclasses import replace

import torch
from torch.nn.functional import one_hot

from fedgrid.methods import Batch, Federation, Identity, LossContext, State, Tensor, Tree, hp, inner
from fedgrid.methods.common.prototypes import local_means
from fedgrid.methods.fedper import FedPer

PLAIN = {"alignment_epochs": 0, "weighting": "count"}


class FedAS(FedPer):
    source = "Yang et al., CVPR 2024"
    cite = "yang2024fedas"
    score = "trained"
    shares = "φ and a number"
    up = "|φ| + 1"
    work = "alignment_epochs + E + 1"
    identities = [
        Identity("fedper", PLAIN, models="trained"),
        Identity("fedavg", PLAIN | {"local_part": "nothing"}, models="trained"),
        Identity("local", {"alignment_epochs": 0, "local_part": "all"}),
        Identity("local", {"alignment_epochs": 0}, clients=1),
    ]

    alignment_epochs: int = hp(1, low=0)
    "Epochs in which the received extractor is aligned, before local training (authors' code)."
    alignment_lr: float = hp(0.01, above=0)
    "Learning rate of the alignment, which is plain SGD (authors' code)."
    weighting: str = hp("fisher", choices=("fisher", "count"))
    "What extractors are weighted by: traces of the Fisher information, or images (without the pass that measures F)."

    def round(self, fed: Federation, s: State) -> State:
        received = s.clients.theta | fed.broadcast(s.server.theta)
        theta = fed.train(self.aligned(fed, s.clients.theta, received), self.loss).theta
        weights, quantities = fed.weights, dict[str, Tensor]()
        if self.weighting == "fisher":
            quantities["fisher"] = fed.upload(self.fisher(fed, theta))
            weights = self.by_fisher(fed, quantities["fisher"])
        average = fed.average(fed.upload(self.shared(theta)), weights)
        return s.update(server={"theta": average}, clients={"theta": theta}, trained=theta, quantities=quantities)

    def aligned(self, fed: Federation, previous: Tree, received: Tree) -> Tree:
        """The models `received`, with extractors that are drawn to the class means of the `previous` models."""
        if not self.alignment_epochs:
            return received
        means = local_means(fed, previous)
        plain = fed.optimizer.but(kind="sgd", momentum=0.0, weight_decay=0.0, clip=None, lr=self.alignment_lr)
        return fed.train(
            received,
            self.alignment,
            clients={"means": means},
            epochs=self.alignment_epochs,
            optimizer=plain,
            part="extractor",
            stream="align",
        ).theta

    def alignment(self, theta: Tree, batch: Batch, at: LossContext) -> Tensor:
        """Σ over a batch's classes of the mean square of z − μ_c."""
        members = one_hot(batch.y, at.model.classes).sum(dim=0)[batch.y]
        means: Tensor = at.client.means
        squares = (at.model.features(theta, batch.x) - means[batch.y]).square().mean(dim=1)
        return (squares / members).sum()

    def fisher(self, fed: Federation, theta: Tree) -> Tensor:
        """F [n] of a stack of models, which are in evaluation mode and stay as they are."""
        start, model = {"fisher": theta["head.bias"].new_zeros(fed.size)}, lambda _, at: at.client.trained
        step, clients = self.squared, {"trained": theta}
        full_work = replace(fed, work={})  # a straggler is stopped in training, not in what it measures
        total: Tensor = full_work.iterate(
            start, step, clients=clients, epochs=1, stream="fisher", model=model
        ).theta.fisher
        return total

    def squared(self, total: Tree, batch: Batch, at: LossContext) -> tuple[dict[str, Tensor], Tensor]:
        """A step that adds ‖∇_θ ℓ_b(θ_i)‖²."""
        still = replace(at, model=at.model.evaluating())
        slope, value = torch.func.grad_and_value(self.loss)(at.client.trained, batch, still)
        return {"fisher": total.fisher + inner(slope, slope)}, value

    def by_fisher(self, fed: Federation, fisher: Tensor) -> Tensor:
        """F_i/ΣF [n], float64."""
        traces = fisher.double()
        return traces / traces.sum() if traces.any() else fed.weights

    def received(self, fed: Federation, s: State) -> Tree:
        return s.clients.theta
