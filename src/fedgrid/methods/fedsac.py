"""FedSaC: pFedGraph, whose graph also turns a client away from those whose features overlap with its own.

Yan, Cui, Wuerkaixi, Zhang, Han, Niu, Sugiyama & Zhang, Balancing Similarity and Complementarity for Federated Learning,
ICML 2024, Algorithm 1. Row i of W minimises Σ_j [(w_j − p_j)² + α·C_ij w_j − β·S_ij w_j] over the simplex (Eq. 8);
client i trains Σ_j W_ij θ_j on cross entropy − λ·cos(θ, Σ_j W_ij θ_j) (Eq. 9).

    S_ij    similarity, as in pFedGraph (Eq. 4)
    C_ij    overlap: cosine of the mean principal angle of V_i and V_j (Eqs. 6–7), s.server.complementarity
    V_i     the first directions of client i's features after local training [r, k] (Eq. 5)
    α       0 after 70 % of the rounds

Where some clients have pictures and others texts (B.2, B.3), W is of each modality by itself, with p over its clients,
and mixes extractors. Heads have one shape everywhere: those of all clients are mixed by W^cls, s.server.heads.

    W^cls   minimises Σ_j [(w_j − p_j)² − β·S^cls_ij w_j], p over all clients
    S^cls   similarity of heads alone

Readings

* S compares what models moved in the last round, as in pFedGraph here; above 0.9 it counts as 1 (authors' code). That
  code compares θ_i − θ⁰, which gives a client's own model the weight 0 after 10 rounds; Eq. 4 prints the parameters
  themselves, whose common start would hide the rest: `similarity`.
* The columns of U in Eq. 5 lie in sample space for a matrix of samples by features and cannot be compared; V_i are the
  right singular vectors, of centred features (the code's PCA), of all training images without augmentation; the paper
  does not say whether to centre: `centred`.
* Eq. 6 without conditions of orthogonality would give one angle r times: principal angles are meant. The code picks
  the largest signed cosines instead, which depend on signs and may exceed 90°: `angles`. A client with fewer
  directions than r has as many angles; one with none overlaps with nobody.
* λ is 0.01, at which Table 3 repeats a number of Table 1, where the text of B.1 says 1; the code has the other sign (λ
  = −0.01).
* α counts while t < 0.7·T, the code's t/T ≤ 0.7 one round longer, and never ends by default there: `until`. Subspaces
  travel in every round, as in Algorithm 1, unless α is 0 from the start.
* (α, β) is (0.9, 1.4), in pathological partitions (0.5, 1.6); (0, β) and (α, 0) are the networks of Fig. 3.
* α of pictures and texts is 0.7, β is 1.2. Within a modality S compares all parameters; the paper does not say. In a
  round of one modality nothing can cross, and heads are mixed by W too.
"""

from dataclasses import replace
from math import inf

from fedgrid.methods import Federation, Identity, State, Tensor, Tree, hp
from fedgrid.methods.common.simplex import minimum
from fedgrid.methods.common.subspaces import directions, feature_moments, greedy_angles, overlap, principal_angles
from fedgrid.methods.pfedgraph import ALONE, PFedGraph

NEITHER = {"alpha": 0.0, "beta": 0.0, "lam": 0.0}


class FedSaC(PFedGraph):
    title = "FedSaC"
    source = "Yan et al., ICML 2024"
    cite = "fedsac"
    shares = "θ, directions of features"
    up = "|θ| + directions·k"
    multimodal = True
    matrices = ["graph", "similarity", "complementarity"]
    identities = [
        Identity("pfedgraph", {"alpha": 0.0, "beta": 1.25}, {"alpha": 0.8}, exact=False),
        Identity("pfedgraph", {"until": 0.0, "beta": 1.25}, {"alpha": 0.8}, exact=False),
        Identity("fedavg", NEITHER, exact=False),
        Identity("local", ALONE | {"alpha": 0.0, "beta": 1e9}),
        Identity("local", clients=1, settings={"lam": 0.0}),
    ]

    alpha: float = hp(0.9, low=0)
    "Weight α of complementarity (B.1; pathological: 0.5)."
    beta: float = hp(1.4, low=0)
    "Weight β of similarity (B.1; pathological: 1.6)."
    directions: int = hp(3, low=1)
    "Number r of directions of a client's features (B.1, there k)."
    until: float = hp(0.7, low=0, high=1)
    "Share of the rounds after which α is 0 (B.1)."
    angles: str = hp("principal", choices=("principal", "greedy"))
    "Between two subspaces: principal angles, or the authors' code's greedy choice of signed cosines."
    centred: bool = hp(True)
    "Directions of the features about their mean; off: about 0."

    def setup(self, fed: Federation) -> State:
        s = super().setup(fed)
        return s.update(server={"heads": s.server.graph}) if len(fed.modalities) > 1 else s

    def compared(self, fed: Federation, similar: Tensor, theta: Tree) -> dict[str, Tensor]:
        strangers = fed.modality.unsqueeze(1) != fed.modality
        matrices = {"similarity": similar.masked_fill(strangers, 0.0)}
        if self.alpha:
            with fed.phase("subspaces"):
                matrices["complementarity"] = self.overlapping(fed, theta).masked_fill(strangers, 0.0)
        with fed.phase("optimisation"):
            sizes = fed.counts.sum(dim=1) * ~strangers
            shares = sizes / sizes.sum(dim=1, keepdim=True)
            alpha = self.weight(fed)
            shared = alpha * matrices.get("complementarity", similar.new_zeros(similar.shape))
            matrices["graph"] = self.mixing(shares, similar, shared.masked_fill(strangers, inf))
            if "heads" in fed.state.server:
                heads = replace(self, layers="head").similar(fed, fed.state.clients.theta, theta)
                matrices["heads"] = self.mixing(fed.weights, heads) if strangers.any() else matrices["graph"]
        return matrices

    def overlapping(self, fed: Federation, theta: Tree) -> Tensor:
        """C [n, n]."""
        moments = fed.measure(theta, feature_moments)
        bases = directions(moments.sums, moments.squares, fed.counts.sum(dim=1), self.directions, self.centred)
        bases = fed.upload(bases.type_as(theta["head.weight"]), bases.any(dim=2))
        angles = {"principal": principal_angles, "greedy": greedy_angles}[self.angles](bases)
        return overlap(bases, angles)

    def mixed(self, graphs: dict[str, Tensor], theta: Tree) -> Tree:
        if "heads" not in graphs:
            return super().mixed(graphs, theta)
        return graphs["graph"] @ theta.part("extractor") | graphs["heads"] @ theta.part("head")

    def weight(self, fed: Federation) -> float:
        """α in a round; of a study that uses it throughout, the number of rounds is not read."""
        return self.alpha if self.until >= 1 or fed.round < self.until * fed.training.rounds - 1e-9 else 0.0

    def mixing(self, shares: Tensor, similar: Tensor, overlapping: Tensor | float = 0.0) -> Tensor:
        """W from p [n], S [n, n] and α·C [n, n]."""
        return minimum(1.0, -2 * shares + overlapping - self.beta * similar)
