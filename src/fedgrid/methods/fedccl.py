"""FedCCL: clients contrast their features with means of all clients' clusters, and with one mean a class.

Qiao, Le, Zhang, Adhikary, Zhang & Hong, FedCCL: Federated Dual-Clustered Feature Contrast Under Domain Heterogeneity,
2024, Algorithm 1 and Eqs. 6–18: cross entropy + a_L·L_local + a_G·L_global, both −log Σ_{own class} e^{cos/τ} /
Σ_{all} e^{cos/τ}, over the bank of all clients' local signals and over the global signals. Parameters are averaged.

    ω          s.server.theta
    ξ̄_{i,l}^j  s.server.vectors (where s.server.held): local signals of class j, Eq. 10
    U_j        s.server.prototypes (rows with s.server.known): mean of the clusters of class j's signals, Eqs. 13–15

Readings

* "Until there is only one cluster left", taken literally, always ends with one cluster, which is the averaged variant.
  Here the last partition is discarded, as in the code that the sentence paraphrases: `stop`.
* The losses are means over the batch, like the cross entropy, not sums: `reduction`.
* Every cosine is divided by the temperature, which Eqs. 16–17 leave out.
* Eq. 15 says "averaged" and prints a sum; cosines make them equal.
* The bank includes the client's own signals. It is empty in the first round.
* A class that no participant holds keeps its signals of an earlier round.
* The averaged variants keep both losses. With the global contrast alone, local signals are sent up but not down. With
  neither, the method is FedAvg.
* The paper reports the local models after training; its curves on one common test set fit the global model.
"""

from fedgrid.methods import Batch, Federation, Identity, LossContext, State, Tensor, Tree, cross_entropy, hp
from fedgrid.methods.common.banks import (
    bank_contrast,
    by_class,
    centres,
    clustered,
    empty,
    grouped,
    listed,
    padded,
    renewed,
    vectors_of,
)
from fedgrid.methods.common.prototypes import local_means, mean_contrast, unknown
from fedgrid.methods.fedavg import FedAvg


class FedCCL(FedAvg):
    source = "Qiao et al., 2024"
    family = "one global model, shared clusters of features"
    cite = "fedccl"
    score = "trained"
    shares = "θ and means of clusters"
    down = "|θ| + (M + C)·k"
    up = "|θ| + M_i·k"
    identities = [
        Identity("fedavg", {"local_weight": 0.0, "global_weight": 0.0}),
        Identity("fedavg", training={"rounds": 1}),
    ]

    local_weight: float = hp(1.0, low=0, was="local")
    "Weight a_L of the contrast with the local signals (Eq. 18); 0: global only."
    global_weight: float = hp(1.0, low=0, was="global_")
    "Weight a_G of the contrast with the global signals (Eq. 18); 0: local only."
    temperature: float = hp(0.07, above=0)
    "Temperature τ of both contrasts (paper)."
    reduction: str = hp("mean", choices=("mean", "sum"))
    "Of both contrasts over a batch: mean, or the sum that Eqs. 16–17 print."
    average_local: bool = hp(False)
    "On: a client's local signals are its class means (Eq. 7; Table 7, Local, Avg)."
    average_global: bool = hp(False)
    "On: a global signal is the mean of all local signals (Eq. 12; Table 7, Global, Avg)."
    stop: str = hp("kept", choices=("kept", "literal", "first"))
    "Which partition ends a clustering: the last before a single cluster, the single cluster too, or the very first."
    early_exit: bool = hp(False)
    "On: clusters that are farther apart than any linked points are not merged (default of FINCH's package)."

    def setup(self, fed: Federation) -> State:
        s = super().setup(fed)
        return s.update(server=empty(s.server.theta) | unknown(s.server.theta))

    def loss(self, theta: Tree, batch: Batch, at: LossContext) -> Tensor:
        z, bank = at.model.features(theta, batch.x), at.server
        objective = cross_entropy(at.model.head(theta, z), batch.y)
        times = bank.known[batch.y].sum() if self.reduction == "sum" else 1.0  # samples that are contrasted
        if self.local_weight:
            contrast = bank_contrast(z, batch.y, bank.vectors, bank.held, self.temperature)
            objective = objective + self.local_weight * times * contrast
        if self.global_weight:
            shared = mean_contrast(z, batch.y, bank.prototypes, bank.known, self.temperature)
            objective = objective + self.global_weight * times * shared
        return objective

    def round(self, fed: Federation, s: State) -> State:
        if not self.local_weight and not self.global_weight:
            return super().round(fed, s)
        if self.local_weight:
            fed.broadcast(s.server.vectors, s.server.held)
        if self.global_weight:
            fed.broadcast(s.server.prototypes, s.server.known)
        state = super().round(fed, s)
        assert state.trained is not None
        vectors, held = self.signals(fed, state.trained)
        fed.upload(vectors, held)
        fresh = listed(vectors.transpose(0, 1).flatten(1, 2), held.transpose(0, 1).flatten(1, 2))
        bank = renewed(listed(s.server.vectors, s.server.held), fresh)
        merged = bank if self.average_global else clustered(bank, **self.how)
        (vectors, held), (prototypes, known) = padded(bank), centres(*padded(merged))
        new = {"vectors": vectors, "held": held, "prototypes": prototypes, "known": known}
        return state.update(server=new)

    def signals(self, fed: Federation, theta: Tree) -> tuple[Tensor, Tensor]:
        """Local signals [n, C, L, k] and which there are [n, C, L] (Eq. 7 or 10)."""
        if self.average_local:
            return local_means(fed, theta).unsqueeze(2), (fed.counts > 0).unsqueeze(2)
        groups = clustered(by_class(fed, theta), **self.how)
        return tuple(t.unflatten(0, (fed.size, -1)) for t in padded(groups))

    @property
    def how(self) -> dict[str, bool]:
        """How FINCH is to cluster."""
        return {"early_exit": self.early_exit, "keep_one": self.stop == "literal", "only_first": self.stop == "first"}

    def clusters(self, s: State) -> dict[str, Tensor]:
        """The local signals, and the clusters whose means' mean is their class's global signal."""
        return vectors_of(listed(s.server.vectors, s.server.held), lambda points: grouped(points, **self.how))
