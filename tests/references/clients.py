"""Clients in plain tensors, and what all equations need of them.

Five clients of unequal size, one of them with a single image, train a perceptron in float64. Each lacks most classes,
nobody has the last ones, three take part in a round, and one never does. Test images have other labels. Of fedgrid come
the images, the order of the batches, what is drawn at random, and θ⁰; everything else is computed here, client by
client.
"""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, linear, relu

from fedgrid.engine.federation.participation import participants
from fedgrid.engine.local.task import LocalTask
from fedgrid.randomness import generator
from fedgrid.suite import simulations

LABELS = [[0, 0, 1, 1, 2, 0, 1], [1, 2, 2, 3, 3], [6], [3, 0, 4, 4, 5, 5], [2, 0, 7]]
CLASSES, WIDTH, ETA, BATCH, ROUNDS, SEED = 10, 8, 0.1, 3, 4, 55
EXTRACTOR = [f"extractor.{layer}.{kind}" for layer in (1, 3) for kind in ("weight", "bias")]
HEAD = ["head.weight", "head.bias"]
NAMES = EXTRACTOR + HEAD

Theta = dict[str, Tensor]
"Parameters by name."
Batch = tuple[Tensor, Tensor]
"Images [B, 64] and labels [B]."
Loss = Callable[[Theta, Tensor, Tensor], Tensor]
"(θ, images, labels) → loss."


class Clients:
    """The clients of one federation; `training` are settings of a study beside the usual ones."""

    def __init__(self, **training: object):
        usual = {
            "rounds": ROUNDS,
            "eval_every": 99,
            "lr": ETA,
            "batch_size": BATCH,
            "participation": 0.6,
            "local_epochs": 2,
        }
        train = [simulations.draw(labels, start=100 * i) for i, labels in enumerate(LABELS)]
        test = [
            simulations.draw([(c + 1) % CLASSES for c in labels], start=1000 + 60 * i)
            for i, labels in enumerate(LABELS)
        ]
        self.simulation = simulations.simulation(train, test, seed=SEED, dtype="float64", **usual | training)
        self.ids = range(len(LABELS))
        self.start: Theta = {name: t.double() for name, t in self.simulation.model.initial(SEED).items()}
        self.counts = torch.tensor(np.array([np.bincount(labels, minlength=CLASSES) for labels in LABELS]))
        "Images of each client and class [N, C]."
        self.n = self.counts.sum(dim=1).double()
        self.x, self.y = zip(*(self._images(index) for index in self.simulation.data.train), strict=True)

    def _images(self, index: Tensor) -> Batch:
        data = self.simulation.data
        return ((data.images[index].double() - data.centre) / data.spread).flatten(1), data.labels[index]

    def drawn(self, t: int) -> list[int]:
        """Who takes part in round t."""
        return participants(self.simulation, t).tolist()

    def weights(self, ids: Sequence[int]) -> Tensor:
        """p_i of some clients: their shares of the images."""
        return self.n[list(ids)] / self.n[list(ids)].sum()

    def batches(self, i: int, t: int, epochs: int | None = None, stream: str = "main") -> list[Batch]:
        """The batches of a client's local training in round t; each `stream` has another order."""
        s = self.simulation
        size, epochs = s.training.batch_size, s.training.local_epochs if epochs is None else epochs
        task = LocalTask(s.data, s.data.train, s.model, size, SEED, t, [i], {}, {}, {}, stream=stream)
        orders = [torch.from_numpy(task.order(i, epoch)) for epoch in range(epochs)]
        return [(self.x[i][some], self.y[i][some]) for order in orders for some in order.split(size)]

    def random(self, t: int, purpose: str) -> np.random.Generator:
        """What a method draws from in round t, see `Federation.random`."""
        return generator(f"method {purpose}", SEED, t)


def features(theta: Theta, x: Tensor) -> Tensor:
    """Representations z [B, k]."""
    hidden = relu(linear(x, theta["extractor.1.weight"], theta["extractor.1.bias"]))
    return relu(linear(hidden, theta["extractor.3.weight"], theta["extractor.3.bias"]))


def head(theta: Theta, z: Tensor) -> Tensor:
    """Logits [B, C] of representations."""
    return linear(z, theta["head.weight"], theta["head.bias"])


def logits(theta: Theta, x: Tensor) -> Tensor:
    """Logits [B, C] of images."""
    return head(theta, features(theta, x))


def plain(theta: Theta, x: Tensor, y: Tensor) -> Tensor:
    """Mean cross entropy."""
    return cross_entropy(logits(theta, x), y)


