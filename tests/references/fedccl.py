"""FedCCL (Qiao et al., 2024, Algorithm 1, Eqs. 6–18): contrasted with all clients' signals, and with one mean a class.

No class has more than three images at a client, or signals at the server: FINCH finds one cluster, whose mean is sent.
"""

import torch
from references.clients import CLASSES, WIDTH, Clients, class_means, features, mixed, plain, sgd

# a temperature of 0.07 amplifies rounding from round to round
TRAINING = {"rounds": 3}
SETTINGS = (
    {},
    {"temperature": 0.5, "reduction": "sum", "local_weight": 0.25, "global_weight": 0.125},
    {"global_weight": 0.0, "average_local": True},
    {"local_weight": 0.0, "average_global": True},
)


def contrasted(
    z: torch.Tensor, y: torch.Tensor, vectors: torch.Tensor, classes: torch.Tensor, temperature: float
) -> torch.Tensor:
    """−log of the own class's share of Σ_m e^{cos(z, v_m)/τ}, of each sample whose class has a vector [m, k]."""
    powers = torch.exp(torch.cosine_similarity(z[:, None], vectors[None], dim=2) / temperature)
    own = (y[:, None] == classes[None]).double()
    shares = (powers * own).sum(dim=1) / powers.sum(dim=1)
    return -torch.log(shares[own.any(dim=1)])


def state(c: Clients, local_weight=1.0, global_weight=1.0, temperature=0.07, reduction="mean", **averaging):
    w, signals = c.start, {}

    def contrast(z, y, vectors):
        """Of the representations with lists of vectors by class."""
        classes = torch.tensor([j for j in vectors for _ in vectors[j]])
        values = contrasted(z, y, torch.stack([v for j in vectors for v in vectors[j]]), classes, temperature)
        return values.sum() / (max(1, len(values)) if reduction == "mean" else 1)

    for t in range(c.simulation.training.rounds):
        drawn = c.drawn(t)

        def loss(theta, x, y, bank=dict(signals)):
            if not bank:
                return plain(theta, x, y)
            z, centres = features(theta, x), {j: [sum(bank[j]) / len(bank[j])] for j in bank}
            return plain(theta, x, y) + local_weight * contrast(z, y, bank) + global_weight * contrast(z, y, centres)

        trained = [sgd(w, c.batches(i, t), loss) for i in drawn]
        means = [class_means(features(theta, c.x[i]), c.y[i]) for i, theta in zip(drawn, trained, strict=True)]
        # a class that nobody has sent keeps its signals
        signals |= {j: [sent[j] for sent in means if j in sent] for j in range(CLASSES) if any(j in m for m in means)}
        w = mixed(c.weights(drawn), trained)
    assert c.counts.max() <= 3 and max(map(len, signals.values())) <= 3
    vectors = torch.zeros(CLASSES, max(map(len, signals.values())), WIDTH, dtype=torch.float64)
    prototypes, held = torch.zeros(CLASSES, WIDTH, dtype=torch.float64), torch.zeros(vectors.shape[:2], dtype=bool)
    for j, of_class in signals.items():
        vectors[j, : len(of_class)], held[j, : len(of_class)] = torch.stack(of_class), True
        prototypes[j] = sum(of_class) / len(of_class)
    return {"theta": w, "vectors": vectors, "held": held, "prototypes": prototypes, "known": held.any(dim=1)}, []
