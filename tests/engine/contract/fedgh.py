"""FedGH: clients keep their extractors; the server trains one head on their class means.

Yi et al., ACM MM 2023. The server's training runs inside the round, in full batches.
"""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from fedgrid.components import hp
from fedgrid.engine.federation import Federation
from fedgrid.engine.method import Method, State
from fedgrid.methods.common.prototypes import class_means, class_sums
from fedgrid.models.base import Network, part
from fedgrid.tree import Tree, tree_map


class FedGH(Method):
    source = "Yi et al., ACM MM 2023"
    shares = "class means and π"

    server_lr: float = hp(0.1, low=0)
    "Step size η_s of the server."
    server_steps: int = hp(1, low=0)
    "Full-batch steps of the server in a round."

    def setup(self, fed: Federation) -> State:
        theta = fed.initial()
        return State().update(server={"head": part(theta, "head")}, clients={"theta": fed.replicate(theta)})

    def round(self, fed: Federation, s: State) -> State:
        local = fed.train(s.clients.theta | fed.broadcast(s.server.head), self.loss)
        present = fed.counts > 0
        means = fed.upload(class_means(fed.measure(local.theta, class_sums).sums, fed.counts), present)
        head = self.fit(fed.model, s.server.head, means[present], present.nonzero()[:, 1])
        return s.update(server={"head": head}, clients={"theta": local.theta}, trained=local.theta)

    def fit(self, model: Network, head: Tree, means: Tensor, labels: Tensor) -> Tree:
        """Some steps down the cross entropy of means [m, k] with labels [m]."""
        for _ in range(self.server_steps):
            with torch.enable_grad():
                free = tree_map(lambda t: t.detach().requires_grad_(), head)
                value = cross_entropy(model.head(free, means), labels)
                slopes = torch.autograd.grad(value, list(free.values()))
            head = {key: head[key] - self.server_lr * slope for key, slope in zip(head, slopes, strict=True)}
        return head

    def personal(self, fed: Federation, s: State) -> Tree:
        return s.clients.theta | fed.replicate(s.server.head)
