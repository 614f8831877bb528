"""FedSSC: MOON with a contrast against one shared class mean per class, drawn from the clients that have enough images.

Hu, Feng, Yang & Chen, FedSSC: Shared Supervised-Contrastive Federated Learning, 2023, Algorithm 1 and Eqs. 1–5: cross
entropy + μ_moon·L_moon + μ_glob(t)·L_glob, where L_glob = −log e^{cos(z, R_y)/τ} / Σ_c e^{cos(z, R_c)/τ}.

    w^t, R_c     at.server.theta, at.server.prototypes (rows with at.server.known)
    θ_i^prev     at.client.previous, s.clients.previous: of the last round in which the client took part
    μ_glob(t)    at.server.weight: from μ_glob down to `end` of it over `decay` rounds, in a line

Readings

* The text that we have lost its decimals: τ, the end of the schedule and the study's settings follow MOON, as the
  paper does. z is what the head sees; set the model's `projection`.
* A class is offered by clients with `minimum` images of it; of those the server draws `shared` once a round, for all
  clients alike, and averages their means without weights.
* R starts unknown, not at zero, which would be a negative with cosine 0; an unknown class acts nowhere.
* As in MOON here, a client that has not trained yet compares with θ⁰.
* Alternatives of the paper's last section: `negatives` from the batch, as further vectors beside R; and two stages,
  the extractor on the contrasts alone and, in the last `head_rounds`, the head alone on cross entropy. Then only the
  trained part goes up.
* `mu_moon` = 0 is the ablation without MOON, `mu_glob` = 0 is MOON, `end` = 1 keeps the weight.
"""

import torch
from torch.nn.functional import normalize, one_hot

from fedgrid.methods import Batch, Federation, Identity, LossContext, State, Tensor, Tree, cross_entropy, hp
from fedgrid.methods.common.banks import EPS, against, average
from fedgrid.methods.common.model_contrast import model_contrast
from fedgrid.methods.common.prototypes import aggregate, local_means, mean_contrast, unknown
from fedgrid.methods.fedavg import FedAvg


