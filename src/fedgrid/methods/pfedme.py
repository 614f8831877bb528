"""pFedMe: a personal model is the proximal point of the loss around a local copy of the global model.

T. Dinh, Tran & Nguyen, Personalized Federated Learning with Moreau Envelopes, NeurIPS 2020, Algorithm 1. For every
batch, K gradient steps on F_i(ϑ) + (λ/2)‖ϑ − w_i‖² approximate the personal model ϑ; then w_i moves to it by
η·λ·(w_i − ϑ), and the server mixes the averaged w_i into w with β.

    w      s.server.theta
    w_i    both.local, lives within a round
    ϑ_i    both.personal, s.clients.personal

Readings

* What is scored is ϑ_i, as in the paper; the public implementations score another model by mistake (pFedGraph's: w_i).
* ϑ is carried from batch to batch: `warm`. R, the number of local batches, is that of the study's local epochs.
* A batch moves w_i by about η·∇F_i, hence at the study's rate unless said otherwise; the inner rate has no schedule,
  and the study's optimiser is not used.
* The authors' optimiser adds a weight decay of 0.001 inside, which is not in the paper's objective: `inner_decay`,
  off.
"""

import torch

from fedgrid.methods import (
    Batch,
    Federation,
    Identity,
    LossContext,
    State,
    Tensor,
    Tree,
    UserError,
    hp,
    squared_distance,
)
from fedgrid.methods.fedavg import FedAvg

ONE_STEP = {"inner_steps": 1, "warm": False, "lam": 10.0, "inner_lr": 0.1, "outer_lr": 0.05}


class PFedMe(FedAvg):
    title = "pFedMe"
    source = "T. Dinh et al., NeurIPS 2020"
    family = "personal model beside the global one"
    cite = "dinh2020pfedme"
    score = "trained"
    work = "inner_steps·E"
    plain_rates = ("outer_lr",)
    product_limits = (("inner_lr", "lam", 2.0), ("outer_lr", "lam", 2.0))  # beyond them steps overshoot
    identities = [Identity("fedavg", ONE_STEP, models="global", training={"lr": 10.0 * 0.1 * 0.05}, exact=False)]

    lam: float = hp(15.0, low=0)
    "Weight λ of the envelope (authors' code; PFLlib's is 1)."
    beta: float = hp(1.0, low=0)
    "Mixing β of the server (authors' code; PFLlib's default of 0 never moves the server's model)."
    inner_steps: int = hp(5, low=0)
    "Gradient steps K on a batch (authors' code)."
    inner_lr: float = hp(0.05, low=0)
    "Step size η_p of the inner solver: the authors take 0.05 to 0.1 on MNIST, 0.01 elsewhere; η_p·λ stays below 2."
    outer_lr: float | None = hp(None, low=0)
    "Step size η of the local copy (authors: 0.005, tuned 0.01), below 1/λ; none means the study's rate (PFLlib)."
    inner_decay: float = hp(0.0, low=0)
    "Weight decay μ₀ of the inner solver; the authors' code has 0.001."
    warm: bool = hp(True)
    "Carries ϑ from batch to batch; off: it starts from w_i at every batch."

    def setup(self, fed: Federation) -> State:
        for name, rate in {"inner_lr": self.inner_lr, "outer_lr": self.rate(fed)}.items():
            if rate * self.lam >= 2:
                raise UserError(f"pfedme.{name}: {rate:g} times lam ({self.lam:g}) must be below 2, or steps overshoot")
        s = super().setup(fed)
        return s.update(clients={"personal": fed.replicate(s.server.theta)})

    def rate(self, fed: Federation) -> float:
        """η."""
        return fed.optimizer.lr if self.outer_lr is None else self.outer_lr

    def step(self, both: Tree, batch: Batch, at: LossContext) -> tuple[dict[str, Tree], Tensor]:
        """One step of w_i, after `inner_steps` steps towards the proximal point θ̂ of w_i (Eq. 4 and 5)."""
        w, personal = both.local, both.personal if self.warm else both.local
        value = torch.zeros(())

        def envelope(theta: Tree) -> Tensor:
            return self.loss(theta, batch, at) + self.lam / 2 * squared_distance(theta, w)

        for _ in range(self.inner_steps):
            slope, value = torch.func.grad_and_value(envelope)(personal)
            personal = personal - self.inner_lr * (slope + self.inner_decay * personal)
        return {"local": w - at.server.rate * self.lam * (w - personal), "personal": personal}, value

    def round(self, fed: Federation, s: State) -> State:
        w = fed.broadcast(s.server.theta)
        start, server = {"local": w, "personal": w}, {"rate": self.rate(fed)}
        both = fed.iterate(start, self.step, server=server, model=lambda both, at: both.personal).theta
        average = fed.average(fed.upload(both.local))
        theta = (1 - self.beta) * s.server.theta + self.beta * average
        return s.update(server={"theta": theta}, clients={"personal": both.personal}, trained=both.personal)

    def received(self, fed: Federation, s: State) -> Tree:
        personal: Tree = s.clients.personal
        return personal
