"""pFedSim: after a warm-up with FedAvg, each client's extractor is mixed from those of clients with similar heads.

Tan, Zhou, Liu, Wang & Yu, pFedSim: Similarity-Aware Model Aggregation Towards Personalized Federated Learning, arXiv
2305.15706, 2023. The first ⌊ρT⌋ rounds are FedAvg's, and all clients go on from its model w. Then client i receives
φ̂_i = Σ_j a_ij φ_j, keeps its head π_i, trains both and sends θ_i = (φ_i, π_i). For every two participants of the round
s_ij = max(0, mean over the classes c of cos(π_i[c], π_j[c])), and a_ij ∝ −log(1 − s_ij) with s_ii = 0.9999.

    w       s.server.theta, which stays as it is after the warm-up
    θ_i     s.clients.theta, for clients with s.clients.personal: since they took part after the warm-up; w for others
    φ_j     s.server.extractors [N, …], as uploaded last
    s_ij    s.server.similarity [N, N], of the last round after the warm-up with both i and j; 0 where there is none
    π[c]    row c of the head's weight matrix, without its bias
    ρ, T    warmup, fed.training.rounds

Readings

* The paper's text was not at hand; this follows FL-bench's code, whose author is an author of the paper. The number of
  warm-up rounds is that of the code, which rounds ρT down.
* a_ij = 0 for a client that i has not met, so that w is no part of a mixture. In its first round after the warm-up a
  client trains w.
* A client that is similar to nobody goes on from its own model and is sent nothing; FL-bench always sends a model.
* M in `down` is the difference from |φ| where w travels, which is θ as a whole, or nothing does.
* s_ij is at most 0.9999, like s_ii, so nobody's model counts for more than a client's own. In the code, equal heads
  give an infinite weight, and the mixture is then not a number.
* Clients' numbers of images play no part after the warm-up. Statistics of batch norm are mixed like parameters.
* `received` is w in the warm-up, and a client's last model after it: mixtures are made when a client takes part.
  `global` is w.
"""

from math import floor

import torch
from torch.nn.functional import normalize

from fedgrid.methods import Federation, Identity, State, Tensor, Tree, hp
from fedgrid.methods.fedavg import FedAvg

CAP = 0.9999
"The similarity of a client with itself, and the largest with others."


class PFedSim(FedAvg):
    title = "pFedSim"
    source = "Tan et al., 2023"
    family = "one mixture of models for each client: of extractors, by the similarity of heads"
    cite = "tan2023pfedsim"
    averages_uploads = False  # mixtures are made without fed.average
    score = "trained"
    shares = "θ, in the warm-up; then φ, mixed by the similarity of π"
    down = "|φ| + M"
    identities = [
        *(Identity("fedavg", {"warmup": 1.0}, models=models) for models in ("used", "trained", "global")),
        Identity("local", {"warmup": 0.0}, clients=1),
        Identity("local", {"warmup": 0.0}, training={"rounds": 1}),  # nobody has met anyone
    ]

    warmup: float = hp(0.5, low=0, high=1)
    "Share ρ of the rounds, rounded down, that are FedAvg's (FL-bench, by an author: 0.5)."

    def setup(self, fed: Federation) -> State:
        s = super().setup(fed)
        theta = fed.replicate(s.server.theta)
        similarity = torch.zeros(fed.size, fed.size, dtype=torch.float64, device=fed.ids.device)
        clients = {"theta": theta, "personal": torch.zeros_like(fed.ids, dtype=torch.bool)}
        return s.update(server={"extractors": theta.part("extractor"), "similarity": similarity}, clients=clients)

    def round(self, fed: Federation, s: State) -> State:
        if self.warmup and fed.round < floor(self.warmup * fed.training.rounds + 1e-9):
            return super().round(fed, s)
        theta = fed.upload(fed.train(self.start(fed, s), self.loss).theta)
        similar = s.server.similarity[fed.ids].index_copy(1, fed.ids, similarities(theta["head.weight"]))
        server = {
            "extractors": s.server.extractors.placed(fed.ids, theta.part("extractor")),
            "similarity": s.server.similarity.index_copy(0, fed.ids, similar),
        }
        clients = {"theta": theta, "personal": torch.ones_like(s.clients.personal)}
        return s.update(server=server, clients=clients, trained=theta)

    def start(self, fed: Federation, s: State) -> Tree:
        """What participants train after the warm-up: w, or their own model, or that with the extractor φ̂_i."""
        fed.send(fed.replicate(s.server.theta), ~s.clients.personal.unsqueeze(1))
        similar = s.server.similarity[fed.ids]
        mixes = similar.any(dim=1)
        mixture = fed.send(mixing_weights(similar, fed.ids) @ s.server.extractors, mixes.unsqueeze(1))
        last = self.received(fed, s)
        return last | rows_of_either(mixes, mixture, last.part("extractor"))

    def received(self, fed: Federation, s: State) -> Tree:
        return rows_of_either(s.clients.personal, s.clients.theta, fed.replicate(s.server.theta))

    def cooperation(self, s: State) -> dict[str, Tensor]:
        return {"similarity": s.server.similarity}


def similarities(heads: Tensor) -> Tensor:
    """All s_ij [n, n] of weight matrices [n, C, k], and 0 for a client and itself; float64."""
    rows = normalize(heads.double(), dim=2).flatten(1)
    return (rows @ rows.T / heads.shape[1]).clamp(min=0).fill_diagonal_(0)


def mixing_weights(similar: Tensor, ids: Tensor) -> Tensor:
    """All a_ij [n, N] of the clients `ids` [n], from their s_ij [n, N]; float64."""
    itself = ids.unsqueeze(1) == torch.arange(similar.shape[1], device=ids.device)
    weights = -torch.log1p(-torch.where(itself, CAP, similar.clamp(max=CAP)))
    return weights / weights.sum(dim=1, keepdim=True)


def rows_of_either(where: Tensor, first: Tree, second: Tree) -> Tree:
    """The rows of the `first` stack for some clients, bool [n], and of the `second` for the others."""
    return Tree((name, torch.where(where.view(-1, *[1] * (t.dim() - 1)), t, second[name])) for name, t in first.items())
