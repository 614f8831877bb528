"""FPL: FedAvg with a contrast against several cluster prototypes a class, and a pull to their plain mean.

Huang, Ye, Shi, Li & Du, Rethinking Federated Learning with Domain Shift: A Prototype View, CVPR 2023: the server
clusters the clients' class means with FINCH, so that a frequent domain does not dominate; the loss is cross entropy +
contrast with the clusters' means G_c^q + MSE to the unbiased prototype Ū_c = (1/Q_c) Σ_q G_c^q.

    w        s.server.theta
    G_c^q    s.server.vectors (where s.server.held)

Readings

* FINCH's last partition is taken without early exit. As in the authors' code, a final single cluster is discarded: up
  to three clients give one cluster.
* Class means are measured after training, in a separate pass, not from features seen during the last epoch.
* Both losses are means over the samples whose class has a prototype. The authors' code divides by all samples, and
  fails where there is none or where only one client holds a class.
* The pull is the mean over the features.
* Clients compute Ū from the clusters, so it is not sent.
"""

import torch

from fedgrid.methods import Batch, Federation, Identity, LossContext, State, Tensor, Tree, cross_entropy, hp
from fedgrid.methods.common.banks import bank_contrast, centres, clustered, empty, listed, padded, renewed, vectors_of
from fedgrid.methods.common.prototypes import local_means
from fedgrid.methods.fedavg import FedAvg


class FPL(FedAvg):
    source = "Huang et al., CVPR 2023"
    family = "one global model, clustered class means"
    cite = "huang2023fpl"
    shares = "θ, class means up, their clusters down"
    down = "|θ| + M·k"
    up = "|θ| + |C_i|·k"
    identities = [
        Identity("fedavg", {"contrast": 0.0, "pull": 0.0}),
        Identity("fedavg", training={"rounds": 1}),
    ]

    contrast: float = hp(0.3, low=0)
    "Weight of the contrast (authors' code: 1, with which plain SGD may not learn at all)."
    pull: float = hp(1.0, low=0)
    "Weight of the pull (authors' code)."
    temperature: float = hp(0.02, above=0)
    "Temperature τ of the contrast (paper; FedCCL runs it at 0.07)."

    def setup(self, fed: Federation) -> State:
        s = super().setup(fed)
        return s.update(server=empty(s.server.theta))

    def loss(self, theta: Tree, batch: Batch, at: LossContext) -> Tensor:
        z, (vectors, held) = at.model.features(theta, batch.x), (at.server.vectors, at.server.held)
        contrast = bank_contrast(z, batch.y, vectors, held, self.temperature)
        unbiased, known = centres(vectors, held)
        gap = torch.where(known[batch.y].unsqueeze(1), z - unbiased[batch.y], 0.0)
        pull = gap.square().mean(dim=1).sum() / known[batch.y].sum().clamp(min=1)
        return cross_entropy(at.model.head(theta, z), batch.y) + self.contrast * contrast + self.pull * pull

    def round(self, fed: Federation, s: State) -> State:
        if not self.contrast and not self.pull:
            return super().round(fed, s)
        fed.broadcast(s.server.vectors, s.server.held)
        state = super().round(fed, s)
        assert state.trained is not None
        present = fed.counts > 0
        means = fed.upload(local_means(fed, state.trained), present)
        fresh = clustered(listed(means.transpose(0, 1), present.T))
        vectors, held = padded(renewed(listed(s.server.vectors, s.server.held), fresh))
        return state.update(server={"vectors": vectors, "held": held})

    def clusters(self, s: State) -> dict[str, Tensor]:
        """The means G_c^q, which are numbered within their class."""
        bank = listed(s.server.vectors, s.server.held)
        return vectors_of(bank, lambda means: torch.arange(len(means), device=means.device))
