"""FedExP (Jhunjhunwala et al., ICLR 2023): w ← w + η_g·Δ, η_g = max{1, Σ p_i‖Δ_i‖² / (2(‖Δ‖² + n·ε))}."""

from references.clients import Clients, flat, mixed, sgd

SETTINGS = ({}, {"eps": 1e-6, "averaged": False})


def state(c: Clients, eps=0.001, averaged=True):
    w = before = c.start
    for t in range(c.simulation.training.rounds):
        drawn, before = c.drawn(t), w
        p = c.weights(drawn)
        updates = [mixed([1, -1], [sgd(w, c.batches(i, t)), w]) for i in drawn]
        mean = mixed(p, updates)
        squares = sum(p_i * flat(update).square().sum() for p_i, update in zip(p, updates, strict=True))
        rate = max(1.0, float(squares / (2 * (flat(mean).square().sum() + len(drawn) * eps))))
        w = mixed([1, rate], [w, mean])
    return {"theta": w, "previous": before} if averaged else {"theta": w}, []
