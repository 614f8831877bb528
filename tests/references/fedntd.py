"""FedNTD (Lee et al., NeurIPS 2022): CE + β·τ²·KL(q̃ as received ‖ q̃ of the local model), over classes ≠ y."""

from references.clients import CLASSES, Clients, logits, mixed, sgd
from torch.nn.functional import cross_entropy

SETTINGS = ({}, {"beta": 0.6, "temperature": 3.0})


def divergence(local, received, y, temperature):
    """Mean over samples of Σ_{c≠y} q̃ᵍ log(q̃ᵍ/q̃ˡ)."""
    total = 0.0
    for label, ours, theirs in zip(y.tolist(), local, received, strict=True):
        others = [c for c in range(CLASSES) if c != label]
        log_l, log_g = ((z[others] / temperature).log_softmax(dim=0) for z in (ours, theirs))
        total = total + (log_g.exp() * (log_g - log_l)).sum()
    return total / len(y)


def state(c: Clients, beta=1.0, temperature=1.0):
    w = c.start
    for t in range(c.simulation.training.rounds):
        drawn, received = c.drawn(t), w

        def distilled(theta, x, y, w=received):
            z = logits(theta, x)
            return cross_entropy(z, y) + beta * temperature**2 * divergence(z, logits(w, x), y, temperature)

        w = mixed(c.weights(drawn), [sgd(received, c.batches(i, t), distilled) for i in drawn])
    return {"theta": w}, []
