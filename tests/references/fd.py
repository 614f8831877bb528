"""FD (Jeong et al., 2018): CE + λ·CE(G_iy, logits), with G_ic the mean of F_jc over the others j that have class c.

F_jc is the mean of softmax(logits) over j's images of c, in the last round in which it took part.
"""

import torch
from references.clients import CLASSES, Clients, logits, plain, sgd
from torch.nn.functional import cross_entropy

SETTINGS = ({}, {"lam": 0.3, "exclude_own": False})


def state(c: Clients, lam=1.0, exclude_own=True):
    theta, shared = [c.start] * len(c.ids), [{} for _ in c.ids]
    for t in range(c.simulation.training.rounds):
        heard = [opinions(shared, i, exclude_own) for i in c.ids]
        for i in c.drawn(t):

            def loss(theta, x, y, told=heard[i]):
                known = [b for b, label in enumerate(y.tolist()) if label in told]
                value = plain(theta, x, y)
                for b in known:
                    value = value + lam * cross_entropy(logits(theta, x)[b], told[int(y[b])]) / len(y)
                return value

            theta[i] = sgd(theta[i], c.batches(i, t), loss)
            outputs = logits(theta[i], c.x[i]).softmax(dim=1)
            shared[i] = {label: outputs[c.y[i] == label].mean(dim=0) for label in set(c.y[i].tolist())}
    nothing = torch.zeros(CLASSES, dtype=torch.float64)
    table = [torch.stack([own.get(label, nothing) for label in range(CLASSES)]) for own in shared]
    return {"outputs": torch.stack(table)}, [{"theta": own} for own in theta]


def opinions(shared, i, exclude_own):
    """G_i by class."""
    others = [own for j, own in enumerate(shared) if j != i or not exclude_own]
    having = {label: [own[label] for own in others if label in own] for label in range(CLASSES)}
    return {label: sum(rows) / len(rows) for label, rows in having.items() if rows}
