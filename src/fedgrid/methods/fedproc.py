"""FedProc: FedAvg whose loss moves over the rounds from a contrast with global class centres to cross entropy.

Mu, Shen, Cheng, Geng, Fu, Zhang & Zhang, FedProc: Prototypical Contrastive Federated Learning on Non-IID Data, Future
Generation Computer Systems 2023: α_t·CE + (1 − α_t)·L_gpc with L_gpc = log Σ_c e^{cos(z, G_c)/τ} − cos(z, G_y)/τ.

    w      s.server.theta
    G_c    s.server.prototypes (rows with s.server.known), weighted by images
    α_t    at.server.share: min(t / T_α, 1), and 1 in the first round, when there is no centre yet (authors' code)

Readings

* T_α is 100 in the authors' code, which runs 100 rounds. Here it is the study's number of rounds, so that the schedule
  ends with cross entropy.
* Centres are means of z/‖z‖, as in the authors' model, whose output is normalised. The projection is the model's
  setting `projection`; the head, unlike ours, sees z/‖z‖.
* A class that no client has held so far is no negative, where the authors' code has a logit of 0. A sample of such a
  class has no contrast.
"""

from fedgrid.methods import Batch, Federation, Identity, LossContext, State, Tensor, Tree, cross_entropy, hp
from fedgrid.methods.common.banks import unit_means
from fedgrid.methods.common.prototypes import collected, local_means, mean_contrast, unknown
from fedgrid.methods.fedavg import FedAvg


class FedProc(FedAvg):
    source = "Mu et al., FGCS 2023"
    family = "one global model, shared class means"
    cite = "mu2023fedproc"
    shares = "θ and class means"
    down = "|θ| + C·k"
    up = "|θ| + |C_i|·k"
    identities = [
        Identity("fedavg", {"until": 1}),
        Identity("fedavg", training={"rounds": 1}),
    ]

    temperature: float = hp(0.1, above=0)
    "Temperature τ of the contrast (paper and authors' code have none, which is 1; FedCCL perhaps 0.07)."
    until: int | None = hp(None, low=1)
    "Round T_α from which on only cross entropy is left; none means the study's number of rounds."
    unit: bool = hp(True)
    "Off: centres are means of z itself (RethinkFL)."

    def setup(self, fed: Federation) -> State:
        s = super().setup(fed)
        return s.update(server=unknown(s.server.theta))

    def share(self, fed: Federation) -> float:
        """α_t."""
        return min(fed.round / (self.until or fed.training.rounds), 1.0) if fed.round else 1.0

    def loss(self, theta: Tree, batch: Batch, at: LossContext) -> Tensor:
        z = at.model.features(theta, batch.x)
        share: float = at.server.share
        distance = mean_contrast(z, batch.y, at.server.prototypes, at.server.known, self.temperature)
        return share * cross_entropy(at.model.head(theta, z), batch.y) + (1 - share) * distance

    def round(self, fed: Federation, s: State) -> State:
        start = fed.broadcast(s.server.theta)
        fed.broadcast(s.server.prototypes, s.server.known)
        theta = fed.train(start, self.loss, server={"share": self.share(fed)}).theta
        server = collected(fed, s, (unit_means if self.unit else local_means)(fed, theta))
        return s.update(server=server | {"theta": fed.average(fed.upload(theta))}, trained=theta)
