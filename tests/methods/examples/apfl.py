"""APFL: every client uses a mixture of its own model and the global one, whose weight it may learn.

Deng, Kamani & Mahdavi, Adaptive Personalized Federated Learning, arXiv 2003.13461, 2020, Algorithm 1. Every client has
a personal model v_i beside its local copy w_i of the global model and uses v̄_i = α_i·v_i + (1 − α_i)·w_i. On each batch
w_i descends f_i(w_i) and v_i descends f_i(v̄_i), both from the values before the batch. The server averages the w_i.

If α is adaptive it takes a step on each batch, kept within [0, 1]. The paper also allows one step a round.
"""

import torch

from fedgrid.methods import Batch, Federation, Identity, LossContext, Method, State, Tensor, Tree, hp, inner


def mixture(alpha: Tensor, personal: Tree, local: Tree) -> Tree:
    return alpha * personal + (1 - alpha) * local


class APFL(Method):
    title = "APFL"
    source = "Deng, Kamani & Mahdavi, arXiv:2003.13461 2020"
    family = "mixture of a global and a personal model"
    score = "trained"
    shares = "θ"
    down = up = "|θ|"
    work = "2E"
    identities = [
        Identity("fedavg", {"alpha": 0.0, "adaptive": False}, models="global", exact=False),
        Identity("local", {"alpha": 1.0, "adaptive": False}, exact=False),
        Identity("local", {"alpha": 1.0, "adaptive": False}, models="trained", exact=False),
    ]

    alpha: float = hp(0.5, low=0, high=1)
    "Weight α of the personal model at the start."
    adaptive: bool = hp(True)
    "Whether each client learns its α."

    def setup(self, fed: Federation) -> State:
        theta = fed.initial()
        clients = {"personal": fed.replicate(theta), "alpha": torch.full_like(fed.weights, self.alpha)}
        return State(server={"theta": theta}, clients=clients)

    def step(self, models: Tree, batch: Batch, at: LossContext) -> tuple[dict, Tensor]:
        w, v, alpha = models.local, models.personal, models.alpha
        gradient, _ = torch.func.grad_and_value(self.loss)(w, batch, at)
        mixed, loss = torch.func.grad_and_value(self.loss)(mixture(alpha, v, w), batch, at)
        new = {"local": w - at.server.lr * gradient, "personal": v - at.server.lr * (alpha * mixed), "alpha": alpha}
        if self.adaptive:
            new["alpha"] = (alpha - at.server.lr * inner(v - w, mixed)).clamp(0, 1)
        return new, loss

    def round(self, fed: Federation, s: State) -> State:
        start = {"local": fed.broadcast(s.server.theta), "personal": s.clients.personal, "alpha": s.clients.alpha}
        end = fed.iterate(start, self.step, server={"lr": fed.optimizer.lr}, model=lambda all_, at: all_.personal).theta
        server, clients = {"theta": fed.average(fed.upload(end.local))}, {"personal": end.personal, "alpha": end.alpha}
        return s.update(server=server, clients=clients, trained=mixture(end.alpha, end.personal, end.local))

    def global_model(self, s: State) -> Tree:
        return s.server.theta

    def adapted(self, fed: Federation, s: State) -> Tree:
        return mixture(s.clients.alpha, s.clients.personal, fed.replicate(s.server.theta))