class FedSSC(FedAvg):
    source = "Hu et al., 2023"
    family = "one global model, shared class means"
    cite = "fedssc"
    shares = "θ and some class means"
    down = "|θ| + M·k"
    up = "|θ| + M_i·k"
    identities = [
        Identity("moon", {"mu_glob": 0.0, "mu_moon": 2.0}, {"mu": 2.0}),
        Identity("fedavg", {"mu_glob": 0.0, "mu_moon": 0.0}),
        Identity("fedavg", {"mu_moon": 0.0}, training={"rounds": 1}),
    ]

    mu_moon: float = hp(0.1, low=0)
    "Weight μ_moon of MOON's contrast (paper: 5, which in short runs holds the model back); MOON's default here."
    mu_glob: float = hp(1.0, low=0)
    "Weight μ_glob of the shared contrast at the start (paper)."
    end: float = hp(0.1, low=0)
    "Share of μ_glob that is left at the end of the schedule (inferred: the decimal is lost); 1: constant."
    decay: int = hp(100, low=1)
    "Rounds of the schedule (paper)."
    temperature: float = hp(0.5, above=0)
    "Temperature τ of both contrasts (MOON's code)."
    minimum: int = hp(10, low=1)
    "Images of a class that a client must have to offer its mean (paper)."
    shared: int | None = hp(1, low=1)
    "Number K of clients whose means of a class are drawn and averaged; none: all that are offered."
    negatives: str = hp("shared", choices=("shared", "batch", "batch-joint"))
    "What a sample is contrasted with: R, or also its batch; a mean over its positives, or their joint share."
    head_rounds: int = hp(0, low=0)
    "Last rounds, in which the head alone is trained, and before them the extractor alone (paper: 10); 0: together."

    def setup(self, fed: Federation) -> State:
        s = super().setup(fed)
        previous = fed.replicate(s.server.theta)
        return s.update(server=unknown(s.server.theta), clients={"previous": previous})

    def loss(self, theta: Tree, batch: Batch, at: LossContext) -> Tensor:
        z = at.model.features(theta, batch.x)
        contrasts = self.contrasts(z, batch, at)
        return cross_entropy(at.model.head(theta, z), batch.y) + contrasts

    def extractor_loss(self, theta: Tree, batch: Batch, at: LossContext) -> Tensor:
        """The contrasts alone, for the stage that trains the extractor."""
        return self.contrasts(at.model.features(theta, batch.x), batch, at)

    def contrasts(self, z: Tensor, batch: Batch, at: LossContext) -> Tensor:
        """μ_moon·L_moon + μ_glob(t)·L_glob."""
        value = z.new_zeros(())
        if self.mu_moon:
            value = value + self.mu_moon * model_contrast(z, batch.x, at, self.temperature)
        if self.mu_glob:
            value = value + at.server.weight * self.with_shared(z, batch.y, at.server)
        return value

    def with_shared(self, z: Tensor, labels: Tensor, shared: Tree) -> Tensor:
        """L_glob (Eq. 3), or its alternatives with the rest of the batch."""
        if self.negatives == "shared":
            return mean_contrast(z, labels, shared.prototypes, shared.known, self.temperature)
        unit, itself = normalize(z, dim=1, eps=EPS), torch.eye(len(z), dtype=torch.bool, device=z.device)
        cosines = unit @ torch.cat([normalize(shared.prototypes, dim=1, eps=EPS), unit]).T
        positive = torch.cat([one_hot(labels, len(shared.known)).bool(), labels.unsqueeze(1) == labels], dim=1)
        allowed = torch.cat([shared.known.expand(len(z), -1), ~itself], dim=1)
        return average(*against(cosines / self.temperature, positive, allowed, each=self.negatives == "batch"))

    def round(self, fed: Federation, s: State) -> State:
        part = self.trained_part(fed)
        loss = {"": self.loss, "extractor": self.extractor_loss, "head": super().loss}[part]
        inputs = {"weight": self.weight(fed)}
        theta = fed.train(fed.broadcast(s.server.theta), loss, server=inputs, part=part).theta
        sent = fed.upload({name: t for name, t in theta.items() if name.startswith(part)})
        shared = self.exchanged(fed, s, theta) if self.mu_glob and part != "head" else {}
        server = shared | {"theta": s.server.theta | fed.average(sent)}
        return s.update(server=server, clients={"previous": theta}, trained=theta)

    def trained_part(self, fed: Federation) -> str:
        """The names that a round trains begin so: all of them, or in two stages those of the extractor or the head."""
        if not self.head_rounds:
            return ""
        return "extractor" if fed.round < fed.training.rounds - self.head_rounds else "head"

    def exchanged(self, fed: Federation, s: State, theta: Tree) -> dict[str, Tensor]:
        """R after the round in which the clients had R and trained `theta`."""
        fed.broadcast(s.server.prototypes, s.server.known)
        offered = fed.counts >= self.minimum
        means = fed.upload(local_means(fed, theta), offered)  # Eq. 4
        drawn = self.drawn(fed, offered).double()
        prototypes, known = aggregate(means, drawn, s.server.prototypes, s.server.known)
        return {"prototypes": prototypes, "known": known}

    def weight(self, fed: Federation) -> float:
        """μ_glob(t)."""
        return self.mu_glob * (1 - (1 - self.end) * min(fed.round / self.decay, 1))

    def drawn(self, fed: Federation, offered: Tensor) -> Tensor:
        """Whose means of a class are averaged, bool [n, C]: `shared` of those offered, without replacement."""
        draws = fed.counts.new_tensor(fed.random("shared").random(offered.shape))
        rank = torch.where(offered, draws, 2.0).argsort(dim=0).argsort(dim=0)
        return offered & (rank < (self.shared or fed.size))
