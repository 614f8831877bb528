"""FedGH: clients keep their own extractors, and the server trains one head for all on their class means.

Yi, Wang, Liu, Shi & Yu, FedGH: Heterogeneous Federated Learning with Generalized Global Header, ACM MM 2023,
Algorithm 1. Clients train extractor and received head together; the server then trains its head on the pairs
(class mean, class) of all participants.

    φ_i    in s.clients.theta
    π_G    s.server.head; the head that a client trained is dropped

Readings. The server's steps are on its head; in the authors' scripts they are on another network and the head stays at
its random start. A class mean counts once, whatever the number of its images. Means are exact, not means of batch
means. Ten passes at rate 0.1 move the head as far as PFLlib's one pass at rate 1, at which large features diverge.
"""

from fedgrid.components import hp
from fedgrid.engine.federation import Federation
from fedgrid.engine.method import Method, State
from fedgrid.methods.common.heads import fit
from fedgrid.methods.common.prototypes import local_means
from fedgrid.models.base import part
from fedgrid.tree import Tree


class FedGH(Method):
    source = "Yi et al., ACM MM 2023"
    family = "own extractors, head trained by the server"
    cite = "yi2023fedgh"
    shares = "class means and π"
    down = "|π|"
    up = "|C_i|·k"

    server_lr: float = hp(0.1, low=0)
    "Learning rate η_s of the server (PFLlib: 1)."
    server_passes: int = hp(10, low=0)
    "Passes of the server over the class means in a round (paper and PFLlib: 1)."
    server_batch: int = hp(10, low=1)
    "Class means in a batch of the server (PFLlib)."

    def setup(self, fed: Federation) -> State:
        theta = fed.initial()
        return State().update(server={"head": part(theta, "head")}, clients={"theta": fed.replicate(theta)})

    def round(self, fed: Federation, s: State) -> State:
        local = fed.train(s.clients.theta | fed.broadcast(s.server.head), self.loss)
        present = fed.counts > 0
        means = fed.upload(local_means(fed, local.theta), present)
        head = s.server.head
        for number in range(self.server_passes):
            order = fed.random(f"server {number}").permutation(int(present.sum()))
            pairs = means[present][order], present.nonzero()[order, 1]
            head = fit(fed.model, head, *pairs, lr=self.server_lr, size=self.server_batch)
        return s.update(server={"head": head}, clients={"theta": local.theta}, trained=local.theta)

    def personal(self, fed: Federation, s: State) -> Tree:
        return s.clients.theta | fed.replicate(s.server.head)
