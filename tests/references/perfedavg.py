"""Per-FedAvg (Fallah, Mokhtari & Ozdaglar, NeurIPS 2020, Algorithm 1): meta-steps of first order, or Hessian-free."""

import torch
from references.clients import ETA, Clients, mixed, plain, sgd, slope

SETTINGS = (
    {},
    {"alpha": 0.05, "beta": 0.2, "momentum": 0.5, "adaptation_steps": None},
    {"version": "hf", "delta": 0.01},
    # With one pass, some clients have batches left over that make no meta-step.
    {"version": "hf", "passes": 1, "alpha": 0.3},
)


def moved(theta, step, direction):
    """θ + step·direction."""
    return mixed([1.0, step], [theta, direction])


def state(c: Clients, version="fo", alpha=ETA, beta=ETA, momentum=0.0, delta=1e-3, passes=None, **_):
    size = {"fo": 2, "hf": 3}[version]
    epochs = c.simulation.training.local_epochs * (size if passes is None else passes)
    w = c.start
    for t in range(c.simulation.training.rounds):
        drawn, uploads = c.drawn(t), []
        for i in drawn:
            theta, speed = w, {name: torch.zeros_like(x) for name, x in w.items()}
            batches = c.batches(i, t, epochs)
            for k in range(len(batches) // size):
                inner, outer, *third = batches[k * size : (k + 1) * size]
                step = d = slope(plain, moved(theta, -alpha, slope(plain, theta, inner)), outer)
                if version == "hf":
                    above, below = (slope(plain, moved(theta, side, d), third[0]) for side in (delta, -delta))
                    step = mixed([1.0, -alpha / (2 * delta), alpha / (2 * delta)], [d, above, below])
                speed = mixed([momentum, 1.0], [speed, step])
                theta = moved(theta, -beta, speed)
            uploads.append(theta)
        w = mixed(c.weights(drawn), uploads)
    return {"theta": w}, []


def used(c: Clients, server, own, alpha=ETA, adaptation_steps=1, **_):
    batches = [c.batches(i, c.simulation.training.rounds, 1, stream="adapt")[:adaptation_steps] for i in c.ids]
    return [sgd(server["theta"], some, rate=alpha) for some in batches]
