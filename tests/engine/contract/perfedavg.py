"""Per-FedAvg, first order: the gradient at a point one step away, on the next batch.

Fallah, Mokhtari & Ozdaglar, NeurIPS 2020. A pair of batches is two steps: the tree carries the point of the next
gradient and whether the batch is the second of its pair. A pair may span two epochs, which the paper's does not.
"""

import torch
from torch import Tensor

from fedgrid.components import hp
from fedgrid.engine.federation import Federation
from fedgrid.engine.method import At, Batch, State
from fedgrid.methods.fedavg import FedAvg
from fedgrid.tree import Tree, tree_map


class PerFedAvg(FedAvg):
    source = "Fallah et al., NeurIPS 2020"
    score = "personal"
    identities = ()

    alpha: float = hp(0.02, low=0)
    "Step size α inside, and of the adaptation."
    beta: float = hp(0.05, low=0)
    "Step size β of the meta-step."

    def pair(self, both: Tree, batch: Batch, at: At) -> tuple[Tree, Tensor]:
        slope, value = self.slope(both["point"], batch, at)
        second = both["second"]
        theta = tree_map(lambda t, g: torch.where(second, t - self.beta * g, t), both["theta"], slope)
        point = tree_map(lambda t, g: torch.where(second, t, t - self.alpha * g), theta, slope)
        return {"theta": theta, "point": point, "second": ~second}, value

    def adapt(self, once: Tree, batch: Batch, at: At) -> tuple[Tree, Tensor]:
        slope, value = self.slope(once["theta"], batch, at)
        theta = tree_map(lambda t, g: torch.where(once["done"], t, t - self.alpha * g), once["theta"], slope)
        return {"theta": theta, "done": torch.ones_like(once["done"])}, value

    def slope(self, theta: Tree, batch: Batch, at: At) -> tuple[Tree, Tensor]:
        return torch.func.grad_and_value(lambda t: self.loss(t, batch, at))(theta)

    def round(self, fed: Federation, s: State) -> State:
        w, first = fed.broadcast(s.server.theta), torch.zeros_like(fed.ids, dtype=torch.bool)
        local = fed.iterate({"theta": w, "point": w, "second": first}, self.pair).theta["theta"]
        return s.update(server={"theta": fed.average(fed.upload(local))}, trained=local)

    def personal(self, fed: Federation, s: State) -> Tree:
        start = {"theta": fed.replicate(s.server.theta), "done": torch.zeros_like(fed.ids, dtype=torch.bool)}
        return fed.iterate(start, self.adapt, epochs=1, stream="adapt").theta["theta"]
