"""FedDyn (Acar et al., ICLR 2021, Algorithm 1), with d_i = −g_i/α for the paper's gradients g_i, and d̄ = −h/α."""

from references.clients import NAMES, Clients, flat, mixed, plain, sgd

SETTINGS = ({}, {"alpha": 0.5, "by_size": True})


def state(c: Clients, alpha=0.1, by_size=False):
    zero = {name: c.start[name] * 0 for name in NAMES}
    w, total, drift = c.start, zero, [zero] * len(c.ids)
    for t in range(c.simulation.training.rounds):
        drawn, trained = c.drawn(t), []
        for i in drawn:
            weight = alpha * float(c.n.mean() / c.n[i]) if by_size else alpha

            def regularised(theta, x, y, w=w, d=drift[i], a=weight):
                away = flat(theta) - flat(w)
                return plain(theta, x, y) + a / 2 * away.square().sum() + a * (flat(d) @ flat(theta))

            trained.append(sgd(w, c.batches(i, t), regularised))
            drift[i] = mixed([1, 1, -1], [drift[i], trained[-1], w])
        # clients that were never drawn have d_i = 0 and count in N
        total = mixed([1 / len(c.ids)] * len(c.ids), drift)
        w = mixed([1 / len(drawn)] * len(drawn) + [1], [*trained, total])
    return {"theta": w, "drift": total}, [{"drift": d} for d in drift]
