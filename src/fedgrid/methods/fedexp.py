"""FedExP: the more the clients' updates disagree, the farther the server goes along their mean.

Jhunjhunwala, Wang & Joshi, FedExP: Speeding Up Federated Averaging via Extrapolation, ICLR 2023. With Δ_i = θ_i − w and
Δ = Σ p_i Δ_i of n participants, w ← w + η_g·Δ, where η_g = max{1, Σ p_i‖Δ_i‖² / (2(‖Δ‖² + n·ε))}. The last steps
oscillate, so the mean of the last two w is scored.

    w             s.server.theta
    w before      s.server.previous
    ‖Δ_i‖²        the diagonal of the updates' inner products

Readings

* p_i and n·ε are those of the authors' code. The paper, as far as we remember, has 1/n and ε; its text was not
  checked.
* ε is constant; in the authors' code it shrinks by 0.998² a round. Their 0.001 is for CIFAR, on EMNIST it is 0.1.
* After the first round the authors' code scores w itself, here as always the mean with the w before, which is θ⁰.
* Clients go on from w, which they `received`; the mean is only scored.
* Norms are of parameters alone. Batch-norm statistics are plain averages.
* Adam makes local updates nearly equally long, and η_g then measures only angles.
"""

from fedgrid.methods import Federation, Identity, State, Tensor, Tree, hp
from fedgrid.methods.common.server_steps import ServerStep
from fedgrid.methods.common.subspaces import gram


class FedExP(ServerStep):
    source = "Jhunjhunwala et al., ICLR 2023"
    cite = "jhunjhunwala2023fedexp"
    averages_uploads = False  # the step size depends on all updates
    identities = [
        Identity("fedavg", {"eps": 1e12, "averaged": False}, exact=False),
        Identity("fedavg", {"eps": 1e12}, exact=False),
        Identity("local", {"averaged": False}, clients=1, exact=False),
    ]

    eps: float = hp(1e-3, above=0)
    "ε, which bounds η_g (authors' code: 0.001 on CIFAR, 0.1 on EMNIST; fluke: 1e-4)."
    averaged: bool = hp(True)
    "The mean of the last two server models is scored; off: the last one."

    def setup(self, fed: Federation) -> State:
        return super().setup(fed).update(server={"previous": fed.initial()})

    def extrapolation(self, products: Tensor, weights: Tensor) -> Tensor:
        """η_g, from the inner products [n, n] of the updates and p [n]."""
        mean = weights @ products @ weights
        rate = weights @ products.diagonal() / (2 * (mean + len(weights) * self.eps))
        return rate.clamp(min=1)

    def server_step(self, fed: Federation, updates: Tree, s: State) -> tuple[Tree, State]:
        rate = self.extrapolation(gram(updates), fed.weights)
        return rate * fed.average(updates), s.update(server={"previous": s.server.theta})

    def global_model(self, s: State) -> Tree | None:
        return (s.server.theta + s.server.previous) / 2 if self.averaged else s.server.theta

    def received(self, fed: Federation, s: State) -> Tree | None:
        return fed.replicate(s.server.theta) if self.averaged else None
