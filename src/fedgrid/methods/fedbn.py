"""FedBN: FedAvg, but batch-norm layers, weights and statistics alike, stay with the client.

Li, Jiang, Zhang, Kamp & Dou, FedBN: Federated Learning on Non-IID Features via Local Batch Normalization, ICLR 2021,
Algorithm 1. θ_i = (θ_BN,i, ω_i): ω ← Σ p_i ω_i, and θ_BN,i stays.

    ω         s.server.theta, every entry outside a batch-norm layer
    θ_BN,i    in s.clients.theta, which holds all of θ_i

Readings

* A layer is batch norm if θ holds running statistics beside its weight. PFLlib and FL-bench look for "bn" in names, so
  that of torchvision's ResNets the shortcuts' layers are shared, and all layers of its MobileNet.
* A model has batch norm with its setting `norm: batch`; without, this is FedAvg. Group norm has no statistics and is
  shared. LeNet-5 and the model of images and texts have no norm at all.
* The scored model joins the new ω and the client's own layers, whose statistics were measured under its own ω_i. A
  client that was never drawn has those of an untrained layer, so that its score says nothing.
* Clients are weighted by their number of images; the authors' have equally many. Their clients differ in the look of
  their images, not in their labels.
* The algorithm is written from memory of the paper and from the authors' code, which shares every key without "bn".
"""

from fedgrid.methods import Identity, Tree, hp
from fedgrid.methods.fedper import FedPer
from fedgrid.models.common.norm import is_statistic

NORM = {"norm": "batch"}


def without_batch_norm(theta: Tree) -> Tree:
    """The entries of θ (or of a stack) outside batch-norm layers, which are those that have statistics."""
    layers = {name.rpartition(".")[0] for name in theta if is_statistic(name)}
    return Tree((name, t) for name, t in theta.items() if name.rpartition(".")[0] not in layers)


class FedBN(FedPer):
    source = "Li et al., ICLR 2021"
    family = "split model: shared layers, own batch norm"
    cite = "li2021fedbn"
    shares = "θ but batch norm"
    down = up = "|θ| - M"
    identities = [
        Identity("fedavg"),
        Identity("fedavg", {"local_part": "nothing"}, training=NORM),
        Identity("local", {"local_part": "all"}, training=NORM),
        Identity("local", clients=1, training=NORM),
    ]

    local_part: str = hp("norm", choices=("norm", "nothing", "all"))
    "The part of θ that stays with the client."

    def shared(self, theta: Tree) -> Tree:
        return {"norm": without_batch_norm(theta), "nothing": theta, "all": Tree()}[self.local_part]
