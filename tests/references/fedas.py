"""FedAS (Yang et al., CVPR 2024): own heads; the received φ is aligned to the class means of the client's last model.

F_i = Σ_b ‖∇ℓ_b(θ_i)‖² over the batches of one epoch, and φ ← Σ F_i φ_i / Σ F_i.
"""

from references.clients import EXTRACTOR, Clients, class_means, features, flat, mixed, plain, sgd, slope

MODEL = "theta"
SETTINGS = ({}, {"alignment_epochs": 2, "alignment_lr": 0.05, "weighting": "count"})


def trace(theta, batches):
    """F_i."""
    return float(sum(flat(slope(plain, theta, batch)).square().sum() for batch in batches))


def state(c: Clients, alignment_epochs=1, alignment_lr=0.01, weighting="fisher"):
    phi, theta = {name: c.start[name] for name in EXTRACTOR}, [c.start] * len(c.ids)
    for t in range(c.simulation.training.rounds):
        drawn, weights = c.drawn(t), c.weights(c.drawn(t))
        for i in drawn:
            means = class_means(features(theta[i], c.x[i]), c.y[i])

            def alignment(theta, x, y, means=means):
                z = features(theta, x)
                return sum((z[y == j] - means[j]).square().mean() for j in y.unique().tolist())

            batches = c.batches(i, t, alignment_epochs, stream="align")
            aligned = sgd({**theta[i], **phi}, batches, alignment, alignment_lr, EXTRACTOR)
            theta[i] = sgd(aligned, c.batches(i, t))
        if weighting == "fisher":
            traces = [trace(theta[i], c.batches(i, t, 1, stream="fisher")) for i in drawn]
            weights = [f / sum(traces) for f in traces]
        phi = mixed(weights, [{name: theta[i][name] for name in EXTRACTOR} for i in drawn])
    return {"theta": phi}, [{"theta": own} for own in theta]
