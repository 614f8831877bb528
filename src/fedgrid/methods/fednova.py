"""FedNova: updates are divided by their number of (effective) local steps before they are averaged.

Wang, Liu, Liang, Joshi & Poor, Tackling the Objective Inconsistency Problem in Heterogeneous Federated Optimization,
NeurIPS 2020, Eq. 6: d_i = (w − θ_i)/a_i and w ← w − τ_eff·Σ p_i d_i with τ_eff = Σ p_i a_i. In τ_i steps of plain SGD
a_i = τ_i; with momentum ρ it is [τ_i − ρ(1 − ρ^{τ_i})/(1 − ρ)]/(1 − ρ).

    w      s.server.theta
    a_i    effective_steps

Readings

* Adam's steps have no such sum, so each counts as one.
* Batch-norm statistics are plain averages: an extrapolated variance could be negative.
* The proximal variant and server momentum are left out.
"""

from fedgrid.methods import Federation, Identity, State, Tensor
from fedgrid.methods.fedavg import FedAvg


class FedNova(FedAvg):
    source = "Wang et al., NeurIPS 2020"
    cite = "wang2020fednova"
    averages_uploads = False  # clients upload normalised updates
    shares = "θ and a step count"
    up = "|θ| + 1"
    identities = [
        Identity("local", clients=1, exact=False),
        Identity("fedavg", training={"batch_size": 99}, exact=False),
        Identity("fedavg", training={"batch_size": 99, "local_epochs": 3, "momentum": 0.9, "lr": 0.01}, exact=False),
    ]

    def round(self, fed: Federation, s: State) -> State:
        w = fed.broadcast(s.server.theta)
        local = fed.train(w, self.loss)
        a = fed.upload(self.effective_steps(fed, local.steps.type_as(local.loss)))
        total = (fed.weights * a).sum()
        d = fed.average(fed.upload(total * (w - local.theta) / a.clamp(min=1)))
        plain = fed.average({name: local.theta[name] for name in fed.model.statistics})
        theta = s.server.theta | plain | fed.parameters(s.server.theta - d)
        return s.update(server={"theta": theta}, trained=local.theta)

    def effective_steps(self, fed: Federation, tau: Tensor) -> Tensor:
        """a_i [n]."""
        rho = fed.optimizer.momentum if fed.optimizer.kind == "sgd" else 0.0
        return (tau - rho * (1 - rho**tau) / (1 - rho)) / (1 - rho)
