"""GPFL (Zhang et al., ICCV 2023): features z pass a valve under a condition u, V(z, u) = ReLU((1 + γ(u))⊙z + β(u)), for
the client's own head and for class embeddings e that all share.
"""

import torch
from references.clients import CLASSES, EXTRACTOR, HEAD, NAMES, WIDTH, Clients, cosine, features, head, mixed, sgd
from torch.nn.functional import cross_entropy, layer_norm, linear, relu

SETTINGS = ({}, {"lam": 1.0, "mu": 0.0}, {"lam": 0.0, "mu": 0.5})
VALVE = [f"guide.{part}.{kind}" for part in ("gamma", "beta") for kind in ("weight", "bias", "scale", "shift")]
GUIDE = ["guide.embeddings", *VALVE]


def start(c: Clients):
    """Embeddings from N(0, 1), layers as torch's: uniform within 1/√k, and the identity after normalisation."""
    guide = {name: torch.ones(WIDTH) if name.endswith("scale") else torch.zeros(WIDTH) for name in VALVE}
    embeddings = c.random(0, "guide.embeddings").standard_normal((CLASSES, WIDTH), dtype="float32")
    guide["guide.embeddings"] = torch.from_numpy(embeddings)
    for part in ("gamma", "beta"):
        for kind, shape in (("weight", (WIDTH, WIDTH)), ("bias", (WIDTH,))):
            name = f"guide.{part}.{kind}"
            guide[name] = torch.from_numpy(2 * c.random(0, f"{name}").random(shape, dtype="float32") - 1)
            guide[name] = guide[name] / WIDTH**0.5
    return {name: t.double() for name, t in guide.items()}


def valve(theta, z, u):
    """V(z, u)."""

    def layers(part):
        hidden = relu(linear(u, theta[f"guide.{part}.weight"], theta[f"guide.{part}.bias"]))
        return layer_norm(hidden, (WIDTH,), theta[f"guide.{part}.scale"], theta[f"guide.{part}.shift"])

    return relu((1 + layers("gamma")) * z + layers("beta"))


def state(c: Clients, lam=0.01, mu=1.0):
    server = {name: c.start[name] for name in EXTRACTOR} | start(c)
    heads = [{name: c.start[name] for name in HEAD}] * len(c.ids)
    for t in range(c.simulation.training.rounds):
        drawn, trained = c.drawn(t), []
        received = server["guide.embeddings"]
        for i in drawn:
            p = (c.counts[i] / c.n[i]) @ received

            def loss(theta, x, y, p=p, received=received):
                z, e = features(theta, x), theta["guide.embeddings"]
                generic, personal = valve(theta, z, received.mean(dim=0)), valve(theta, z, p)
                decay = sum(theta[name].square().sum() for name in GUIDE)
                told_apart = cross_entropy(cosine(generic[:, None], e), y)
                distance = (generic - received[y]).norm(dim=1).mean()
                return cross_entropy(head(theta, personal), y) + told_apart + lam * distance + mu / 2 * decay

            theta = sgd(server | heads[i], c.batches(i, t), loss, names=NAMES + GUIDE)
            heads[i] = {name: theta[name] for name in HEAD}
            trained.append({name: theta[name] for name in server})
        server = mixed(c.weights(drawn), trained)
    return {"theta": server}, [{"head": own} for own in heads]


def used(c: Clients, server, own, **_):
    shares = c.counts / c.n[:, None]
    conditions = [{"condition": share @ server["theta"]["guide.embeddings"]} for share in shares]
    return [server["theta"] | entries["head"] | u for entries, u in zip(own, conditions, strict=True)]
