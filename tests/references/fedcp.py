"""FedCP (Zhang et al., KDD 2023): a gate splits z between the own head, π_i(r⊙z), and the received one, π((1 − r)⊙z).

The loss is CE of their sum + λ·MMD²(z, z′), with z′ of the received extractor; extractor, gate and (π_i + π)/2 are
averaged.
"""

import torch
from references.clients import HEAD, NAMES, SEED, WIDTH, Clients, features, head, mixed, sgd
from torch.nn.functional import cross_entropy, layer_norm, linear, relu

from fedgrid.engine.local.task import LocalTask
from fedgrid.randomness import uniform

SETTINGS = ({}, {"lam": 5.0}, {"lam": 0.5})
GATE = ["gate.weight", "gate.bias", "gate.scale", "gate.shift"]


def uniforms(c: Clients, i: int, t: int, purpose: str, width: int) -> list[torch.Tensor]:
    """What a loss draws in each of a client's batches in round t: numbers in [0, 1) [B, width]."""
    s = c.simulation
    task = LocalTask(s.data, s.data.train, s.model, s.training.batch_size, SEED, t, [i], {}, {}, {})
    sizes = [len(y) for _, y in c.batches(i, t)]
    numbers = range(len(sizes) // s.training.local_epochs)
    keys = [task.key(i, epoch) + number for epoch in range(s.training.local_epochs) for number in numbers]
    like = [torch.empty(size, width, dtype=torch.float64) for size in sizes]
    return [uniform(key, purpose, matrix) for key, matrix in zip(keys, like, strict=True)]


def share(theta, z, v, noise):
    """r [B, k], where the noise is G_a − G_b."""
    u = linear(z * v / v.norm(), theta["gate.weight"], theta["gate.bias"])
    a, b = relu(layer_norm(u, u.shape[1:], theta["gate.scale"], theta["gate.shift"])).split(WIDTH, dim=1)
    return torch.softmax(torch.stack([a + noise, b]), dim=0)[0]


def kernel(first, second):
    """Mean over all pairs of Σ_s exp(−d²/(2s))."""
    squares = (first[:, None] - second[None]).square().sum(dim=2)
    return sum(torch.exp(-squares / (2 * s)).mean() for s in (10, 15, 20, 50))


def state(c: Clients, lam=None):
    lam = 0.0025 / c.simulation.training.lr if lam is None else lam
    w = dict(c.start)
    for name, shape in (("weight", (2 * WIDTH, WIDTH)), ("bias", (2 * WIDTH,))):
        unit = torch.from_numpy(c.random(0, f"gate {name}").random(shape, dtype="float32"))
        w[f"gate.{name}"] = ((2 * unit - 1) / WIDTH**0.5).double()
    w["gate.scale"] = torch.ones(2 * WIDTH, dtype=torch.float64)
    w["gate.shift"] = torch.zeros(2 * WIDTH, dtype=torch.float64)
    own = [{name: w[name] for name in HEAD}] * len(c.ids)
    for t in range(c.simulation.training.rounds):
        drawn, sent = c.drawn(t), []
        for i in drawn:
            v = own[i]["head.weight"].sum(dim=0)

            def loss(theta, x, y, u, w=w, v=v):
                z, received = features(theta, x), features(w, x)
                r = share(theta, z, v, torch.log(u / (1 - u)))
                distance = kernel(z, z) + kernel(received, received) - 2 * kernel(z, received)
                return cross_entropy(head(theta, r * z) + head(w, (1 - r) * z), y) + lam * distance

            draws = uniforms(c, i, t, "gate", WIDTH)
            batches = [(x, y, u) for (x, y), u in zip(c.batches(i, t), draws, strict=True)]
            theta = sgd({**w, **own[i]}, batches, loss, names=[*NAMES, *GATE])
            own[i] = {name: theta[name] for name in HEAD}
            sent.append({**theta, **{name: (theta[name] + w[name]) / 2 for name in HEAD}})
        w = mixed(c.weights(drawn), sent)
    return {"theta": w}, [{"head": of_client} for of_client in own]


def used(c: Clients, server, own, **_):
    return [server["theta"] | entries["head"] for entries in own]
