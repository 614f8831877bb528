"""FedCoSR: averaged extractors, own heads, and class means of representations shared as contrast and as trust.

Huang, Chen, Zhang & Wang, FedCoSR: Personalized Federated Learning with Contrastive Shareable Representations for Label
Heterogeneity in Non-IID Data, Algorithm 1 and Eqs. 3–15. At the start of a round a client blends its extractor with the
global one, taking more of the global one the larger its contrastive loss was; then it trains on cross entropy plus
InfoNCE against the global class means.

    φ^Global, Ω̄^Global    s.server.theta, s.server.prototypes (rows with s.server.known)
    θ_i, L_Reg            s.clients.theta, s.clients.regularity (NaN: not measured yet)
    τ_{t+1}, τ_CL         tau (recorded as `trust`), temperature

Readings

* The initial stage (lines 4–7) is the first round: no class mean is known, so the contrast is empty (α = 0) and
  nothing is blended.
* For the round after it, and for a client drawn for the first time, L_Reg is one pass over its images with the class
  means just received; later it is the mean over the last epoch of local training.
* "Clip into [0, 1]" (line 22) is read as the range of τ; clamping every parameter is the option `clip_params`.
* "Without local aggregation" means τ = 0, the plain overwriting of other split methods. Without contrast, L_Reg is
  still measured and clients still blend; as nothing lowers it, τ stays small. N = 1 is Local with contrast.

The paper prints no γ; 0.8 is FedCRL's. With it blending may fade: on CIFAR-10 with SGD L_Reg falls until τ is 1 and
clients train alone (benchmarks/results/trust); on CIFAR-100 with Adam τ grows to a third in 150 rounds. A larger γ
keeps more of the global extractor; there, γ 8 keeps nothing else.
"""

import torch
from torch import Tensor

from fedgrid.methods import Batch, Federation, Identity, LossContext, Method, Objective, State, Tree, cross_entropy, hp
from fedgrid.methods.common.prototypes import collected, contrast_sums, info_nce, local_means, unknown

OVERWRITE = {"gamma": 1e9, "alpha": 0.0}


class FedCoSR(Method):
    source = "FedCoSR; settings of its earlier version FedCRL, Table I"
    family = "split model: shared extractor and class means, own heads"
    cite = "fedcosr"
    score = "received"
    work = "E"
    averages_uploads = True
    shares = "φ and class means"
    down = "|φ| + C·k"
    up = "|φ| + |C_i|·k"
    identities = [
        Identity("fedper", OVERWRITE),
        Identity("fedper", {"local_aggregation": False, "alpha": 0.0}),
        Identity("fedavg", OVERWRITE | {"separate": False}),
        Identity("local", {"gamma": 0.0, "alpha": 0.0}),
    ]

    alpha: float = hp(1.0, low=0)
    "Weight α of the contrast (Eq. 14)."
    gamma: float = hp(0.8, low=0)
    "Sensitivity γ of the trust τ = exp(−γ·L_Reg) (Eq. 7)."
    temperature: float = hp(0.1, above=0)
    "Temperature τ_CL of the contrast (Eq. 13)."
    local_aggregation: bool = hp(True)
    "Off: ablation w/o LA, the global extractor overwrites the local one."
    separate: bool = hp(True)
    "Off: ablation w/o Sep, the head is shared and averaged too."
    contrast: bool = hp(True)
    "Off: ablation w/o CRL, α = 0 in the training loss."
    clip_params: bool = hp(False)
    "Clamps all trained parameters to [0, 1], the literal reading of line 22."
    lost_uploads: float = hp(0.0, low=0, high=1)
    """Probability that a participant's upload is lost, a reading of FedCRL's dropout rate (0.3): at least one arrives,
    and lost bytes are not counted."""

    def shared(self, theta: Tree) -> Tree:
        """The part of θ (or of a stack of them) that travels."""
        return theta.part("extractor") if self.separate else theta

    def setup(self, fed: Federation) -> State:
        theta = fed.initial()
        unmeasured = theta["head.weight"].new_full((fed.size,), torch.nan)
        clients = {"theta": fed.replicate(theta), "regularity": unmeasured}
        return State(server=unknown(theta) | {"theta": self.shared(theta)}, clients=clients)

    def round(self, fed: Federation, s: State) -> State:
        fed.broadcast(s.server.prototypes, s.server.known)  # line 13
        tau = self.trust(fed, s)
        local = fed.train(self.blended(fed, s, tau), self.objective)  # lines 17–22
        theta = self.clipped(fed, local.theta) if self.clip_params else local.theta
        arrived = self.arrived(fed)
        heard, sent = fed.subset(arrived), theta.rows(arrived)
        server = collected(heard, s, local_means(heard, sent))  # Eqs. 3–4, 6
        server["theta"] = heard.average(heard.upload(self.shared(sent)))  # Eq. 5
        clients = {"theta": theta, "regularity": local.mean.get("regularity", s.clients.regularity)}
        return s.update(server=server, clients=clients, trained=theta, quantities={"trust": tau})

    def received(self, fed: Federation, s: State) -> Tree:
        return self.blended(fed, s, self.trust(fed, s))

    def blended(self, fed: Federation, s: State, tau: Tensor) -> Tree:
        """θ̂ of Eqs. 8–9: the blended extractor under the client's own head."""
        local, received = self.shared(s.clients.theta), fed.broadcast(s.server.theta)
        return s.clients.theta | (tau * local + (1 - tau) * received)

    def clipped(self, fed: Federation, theta: Tree) -> Tree:
        """Line 22, read literally."""
        return theta | {name: t.clamp(0, 1) for name, t in fed.parameters(theta).items()}

    def arrived(self, fed: Federation) -> Tensor:
        """Whose uploads arrive, bool [n]: all, unless some are lost."""
        draws = fed.random("lost uploads").random(fed.size)
        return fed.ids.new_tensor((draws >= self.lost_uploads) | (draws == draws.max())).bool()

    def trust(self, fed: Federation, s: State) -> Tensor:
        """τ = exp(−γ·L_Reg) of every client (Eqs. 7, 12–13), 1 where there is nothing to contrast with."""
        if not self.local_aggregation:
            return torch.zeros_like(s.clients.regularity)
        last = s.clients.regularity.nan_to_num(0.0)
        new = s.clients.regularity.isnan() & (fed.counts.sum(dim=1) > 0)
        if new.any():
            values = fed.subset(new).measure(s.clients.theta.rows(new), contrast_sums(self.temperature))
            last = last.masked_scatter(new, (values.total / values.samples).nan_to_num(0.0))
        return torch.exp(-self.gamma * last).clamp(0, 1)

    def objective(self, theta: Tree, batch: Batch, at: LossContext) -> Objective:
        """The loss of Eq. 14 and, beside it, what L_Reg is the mean of."""
        z = at.model.features(theta, batch.x)
        total, samples = info_nce(z, batch.y, at.server.prototypes, at.server.known, self.temperature)
        weight = self.alpha if self.contrast else 0.0
        # means over the batch in place of expectations
        objective = cross_entropy(at.model.head(theta, z), batch.y) + weight * total / samples.clamp(min=1)
        return objective, {"regularity": (total, samples)}
