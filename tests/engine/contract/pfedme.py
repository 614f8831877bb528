"""pFedMe: a personal model is the proximal point of the loss around a local copy of the global model.

T. Dinh, Tran & Nguyen, NeurIPS 2020. The step carries two trees, w_i (`local`) and ϑ_i (`personal`).
"""

import torch
from torch import Tensor

from fedgrid.components import hp
from fedgrid.engine.federation import Federation
from fedgrid.engine.method import At, Batch, State
from fedgrid.methods.fedavg import FedAvg
from fedgrid.tree import Tree, squared_distance, tree_map


class PFedMe(FedAvg):
    source = "T. Dinh et al., NeurIPS 2020"
    score = "personal"
    identities = ()

    lam: float = hp(15.0, low=0)
    "Weight λ of the envelope."
    beta: float = hp(1.0, low=0)
    "Mixing β of the server."
    inner_steps: int = hp(5, low=0)
    "Gradient steps K on a batch."
    inner_lr: float = hp(0.02, low=0)
    "Step size η_p of the inner solver."
    outer_lr: float = hp(0.02, low=0)
    "Step size η of the local copy."
    warm: bool = hp(True)
    "Carries ϑ from batch to batch."

    def setup(self, fed: Federation) -> State:
        s = super().setup(fed)
        return s.update(clients={"personal": fed.replicate(s.server.theta)})

    def step(self, both: Tree, batch: Batch, at: At) -> tuple[Tree, Tensor]:
        w = both["local"]
        own, value = both["personal"] if self.warm else w, torch.zeros(())

        def envelope(theta: Tree) -> Tensor:
            return self.loss(theta, batch, at) + self.lam / 2 * squared_distance(theta, w)

        for _ in range(self.inner_steps):
            slope, value = torch.func.grad_and_value(envelope)(own)
            own = tree_map(lambda t, g: t - self.inner_lr * g, own, slope)
        moved = tree_map(lambda a, b: a - self.outer_lr * self.lam * (a - b), w, own)
        return {"local": moved, "personal": own}, value

    def round(self, fed: Federation, s: State) -> State:
        w = fed.broadcast(s.server.theta)
        both = fed.iterate({"local": w, "personal": w}, self.step).theta
        average = fed.average(fed.upload(both["local"]))
        theta = tree_map(lambda a, b: (1 - self.beta) * a + self.beta * b, s.server.theta, average)
        return s.update(server={"theta": theta}, clients={"personal": both["personal"]}, trained=both["personal"])

    def personal(self, fed: Federation, s: State) -> Tree:
        return s.clients.personal
