"""FedBN (Li et al., ICLR 2021, Algorithm 1): ω ← Σ p_i ω_i; batch-norm layers stay with the client."""

import torch
from references.clients import HEAD, Clients, head, mixed, sgd
from torch.nn.functional import cross_entropy, linear, relu

# batches of two or three images have small variances, which amplify rounding; six leave one image of seven over
TRAINING = {"norm": "batch", "batch_size": 6, "lr": 0.02}
SETTINGS = ({}, {"local_part": "nothing"}, {"local_part": "all"})
LINEAR = [f"extractor.{layer}.{kind}" for layer in (1, 4) for kind in ("weight", "bias")] + HEAD
AFFINE = [f"extractor.{layer}.{kind}" for layer in (2, 5) for kind in ("weight", "bias")]
STATISTICS = [f"extractor.{layer}.running_{kind}" for layer in (2, 5) for kind in ("mean", "var")]


def normalised(theta, layer, u, mean, var):
    name = f"extractor.{layer}"
    return theta[f"{name}.weight"] * (u - mean) / torch.sqrt(var + 1e-5) + theta[f"{name}.bias"]


def passed(theta, x):
    """Representations in training, and what batch norm saw; a batch of one is normalised by θ's statistics."""
    seen = {}
    for layer in (1, 4):
        u = linear(x, theta[f"extractor.{layer}.weight"], theta[f"extractor.{layer}.bias"])
        name = f"extractor.{layer + 1}"
        seen[name] = u
        mean, var = theta[f"{name}.running_mean"], theta[f"{name}.running_var"]
        if len(u) > 1:
            mean, var = u.mean(dim=0), u.var(dim=0, correction=0)
        x = relu(normalised(theta, layer + 1, u, mean, var))
    return x, seen


def loss(theta, x, y):
    return cross_entropy(head(theta, passed(theta, x)[0]), y)


def measured(theta, batches):
    """θ with the statistics of a client's images, in batches, under its trained parameters."""
    total, first, second = 0, {}, {}
    for x, _ in batches:
        total += len(x)
        for name, u in passed(theta, x)[1].items():
            first[name] = first.get(name, 0) + u.sum(dim=0)
            second[name] = second.get(name, 0) + u.square().sum(dim=0)
    if total < 2:
        return theta
    theta = dict(theta)
    for name in first:
        mean = first[name] / total
        theta |= {f"{name}.running_mean": mean, f"{name}.running_var": second[name] / total - mean.square()}
    return theta


def state(c: Clients, local_part="norm"):
    shared = {"norm": LINEAR, "nothing": LINEAR + AFFINE + STATISTICS, "all": []}[local_part]
    w, theta = {name: c.start[name] for name in shared}, [c.start] * len(c.ids)
    for t in range(c.simulation.training.rounds):
        drawn = c.drawn(t)
        for i in drawn:
            trained = sgd({**theta[i], **w}, c.batches(i, t), loss, c.simulation.training.lr, names=LINEAR + AFFINE)
            theta[i] = measured(trained, c.batches(i, t, 1, stream="statistics"))
        if shared:
            w = mixed(c.weights(drawn), [{name: theta[i][name] for name in shared} for i in drawn])
    return {"theta": w}, [{"theta": own} for own in theta]
