"""kNN-Per: FedAvg, and in prediction a mixture with the nearest neighbours among a client's own training features.

Marfoq, Neglia, Kameni & Vidal, Personalized Federated Learning through Local Memorization, ICML 2022: the probabilities
are λ_i·p_kNN + (1 − λ_i)·softmax(g(z)), where p_kNN(c) = Σ_m s_m·1[y_m = c] / Σ_m s_m over the k nearest stored
features and s_m = exp(−‖z − z_m‖²/(width·σ)).

    {(z_m, y_m)}    theta["memory"] [m, k], theta["labels"] [m], of which theta["stored"] count
    λ_i             theta["lam"]

Readings

* The store is filled at every evaluation under the global model, in evaluation mode and without augmentation. A limited
  store keeps a random part of the images.
* λ_i, unless set, is the value of 0, 0.1, …, 1 with the most hits on the client's validation images (the partition's
  `validation`), the smallest among equals, and 0.5 without such images. Scores on these images then flatter the method.
* The authors' code mixes raw logits instead of probabilities by accident (`mixing`) and chooses λ on the test images.
* pFedGraph's code takes the softmax of Σ exp(−‖z − z_m‖²) as p_kNN (`votes`), which is nearly uniform for distant
  features.
* The smallest distance is subtracted from all, which cancels.
* `trained` is FedAvg's local model.
"""

import torch
from torch.nn.utils.rnn import pad_sequence

from fedgrid.methods import Batch, Federation, Identity, LossContext, State, Tensor, Tree, hp
from fedgrid.methods.common.orders import orders
from fedgrid.methods.fedavg import FedAvg

GRID = tuple(tenth / 10 for tenth in range(11))
UNASKED = 0.5
"λ of a client without validation images (in the code of FL-bench and of pFedGraph: of all)."


class KNNPer(FedAvg):
    title = "kNN-Per"
    source = "Marfoq et al., ICML 2022"
    family = "global model, with a local memory"
    cite = "marfoq2022knnper"
    score = "adapted"
    carries = "features and labels of training images"
    identities = [Identity("fedavg", models="global")]

    neighbours: int = hp(10, low=1)
    "Number k of neighbours (pFedGraph's code; the authors' sweep 1 to 10)."
    lam: float | None = hp(None, low=0, high=1)
    "Share λ of the neighbours; none: chosen on each client's validation images, 0.5 without any."
    scale: float = hp(1.0, above=0)
    "Kernel scale σ (authors' code)."
    capacity: int | None = hp(None, low=1)
    "Largest number of stored images of a client; none: all."
    mixing: str = hp("probabilities", choices=("probabilities", "logits"))
    "What of the model is mixed with p_kNN."
    votes: str = hp("share", choices=("share", "softmax"))
    "p_kNN as shares of kernel weights (authors' code) or as a softmax of their sums (pFedGraph's code)."

    def adapted(self, fed: Federation, s: State) -> Tree:
        """The global model with each client's store and λ."""
        theta = fed.replicate(s.server.theta) | self.store(fed, s)
        return theta | {"lam": self.lambdas(fed, theta).type_as(theta["head.weight"])}

    def lambdas(self, fed: Federation, theta: Tree) -> Tensor:
        """λ [n]."""
        held_out = fed.simulation.data.validation
        fixed = torch.full_like(fed.weights, UNASKED if self.lam is None else self.lam)
        if self.lam is not None or held_out is None:
            return fixed
        hits = fed.test(theta, self.validated, images="validation").hits
        held = fed.ids.new_tensor([len(held_out[i]) for i in fed.numbers]) > 0
        return torch.where(held, fixed.new_tensor(GRID)[hits.argmax(dim=1)], fixed)

    def store(self, fed: Federation, s: State) -> dict[str, Tensor]:
        """Features and labels of the clients' training images in random order, padded to the largest store."""
        pairs = fed.representations(fed.replicate(s.server.theta))
        drawn = orders(fed, {f"memory {i}": len(y) for i, (_, y) in zip(fed.numbers, pairs, strict=True)})
        stored = [tuple(t[rows[: self.capacity]] for t in pair) for pair, rows in zip(pairs, drawn, strict=True)]
        memory, labels = (pad_sequence(list(part), batch_first=True) for part in zip(*stored, strict=True))
        return {"memory": memory, "labels": labels, "stored": fed.ids.new_tensor([len(y) for _, y in stored])}

    def neighbourly(self, theta: Tree, z: Tensor, classes: int) -> Tensor:
        """p_kNN [B, C] of features z; zero without neighbours."""
        far = torch.cdist(z, theta["memory"]).square()
        far = torch.where(torch.arange(far.shape[1], device=z.device) < theta["stored"], far, torch.inf)
        near, which = far.topk(min(self.neighbours, far.shape[1]), largest=False)
        there = which < theta["stored"]  # gradients are finite where nothing is stored, too
        near = torch.where(there, near, 0.0)
        kernel = -near if self.votes == "softmax" else (near[:, :1] - near) / (z.shape[1] * self.scale)
        weight = torch.where(there, kernel.exp(), 0.0)
        of_class = theta["labels"][which].unsqueeze(-1) == torch.arange(classes, device=z.device)
        votes: Tensor = (weight.unsqueeze(-1) * of_class).sum(dim=1)
        return votes.softmax(dim=1) if self.votes == "softmax" else votes / weight.sum(dim=1, keepdim=True).clamp(min=1)

    def mixed(self, logits: Tensor, votes: Tensor, lam: Tensor) -> Tensor:
        """Scores of λ·p_kNN + (1 − λ)·softmax."""
        if self.mixing == "logits":
            return lam * votes + (1 - lam) * logits
        return (lam * votes + (1 - lam) * logits.softmax(dim=-1)).clamp(min=1e-30).log()

    def hits(self, logits: Tensor, votes: Tensor, labels: Tensor) -> Tensor:
        """How many labels [B] each λ of the grid finds, float64 [11]."""
        scores = self.mixed(logits, votes, logits.new_tensor(GRID).reshape(-1, 1, 1))
        return (scores.argmax(dim=2) == labels).double().sum(dim=1)

    def validated(self, theta: Tree, batch: Batch, at: LossContext) -> dict[str, Tensor]:
        z = at.model.features(theta, batch.x)
        return {"hits": self.hits(at.model.head(theta, z), self.neighbourly(theta, z, at.model.classes), batch.y)}

    def predict(self, theta: Tree, x: Tensor, at: LossContext) -> Tensor:
        z = at.model.features(theta, x)
        logits = at.model.head(theta, z)
        if "memory" not in theta:  # a model as it left local training
            return logits
        lam = torch.where(theta["stored"] > 0, theta["lam"], 0.0)
        return self.mixed(logits, self.neighbourly(theta, z, at.model.classes), lam)
