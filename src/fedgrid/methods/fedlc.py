"""FedLC: FedAvg with margins in the local loss, wide for a client's rare classes, so that it unlearns them less.

Zhang, Li, Li, Xu, Wu, Ding & Wu, Federated Learning with Label Distribution Skew via Logits Calibration, ICML 2022:
cross entropy of the logits z_c − τ·n_{i,c}^{−1/4}, where n_{i,c} are the client's own class counts.

    n_{i,c}              fed.counts
    −τ·n_{i,c}^{−1/4}    at.client.offset

Readings

* Written from memory of the paper and checked against public implementations; no code by the authors was found. As
  printed, the sum in the denominator of the loss lacks the label's own term. Such a loss has no lower bound, and
  FL-bench reports that it collapses. Here, as in all public implementations, the sum is over all classes.
* A class that a client lacks counts as one image, with the offset −τ, as in some public implementations. In the limit
  of n → 0 the offset is −∞ (`absent` = 0; here −10⁹, FL-bench −100·τ, fluke −∞): the class leaves the softmax, a client
  with a single class has loss 0 and, without weight decay, returns what it received. Then nobody's images speak against
  a class that their client lacks. On a tenth of MNIST with few classes a client, that costs 22 points beside FedAvg,
  which contradicts what the paper claims of label skew; with one image it is level (benchmarks/results/methods).
* Predictions use plain logits.
* PFLlib adds up the counts of all clients and gives everyone the same margins, which is another method.
"""

import torch

from fedgrid.methods import Batch, Federation, Identity, LossContext, State, Tensor, Tree, cross_entropy, hp
from fedgrid.methods.common.prototypes import FAR
from fedgrid.methods.fedavg import FedAvg


class FedLC(FedAvg):
    source = "Zhang et al., ICML 2022"
    cite = "zhang2022fedlc"
    identities = [Identity("fedavg", {"tau": 0.0})]

    tau: float = hp(1.0, low=0)
    "Factor τ of the margins (paper, as remembered, PFLlib and FL-bench)."
    absent: float = hp(1.0, low=0)
    "Number of images that a class counts as which the client lacks; 0: the limit, the class leaves the softmax."

    def loss(self, theta: Tree, batch: Batch, at: LossContext) -> Tensor:
        return cross_entropy(at.model(theta, batch.x) + at.client.offset, batch.y)

    def offset(self, fed: Federation) -> Tensor:
        """−τ·n_ic^(−1/4) [n, C]."""
        counts = fed.counts.masked_fill(fed.counts == 0, self.absent)
        return (-self.tau * counts.pow(-0.25)).clamp(min=FAR) if self.tau else torch.zeros_like(counts)

    def round(self, fed: Federation, s: State) -> State:
        start = fed.broadcast(s.server.theta)
        offset = self.offset(fed).type_as(start["head.bias"])
        local = fed.train(start, self.loss, clients={"offset": offset})
        return s.update(server={"theta": fed.average(fed.upload(local.theta))}, trained=local.theta)
