"""FedProto: only class means travel; a client's representations are pulled to the global mean of their class.

Tan, Long, Liu, Zhou, Lu, Jiang & Zhang, FedProto: Federated Prototype Learning across Heterogeneous Clients, AAAI 2022,
Algorithm 1: cross entropy + λ·MSE(z, G_y), where G_c is the mean of the clients' class means (Eq. 6).

    θ_i     s.clients.theta, never overwritten
    G_c     s.server.prototypes (rows with s.server.known)

Readings

* The pull is the mean over batch and features, as in all implementations; the paper's norm is k times that.
* Clients' means count equally (authors' code); the extra factor 1/|N_j| of the printed equation is a misprint, since
  the appendix asks for weights that sum to 1. They are taken after local training, in a pass of their own.
* A model predicts by its nearest known prototype, and by its head while there is none: before local training by the
  prototypes just received, after it by those that it was trained with.
* FedCCL and RethinkFL also average the parameters (`average`) and score the averaged model's head (`readout: head`).
"""

import torch
from torch.nn.functional import mse_loss

from fedgrid.methods import Batch, Federation, Identity, LossContext, Method, State, Tensor, Tree, cross_entropy, hp
from fedgrid.methods.common.prototypes import collected, local_means, unknown


class FedProto(Method):
    source = "Tan et al., AAAI 2022"
    family = "own models: shared class means"
    cite = "tan2022fedproto"
    score = "received"
    work = "E"
    shares = "class means"
    down = "C·k"
    up = "|C_i|·k"
    carries = "mean features of each class over the clients' training images"
    identities = [
        Identity("local", {"lam": 0.0}),
        Identity("fedavg", {"lam": 0.0, "average": True}),
        Identity("local", clients=1, settings={"lam": 0.0, "average": True}),
    ]

    lam: float = hp(1.0, low=0)
    "Weight λ of the pull (paper: 1, on CIFAR-10 0.1)."
    weighting: str = hp("equal", choices=("equal", "count"))
    "How clients' class means are averaged: equally or by their images."
    readout: str = hp("prototype", choices=("prototype", "head"))
    "What a client predicts by."
    average: bool = hp(False)
    "On: parameters are averaged too and every client goes on from the average."

    def setup(self, fed: Federation) -> State:
        theta = fed.initial()
        shared = {"theta": theta} if self.average else {}
        return State(server=unknown(theta) | shared, clients={"theta": fed.replicate(theta)})

    def loss(self, theta: Tree, batch: Batch, at: LossContext) -> Tensor:
        z = at.model.features(theta, batch.x)
        known = at.server.known[batch.y].unsqueeze(1)
        target = torch.where(known, at.server.prototypes[batch.y], z.detach())  # no pull where nothing is known
        pull = mse_loss(z, target, reduction="sum") / max(1, z.numel())
        return cross_entropy(at.model.head(theta, z), batch.y) + self.lam * pull

    def round(self, fed: Federation, s: State) -> State:
        fed.broadcast(s.server.prototypes, s.server.known)
        start = fed.broadcast(s.server.theta) if self.average else s.clients.theta
        theta = fed.train(start, self.loss).theta
        counts = (fed.counts > 0).double() if self.weighting == "equal" else fed.counts
        server = collected(fed, s, local_means(fed, theta), counts)
        if self.average:
            server["theta"] = fed.average(fed.upload(theta))
        return s.update(server=server, clients={"theta": theta}, trained=theta)

    def global_model(self, s: State) -> Tree | None:
        return s.server.theta if self.average else None

    def received(self, fed: Federation, s: State) -> Tree:
        return fed.replicate(s.server.theta) if self.average else s.clients.theta

    def predict(self, theta: Tree, x: Tensor, at: LossContext) -> Tensor:
        z = at.model.features(theta, x)
        by_head = at.model.head(theta, z)
        if self.readout == "head":
            return by_head
        exact = "donot_use_mm_for_euclid_dist"
        squared, known = torch.cdist(z, at.server.prototypes, compute_mode=exact).square(), at.server.known
        # an unknown class is farther than any known one, but not so far that one test image decides the mean loss
        farthest = torch.where(known, squared, 0.0).amax(dim=1, keepdim=True)
        return torch.where(known.any(), -torch.where(known, squared, farthest + 1), by_head)