def slope(loss: Loss, theta: Theta, batch: Batch, names: Iterable[str] = NAMES) -> Theta:
    """The gradient of a loss in the parameters of some names."""
    free = {name: theta[name].detach().clone().requires_grad_() for name in names}
    gradient = torch.autograd.grad(loss({**theta, **free}, *batch), list(free.values()), allow_unused=True)
    zero = {name: torch.zeros_like(t) for name, t in free.items()}
    return {name: zero[name] if g is None else g for name, g in zip(free, gradient, strict=True)}


def sgd(
    theta: Theta,
    batches: Sequence[Batch],
    loss: Loss = plain,
    rate: float = ETA,
    names: Iterable[str] = NAMES,
    momentum: float = 0.0,
) -> Theta:
    """θ ← θ − η·v, v ← ρv + ∇loss, batch after batch, on `names` alone; v starts at 0."""
    theta, speed = dict(theta), dict.fromkeys(names, 0.0)
    for batch in batches:
        speed = {name: momentum * speed[name] + g for name, g in slope(loss, theta, batch, names).items()}
        theta |= {name: theta[name] - rate * v for name, v in speed.items()}
    return theta


def mixed(weights: Iterable[float | Tensor], thetas: Sequence[Theta]) -> Theta:
    """Σ w_i θ_i."""
    weights = list(weights)
    return {name: sum(w * theta[name] for w, theta in zip(weights, thetas, strict=True)) for name in thetas[0]}


# What methods need that exchange class means

Means = dict[int, Tensor]
"Vectors [k] by class."


def unit(vectors: Tensor) -> Tensor:
    """v/‖v‖, of every row."""
    return vectors / vectors.norm(dim=-1, keepdim=True)


def class_means(z: Tensor, y: Tensor) -> Means:
    """μ_c of the classes among some representations."""
    return {label: z[y == label].mean(dim=0) for label in y.unique().tolist()}


def pooled(means: Sequence[Means], counts: Sequence[Tensor] | None = None) -> Means:
    """G_c: the mean of clients' μ_c over those that have c, weighted by their images [C] of the class, or equally."""
    weights = [torch.ones(CLASSES)] * len(means) if counts is None else counts
    centres = {}
    for label in range(CLASSES):
        having = [i for i, own in enumerate(means) if label in own]
        if having:
            total = sum(weights[i][label] for i in having)
            centres[label] = sum(weights[i][label] * means[i][label] for i in having) / total
    return centres


def table(means: Means) -> Tensor:
    """Means as rows [C, k], zeros for a class that has none."""
    return torch.stack([means.get(label, torch.zeros(WIDTH, dtype=torch.float64)) for label in range(CLASSES)])


def pulled(weight: float, targets: Means) -> Loss:
    """Cross entropy + weight·MSE(z, targets[y]); samples without a target add 0 and stay in the mean's divisor B·k."""

    def loss(theta: Theta, x: Tensor, y: Tensor) -> Tensor:
        z = features(theta, x)
        target = torch.stack([targets.get(label, z[b].detach()) for b, label in enumerate(y.tolist())])
        return cross_entropy(head(theta, z), y) + weight * (z - target).square().mean()

    return loss


def contrasts(z: Tensor, y: Tensor, bank: Means, temperature: float, others: bool = False) -> list[Tensor]:
    """−log(e^{z·v_y/τ} / Σ_c e^{z·v_c/τ}) of every sample whose class has a v; with `others` the sum is over c ≠ y."""
    values = []
    for vector, label in zip(z, y.tolist(), strict=True):
        if label in bank:
            logit = {c: vector @ v / temperature for c, v in bank.items()}
            denominator = [value for c, value in logit.items() if c != label or not others]
            values.append(torch.stack(denominator).logsumexp(dim=0) - logit[label])
    return values


def mean(values: Sequence[Tensor]) -> float | Tensor:
    """Their mean, 0 if there are none."""
    return sum(values) / len(values) if values else 0.0


def flat(theta: Theta, names: Iterable[str] = NAMES) -> Tensor:
    """The parameters of some names as one vector."""
    return torch.cat([theta[name].flatten() for name in names])


def cosine(a: Tensor, b: Tensor) -> Tensor:
    """cos(a, b) over the last axis, 0 beside a vector of zeros."""
    return (a * b).sum(-1) / (a.norm(dim=-1) * b.norm(dim=-1)).clamp(min=1e-12)
