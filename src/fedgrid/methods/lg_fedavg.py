"""LG-FedAvg: every client keeps its own extractor, and the head on top is shared and averaged.

Liang, Liu, Ziyin, Allen, Auerbach, Brent, Salakhutdinov & Morency, Think Locally, Act Globally: Federated Learning with
Local and Global Representations, NeurIPS workshop 2019, arXiv 2001.01523. The mirror image of FedPer.

    π     s.server.theta
    φ_i   in s.clients.theta, which holds all of θ_i

Readings

* The shared part is the last linear layer (PFLlib). FL-bench shares the first layer, the opposite.
* Averages are weighted by images, where the authors' code averages uniformly.
* Clients start from the common θ⁰, not from a trained FedAvg model. Without a common start, averaging heads over
  private feature spaces would mean nothing.
"""

from fedgrid.methods import Tree, hp
from fedgrid.methods.fedper import FedPer


class LGFedAvg(FedPer):
    title = "LG-FedAvg"
    source = "Liang et al., 2020"
    family = "split model: shared head, own extractors"
    cite = "liang2020lgfedavg"
    shares = "π"
    down = up = "|π|"

    local_part: str = hp("extractor", choices=("extractor", "nothing", "all"), was="keep")
    "The part of θ that stays with the client."

    def shared(self, theta: Tree) -> Tree:
        return {"extractor": theta.part("head"), "nothing": theta, "all": Tree()}[self.local_part]
