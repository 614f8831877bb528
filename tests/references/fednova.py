"""FedNova (Wang et al., NeurIPS 2020, Eq. 6): w ← w − τ_eff·Σ p_i d_i with d_i = (w − θ_i)/a_i, τ_eff = Σ p_i a_i.

a_i sums what momentum makes of each step: s ← ρs + 1 from s = 0, a ← a + s.
"""

from references.clients import Clients, mixed, sgd

MOMENTUM = 0.7
SETTINGS = ({},)
TRAINING = {"momentum": MOMENTUM}


def steps(number):
    """a_i."""
    s = a = 0.0
    for _ in range(number):
        s = MOMENTUM * s + 1
        a += s
    return a


def state(c: Clients):
    w = c.start
    for t in range(c.simulation.training.rounds):
        drawn = c.drawn(t)
        p = c.weights(drawn)
        thetas = [sgd(w, c.batches(i, t), momentum=MOMENTUM) for i in drawn]
        a = [steps(len(c.batches(i, t))) for i in drawn]
        d = [{name: (w[name] - theta[name]) / a_i for name in w} for theta, a_i in zip(thetas, a, strict=True)]
        tau = sum(p_i * a_i for p_i, a_i in zip(p, a, strict=True))
        step = mixed(p, d)
        w = {name: w[name] - tau * step[name] for name in w}
    return {"theta": w}, []
