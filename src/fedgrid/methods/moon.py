"""MOON: FedAvg, with features that are drawn to the global model's and pushed off the client's previous model's.

Li, He & Song, Model-Contrastive Federated Learning, CVPR 2021, Eqs. 3–5: cross entropy + μ·ℓ_con with
ℓ_con = −log[e^{s_g/τ} / (e^{s_g/τ} + e^{s_p/τ})], where s_g and s_p are the cosines of a representation with that of
the server's model and with that of the model which the client trained last.

    w^t        at.server.theta
    θ_i^prev   at.client.previous, s.clients.previous: of the last round in which the client took part

Readings

* The representation is what the head sees; the authors' projection head is the model's setting `projection`.
* A client that has not trained yet has θ⁰ for its previous model. In the first round that is the server's model too,
  and the contrast is log 2 without gradient; a client first drawn later is pushed off θ⁰.
* Both models compared with are in evaluation mode (no dropout, own batch-norm statistics), which PFLlib's are not.
"""

from fedgrid.methods import Batch, Federation, Identity, LossContext, State, Tensor, Tree, cross_entropy, hp
from fedgrid.methods.common.model_contrast import model_contrast
from fedgrid.methods.fedavg import FedAvg


class Moon(FedAvg):
    title = "MOON"
    source = "Li et al., CVPR 2021"
    cite = "li2021moon"
    identities = [
        Identity("fedavg", {"mu": 0.0}),
        Identity("fedavg", {"mu": 5.0}, training={"rounds": 1}, exact=False),
    ]

    mu: float = hp(0.1, low=0)
    """Weight μ of the contrast; the authors tune it in {0.1, 1, 5, 10}, and a larger one holds a young model back.
    PFLlib's default of 0 would be FedAvg."""
    temperature: float = hp(0.5, above=0)
    "Temperature τ of the contrast (authors' code)."

    def setup(self, fed: Federation) -> State:
        s = super().setup(fed)
        return s.update(clients={"previous": fed.replicate(s.server.theta)})

    def loss(self, theta: Tree, batch: Batch, at: LossContext) -> Tensor:
        z = at.model.features(theta, batch.x)
        contrast = model_contrast(z, batch.x, at, self.temperature)
        return cross_entropy(at.model.head(theta, z), batch.y) + self.mu * contrast

    def round(self, fed: Federation, s: State) -> State:
        state = super().round(fed, s)
        return state.update(clients={"previous": state.trained})
