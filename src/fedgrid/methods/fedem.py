"""FedEM: the server keeps several models; each client predicts with a mixture of them, whose weights it learns by EM.

Marfoq, Neglia, Bellet, Kameni & Vidal, Federated Multi-Task Learning under a Mixture of Distributions, NeurIPS 2021,
Algorithm 1. Client i receives all M models w_m. E-step: q_m(x) = softmax_m(log π_im − ℓ(w_m; x, y)) for each of its
images. M-step: π_im is the mean of q_m over its images, and learner m descends the mean of q_m(x)·ℓ(θ_m; x, y) over a
batch, from w_m. The server averages w_m ← Σ_i p_i θ_im. A client predicts p(y | x) = Σ_m π_im·softmax(logits_m(x)).

    w_m     s.server.models, M models named 0, 1, …
    π_i     s.clients.pi [n, M], never sent
    q(x)    responsibilities, formed in every loss from w and the π_i that the client had before the round

Readings

* Written from memory of the paper and checked against the authors' code. That code stores q; here q is formed again for
  every batch, in evaluation mode. The two are equal unless images are augmented or moved by an adversary: then q is
  that of the altered images. This costs M more forward passes for each learner and batch, which `work` leaves out.
* Every learner has an optimiser of its own, the study's, and all see the same batches; in the authors' code each draws
  its own order. In the algorithm, learners have separate losses, and none depends on another's steps.
* Starts are IFCA's: drawn independently, the first one being θ⁰, so that one learner is FedAvg.
* As in the authors' code, the loss of a batch is divided by its size, not by Σ q_m. While the models are equally good,
  q_m is about 1/M, and plain SGD takes steps of 1/M of FedAvg's. For CIFAR-10 the authors' commands have the rate 0.03
  for FedEM with M = 3 and 0.01 for FedAvg; at FedAvg's rate, FedEM starts slowly.
* The average is over the round's participants. The authors' code averages all clients, idle ones with their old copies,
  so that a round of few participants changes little.
* A client keeps π_i while it is idle, and has 1/M before its first round. In the authors' code, clients that join later
  take the E-step and the M-step whenever they are scored. `received` joins π_i and the new w, as that code scores.
* FL-bench mixes logits in place of probabilities. It finds the q of a shuffled batch by sorted positions, so that
  images of a batch get the q of one another.
"""

import torch
from torch.nn.functional import cross_entropy

from fedgrid.methods import Batch, Federation, Identity, LossContext, Method, State, Tensor, Tree, counts_filled, hp
from fedgrid.methods.ifca import IFCA, single


class FedEM(Method):
    source = "Marfoq et al., NeurIPS 2021"
    family = "one model for each cluster of clients: each client mixes all of them"
    cite = "marfoq2021fedem"
    score = "received"
    work = "learners·E"
    shares = "all learners' θ"
    down = up = "learners·|θ|"
    identities = [Identity("fedavg", {"learners": 1}, models="global")]

    learners: int = hp(3, low=1)
    "Number M of learners (authors' code and FL-bench: 3); 1 is FedAvg."

    def setup(self, fed: Federation) -> State:
        starts = IFCA(models=self.learners).setup(fed).server.models
        uniform = starts["head.weight"].new_full((fed.size, self.learners), 1 / self.learners)
        models = Tree((str(m), single(starts, m)) for m in range(self.learners))
        return State(server={"models": models}, clients={"pi": uniform})

    def responsibilities(self, batch: Batch, at: LossContext) -> Tensor:
        """Shares q [B, M] of the received models in the images of a batch; float64."""
        model = at.model.evaluating()
        losses = [image_losses(model(w, batch.x).double(), batch.y) for w in at.server.models.values()]
        q: Tensor = (at.client.pi.double().log() - torch.stack(losses, dim=1)).softmax(dim=1)
        return q

    @counts_filled
    def summed_responsibilities(self, theta: Tree, batch: Batch, at: LossContext) -> dict[str, Tensor]:
        return {"q": batch.only_counted(self.responsibilities(batch, at)).sum(dim=0)}

    def loss(self, theta: Tree, batch: Batch, at: LossContext) -> Tensor:
        if self.learners == 1:
            return super().loss(theta, batch, at)
        losses = image_losses(at.model(theta, batch.x), batch.y)
        q = self.responsibilities(batch, at).index_select(1, at.server.learner).squeeze(1)
        return (q.type_as(losses) * losses).sum() / max(1, len(batch.y))

    def round(self, fed: Federation, s: State) -> State:
        start = fed.broadcast(s.server.models)
        sums: Tensor = fed.measure(Tree(), self.summed_responsibilities).q
        pi = (sums / fed.counts.sum(dim=1, keepdim=True)).type_as(s.clients.pi)
        learners = torch.arange(self.learners, device=fed.ids.device).split(1)
        theta = Tree(
            (m, fed.train(w, self.loss, server={"learner": learner}).theta)
            for (m, w), learner in zip(start.items(), learners, strict=True)
        )
        models = fed.average(fed.upload(theta))
        return s.update(server={"models": models}, clients={"pi": pi}, trained={"models": theta, "pi": pi})

    def global_model(self, s: State) -> Tree | None:
        return s.server.models["0"] if self.learners == 1 else None

    def received(self, fed: Federation, s: State) -> Tree:
        return Tree(models=fed.replicate(s.server.models), pi=s.clients.pi)

    def predict(self, theta: Tree, x: Tensor, at: LossContext) -> Tensor:
        """Logarithms of the mixed probabilities."""
        logarithms = [at.model(w, x).log_softmax(dim=1) for w in theta.models.values()]
        scores: Tensor = (torch.stack(logarithms, dim=2) + theta.pi.log()).logsumexp(dim=2)
        return scores


def image_losses(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross entropy of each image [B]."""
    return cross_entropy(logits, labels, reduction="none")
