"""kNN-Per: FedAvg, and at prediction a mixture with the nearest neighbours among a client's own training features.

Marfoq, Neglia, Kameni & Vidal, ICML 2022. The memory is filled by a pass of steps that train nothing; clients have
different numbers of images, so that stores are padded to the largest and `stored` says how many rows count.
"""

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from fedgrid.components import hp
from fedgrid.engine.federation import Federation
from fedgrid.engine.method import At, Batch, Identity, State
from fedgrid.methods.fedavg import FedAvg
from fedgrid.tree import Tree


class KNNPer(FedAvg):
    source = "Marfoq et al., ICML 2022"
    score = "personal"
    identities = (Identity("fedavg", models="global"),)

    lam: float = hp(0.5, low=0, high=1)
    "Share λ of the neighbours."
    neighbours: int = hp(10, low=1)
    "Number k of neighbours."
    scale: float = hp(1.0, above=0)
    "Kernel scale σ."

    def remember(self, theta: Tree, batch: Batch, at: At) -> tuple[Tree, Tensor]:
        z = at.model.features(theta, batch.x)
        rows = theta["stored"] + torch.arange(len(z), device=z.device)
        kept = {
            "memory": theta["memory"].index_copy(0, rows, z),
            "labels": theta["labels"].index_copy(0, rows, batch.y),
        }
        return theta | kept | {"stored": theta["stored"] + len(z)}, z.new_zeros(())

    def personal(self, fed: Federation, s: State) -> Tree:
        theta = fed.replicate(s.server.theta)
        longest = int(fed.counts.sum(dim=1).max())
        labels = fed.ids.new_zeros(fed.size, longest)
        store = {"memory": theta["head.weight"].new_zeros(fed.size, longest, fed.model.width), "labels": labels}
        start = theta | store | {"stored": torch.zeros_like(fed.ids)}
        return fed.iterate(start, self.remember, epochs=1, stream="memory").theta

    def predict(self, theta: Tree, x: Tensor, at: At) -> Tensor:
        z = at.model.features(theta, x)
        own = at.model.head(theta, z).log_softmax(dim=1)
        if "memory" not in theta:  # the model as it left local training
            return own
        width, room = theta["memory"].shape[1], torch.arange(len(theta["memory"]), device=z.device)
        far = torch.cdist(z, theta["memory"]).square() / (width * self.scale)
        far = torch.where(room < theta["stored"], far, torch.inf)
        near, place = far.topk(min(self.neighbours, len(room)), largest=False)
        weight = torch.exp(near[:, :1] - near).nan_to_num(0.0)
        votes = (weight.unsqueeze(-1) * one_hot(theta["labels"][place], own.shape[1])).sum(dim=1)
        votes = votes / votes.sum(dim=1, keepdim=True).clamp(min=1e-30)
        lam = torch.where(theta["stored"] > 0, self.lam, 0.0)
        return (lam * votes + (1 - lam) * own.exp()).clamp(min=1e-30).log()
