"""Ditto: FedAvg runs undisturbed; beside it every client trains a personal model that is pulled towards the server's.

Li, Hu, Beirami & Smith, Ditto: Fair and Robust Federated Learning Through Personalization, ICML 2021, Algorithm 1:
v_i minimises F_i(v) + (λ/2)‖v − w^t‖². Both passes start from the w^t that was received and see the same batches. The
authors' code averages uniformly; here as in FedAvg by images, so that the global part is FedAvg itself.

    v_i   s.clients.personal
    w^t   at.server.theta
"""

from fedgrid.methods import Batch, Federation, Identity, LossContext, State, Tensor, Tree, hp, squared_distance
from fedgrid.methods.fedavg import FedAvg


class Ditto(FedAvg):
    source = "Li et al., ICML 2021"
    family = "personal model beside the global one"
    cite = "li2021ditto"
    score = "trained"
    work = "E + personal_epochs"
    identities = [Identity("local", {"lam": 0.0}), Identity("fedavg", models="global")]

    lam: float = hp(1.0, low=0)
    "Weight λ of the pull: 0 is Local, a large one the global model."
    personal_epochs: int | None = hp(None, low=0)
    "Epochs of the personal pass in a round, P; none means the study's local epochs."

    def setup(self, fed: Federation) -> State:
        s = super().setup(fed)
        return s.update(clients={"personal": fed.replicate(s.server.theta)})

    def pull(self, theta: Tree, batch: Batch, at: LossContext) -> Tensor:
        """Local loss + λ/2·‖v − w‖², which pulls v towards the global model w."""
        return self.loss(theta, batch, at) + self.lam / 2 * squared_distance(theta, at.server.theta)

    def round(self, fed: Federation, s: State) -> State:
        v = fed.train(s.clients.personal, self.pull, epochs=self.personal_epochs)
        return super().round(fed, s).update(clients={"personal": v.theta}, trained=v.theta)

    def received(self, fed: Federation, s: State) -> Tree:
        personal: Tree = s.clients.personal
        return personal
