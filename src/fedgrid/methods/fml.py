"""FML: each client trains a private model and a copy of the server's, the meme; both imitate each other.

Shen, Zhang, Jia, Zhang, Huang, Zhou, Kuang, Wu & Wu, Federated Mutual Learning, arXiv 2006.16765, 2020. On a batch the
private model descends α·CE + (1 − α)·KL(meme ‖ private), the meme descends β·CE + (1 − β)·KL(private ‖ meme), and the
server averages the memes. KL(p ‖ q) is the mean over images of Σ_c p_c·log(p_c/q_c).

    w      s.server.theta
    meme   both.meme, lives within a round
    v_i    both.personal, s.clients.personal, never sent

Readings

* Equations as in the authors' code; the paper's text was not at hand. Both losses of a batch come from the models
  before its step, in training mode, and the model that is imitated counts as a constant.
* Memes are weighted by images, as in FedAvg; the authors' code averages them equally.
* Steps are plain SGD whatever the study's optimiser; the authors' code has momentum and a weight decay of 5e-4.
* Where both models agree, only the share α or β of the gradient is left: a client alone takes steps of α·η.
* PFLlib averages KL over classes too and lets gradients flow through the imitated model. With its α = 1 and β = 0 the
  meme never sees a label and the private model is Local.
"""

import torch
from torch.nn.functional import kl_div

from fedgrid.methods import Batch, Federation, Identity, LossContext, State, Tensor, Tree, cross_entropy, hp
from fedgrid.methods.fedavg import FedAvg


class FML(FedAvg):
    source = "Shen et al., 2020"
    family = "personal model beside the global one"
    cite = "shen2020fml"
    score = "trained"
    work = "2E"
    plain_rates = ("lr",)
    identities = [
        Identity("local", {"alpha": 1.0}, exact=False),
        Identity("fedavg", {"beta": 1.0}, models="global", exact=False),
        Identity("local", {"lr": 0.1, "alpha": 0.5}, clients=1, training={"lr": 0.05}, exact=False),
    ]

    alpha: float = hp(0.9, low=0, high=1)
    """Share α of cross entropy in the private model's loss (authors' code: 0.5, with which it imitates a meme
    that has hardly learned); 1: it is Local, as with PFLlib's default."""
    beta: float = hp(0.5, low=0, high=1)
    "Share β of cross entropy in the meme's loss (authors' code); 1: it is FedAvg. PFLlib's default is 0."
    lr: float | None = hp(None, above=0)
    "Learning rate η of both models; none means the study's (authors' code: 0.01)."

    def setup(self, fed: Federation) -> State:
        s = super().setup(fed)
        return s.update(clients={"personal": fed.replicate(s.server.theta)})

    def mutual(self, theta: Tree, other: Tree, share: float, batch: Batch, at: LossContext) -> Tensor:
        """share·CE + (1 − share)·KL(other ‖ θ)."""
        if share == 1:
            return self.loss(theta, batch, at)
        logits, target = at.model(theta, batch.x), at.model(other, batch.x)
        log_p, log_q = target.log_softmax(dim=1), logits.log_softmax(dim=1)
        imitation = kl_div(log_q, log_p, reduction="batchmean", log_target=True)
        return share * cross_entropy(logits, batch.y) + (1 - share) * imitation

    def step(self, both: Tree, batch: Batch, at: LossContext) -> tuple[dict[str, Tree], Tensor]:
        """One step of both models, each towards the labels and towards the other as it was."""
        of_meme = torch.func.grad(self.mutual)(both.meme, both.personal, self.beta, batch, at)
        of_personal, value = torch.func.grad_and_value(self.mutual)(both.personal, both.meme, self.alpha, batch, at)
        lr = at.server.lr
        return {"meme": both.meme - lr * of_meme, "personal": both.personal - lr * of_personal}, value

    def round(self, fed: Federation, s: State) -> State:
        start = {"meme": fed.broadcast(s.server.theta), "personal": s.clients.personal}
        server = {"lr": self.lr or fed.optimizer.lr}
        both = fed.iterate(start, self.step, server=server, model=lambda both, at: both.personal).theta
        average = fed.average(fed.upload(both.meme))
        return s.update(server={"theta": average}, clients={"personal": both.personal}, trained=both.personal)

    def received(self, fed: Federation, s: State) -> Tree:
        personal: Tree = s.clients.personal
        return personal
