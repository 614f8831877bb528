"""FedRep: fit the head on the frozen extractor, then the extractor on the frozen head; average the extractors alone.

Collins, Hassani, Mokhtari & Shakkottai, Exploiting Shared Representations for Personalized Federated Learning, ICML
2021, Algorithm 1.

    φ     s.server.theta
    π_i   in s.clients.theta, which holds all of θ_i

Readings

* The paper trains the head for 10 epochs and the extractor for 1, PFLlib both for 1, pFedGraph the extractor five times
  as long. Here both take the study's local epochs by default.
* The frozen part does not move. The authors' single optimiser with momentum and weight decay lets it drift.
* A score *before* local training uses the new extractor with the head fitted to the previous one (PFLlib and the
  authors). A score *after* it is `trained`.
"""

from fedgrid.methods import Federation, Tree, hp
from fedgrid.methods.fedper import FedPer


class FedRep(FedPer):
    source = "Collins et al., ICML 2021"
    cite = "collins2021fedrep"
    work = "head_epochs + body_epochs"
    identities = []

    head_epochs: int | None = hp(None, low=0)
    "Epochs of the head, first in a round (paper: 10); none means the study's local epochs."
    body_epochs: int | None = hp(None, low=0)
    "Epochs of the extractor, after it (paper: 1); none means the study's local epochs."
    head_lr: float | None = hp(None, above=0)
    "Learning rate of the head; none means the study's."

    def trained(self, fed: Federation, theta: Tree) -> Tree:
        head = fed.optimizer if self.head_lr is None else fed.optimizer.but(lr=self.head_lr)
        fitted = fed.train(theta, self.loss, epochs=self.head_epochs, optimizer=head, part="head", stream="head")
        return fed.train(fitted.theta, self.loss, epochs=self.body_epochs, part="extractor").theta
