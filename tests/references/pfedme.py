"""pFedMe (T. Dinh, Tran & Nguyen, NeurIPS 2020, Algorithm 1): ϑ descends F_i + λ/2·‖ϑ − w_i‖², and w_i moves to ϑ."""

from references.clients import ETA, Clients, mixed, plain, slope

MODEL = "personal"
SETTINGS = ({}, {"lam": 4.0, "beta": 0.6, "inner_steps": 2, "outer_lr": 0.2, "inner_decay": 0.01, "warm": False})


def state(c: Clients, lam=15.0, beta=1.0, inner_steps=5, inner_lr=0.05, outer_lr=ETA, inner_decay=0.0, warm=True):
    w, personal = c.start, [c.start] * len(c.ids)
    for t in range(c.simulation.training.rounds):
        drawn, uploads = c.drawn(t), []
        for i in drawn:
            local = v = w
            for batch in c.batches(i, t):
                v = v if warm else local
                for _ in range(inner_steps):
                    g = slope(plain, v, batch)
                    slopes = {k: g[k] + lam * (v[k] - local[k]) + inner_decay * v[k] for k in v}
                    v = {k: v[k] - inner_lr * slopes[k] for k in v}
                local = {k: local[k] - outer_lr * lam * (local[k] - v[k]) for k in v}
            personal[i] = v
            uploads.append(local)
        w = mixed([1 - beta, beta], [w, mixed(c.weights(drawn), uploads)])
    return {"theta": w}, [{"personal": v} for v in personal]
