"""pFedHN (Shamsian et al., ICML 2021, Algorithm 1): a client trains θ = h(v_i; Φ) to θ̃, and the server steps along
(∂h/∂(Φ, v_i))ᵀ(θ − θ̃) with momentum.
"""

import torch
from references.clients import EXTRACTOR, HEAD, NAMES, Clients, sgd
from torch.nn.functional import linear, relu

SETTINGS = (
    {"local_steps": 10},
    {"local_steps": None, "hidden": 7, "depth": 1, "embedding": 3, "clients_at_once": None, "clip": 0.02},
    {"local_steps": 5, "hidden": 6, "depth": 0, "clients_at_once": 2, "momentum": 0.8, "decay": 0.01},
    {"local_steps": 3, "hidden": 5, "clients_at_once": 2, "server_step": "mean", "own_head": True, "embedding_lr": 0.5},
)


def start(c: Clients, made, embedding, hidden, depth):
    """Embeddings from N(0, 1), layers as torch's: uniform within 1/√(inputs)."""
    shapes = {f"hidden.{layer}": (hidden, hidden if layer else embedding) for layer in range(depth + 1)}
    shapes |= {f"out.{name}": (c.start[name].numel(), hidden) for name in made}
    v = c.random(0, "hypernetwork embedding").standard_normal((len(c.ids), embedding))
    phi = {"embedding": torch.from_numpy(v)}
    for layer, (outputs, inputs) in shapes.items():
        for name, shape in ((f"{layer}.weight", (outputs, inputs)), (f"{layer}.bias", (outputs,))):
            unit = 2 * c.random(0, f"hypernetwork {name}").random(shape, dtype="float32") - 1
            phi[name] = torch.from_numpy(unit / inputs**0.5)
    return {name: t.double() for name, t in phi.items()}


def generated(c: Clients, phi, i, made, depth):
    """h(v_i; Φ)."""
    z = phi["embedding"][i]
    for layer in range(depth + 1):
        z = linear(relu(z) if layer else z, phi[f"hidden.{layer}.weight"], phi[f"hidden.{layer}.bias"])
    outputs = {name: linear(z, phi[f"out.{name}.weight"], phi[f"out.{name}.bias"]) for name in made}
    return {name: t.view_as(c.start[name]) for name, t in outputs.items()}


def state(
    c: Clients,
    embedding=None,
    hidden=100,
    depth=3,
    clients_at_once=1,
    server_lr=0.01,
    embedding_lr=None,
    momentum=0.9,
    decay=1e-3,
    clip=50.0,
    server_step="sequential",
    own_head=False,
    local_steps=50,
):
    made = EXTRACTOR if own_head else NAMES
    heads = [{name: c.start[name] for name in HEAD}] * len(c.ids)
    phi = start(c, made, 1 + len(c.ids) // 4 if embedding is None else embedding, hidden, depth)
    speed = {name: torch.zeros_like(t) for name, t in phi.items()}

    def gradient(i, delta):
        """(∂h/∂(Φ, v_i))ᵀ Δ_i at the Φ of the moment."""
        free = {name: t.clone().requires_grad_() for name, t in phi.items()}
        product = sum((t * delta[name]).sum() for name, t in generated(c, free, i, made, depth).items())
        return dict(zip(free, torch.autograd.grad(product, list(free.values())), strict=True))

    for t in range(c.simulation.training.rounds):
        drawn = c.drawn(t)
        order = [drawn[place] for place in c.random(t, "order").permutation(len(drawn))]
        m = clients_at_once or len(drawn)
        for together in (order[k : k + m] for k in range(0, len(order), m)):
            deltas = {}
            for i in together:
                theta = generated(c, phi, i, made, depth)
                batches = c.batches(i, t) if local_steps is None else c.batches(i, t, local_steps)[:local_steps]
                trained = sgd(heads[i] | theta, batches)
                deltas[i] = {name: theta[name] - trained[name] for name in made}
                heads[i] = {name: trained[name] for name in HEAD}
            steps = [[i] for i in together] if server_step == "sequential" else [together]
            for clients in steps:
                gradients = [gradient(i, deltas[i]) for i in clients]
                g = {name: sum(each[name] for each in gradients) / len(gradients) for name in phi}
                norm = sum(t.square().sum() for t in g.values()).sqrt()
                for name in phi:
                    rate = embedding_lr if name == "embedding" and embedding_lr is not None else server_lr
                    clipped = g[name] * min(1.0, clip / norm)
                    speed[name] = momentum * speed[name] + clipped + decay * phi[name]
                    phi[name] = phi[name] - rate / len(steps) * speed[name]
    return {"phi": phi, "speed": speed}, [{"head": head} for head in heads] if own_head else []


def used(c: Clients, server, own, own_head=False, depth=3, **_):
    made = EXTRACTOR if own_head else NAMES
    heads = [entries["head"] for entries in own] or [{}] * len(c.ids)
    return [generated(c, server["phi"], i, made, depth) | heads[i] for i in c.ids]
