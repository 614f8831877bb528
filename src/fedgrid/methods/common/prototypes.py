"""Class means of representations (prototypes), with masks for absent classes, and the contrast against them.

A class that nobody has seen is *unknown*: it is masked out everywhere. A zero vector in its place would have cosine 0
with everything and act as a negative that does not exist.
"""

import torch
from torch import Tensor
from torch.nn.functional import normalize, one_hot

from fedgrid.engine.local.task import Measurement
from fedgrid.methods import Batch, Federation, LossContext, State, Tree, counts_filled

FAR = -1e9
"Stands for −∞ in a logit, where −∞ itself would make a gradient NaN."


def unknown(theta: Tree) -> dict[str, Tensor]:
    """Prototypes [C, k] before anyone has sent one, and which classes are `known` [C]: none."""
    zero = torch.zeros_like(theta["head.weight"])
    return {"prototypes": zero, "known": zero.any(dim=1)}


@counts_filled
def class_sums(theta: Tree, batch: Batch, at: LossContext) -> dict[str, Tensor]:
    """Sums [C, k] of the representations of each class; a measurement for `Federation.measure`."""
    return {"sums": summed_by_class(at.model.features(theta, batch.x), batch, at.model.classes)}


@counts_filled
def class_moments(theta: Tree, batch: Batch, at: LossContext) -> dict[str, Tensor]:
    """Sums [C, k] of the representations of each class, and ``squares``, the sum of all their squared norms."""
    z = batch.only_counted(at.model.features(theta, batch.x))
    return {"sums": summed_by_class(z, batch, at.model.classes), "squares": z.square().sum()}


def summed_by_class(z: Tensor, batch: Batch, classes: int) -> Tensor:
    """Sums [C, k] of representations z [B, k] over each class."""
    return batch.only_counted(one_hot(batch.y, classes).to(z.dtype)).T @ z


def class_means(sums: Tensor, counts: Tensor) -> Tensor:
    """μ_{i,c} = sums / counts for stacks [n, C, k] and [n, C]; 0 where a client lacks the class (mask it)."""
    return sums / counts.clamp(min=1).unsqueeze(-1).to(sums.dtype)


def local_means(fed: Federation, theta: Tree) -> Tensor:
    """μ_{i,c} [n, C, k] of all training images under the models `theta`, in evaluation mode."""
    return class_means(fed.measure(theta, class_sums).sums, fed.counts)


def aggregate(means: Tensor, counts: Tensor, previous: Tensor, known: Tensor) -> tuple[Tensor, Tensor]:
    """Global prototypes G_c = Σ_i n_{i,c} μ_{i,c} / Σ_i n_{i,c} [C, k] (FedCoSR, Eq. 6), and which are known [C].

    `means` [n, C, k], `counts` [n, C]; a class without samples this round keeps its `previous` [C, k] and `known` [C].
    """
    total = counts.sum(dim=0)
    covered = total > 0
    share = (counts / total.clamp(min=1)).unsqueeze(-1)
    fresh = (share * means.double()).sum(dim=0).to(previous.dtype)
    return torch.where(covered.unsqueeze(-1), fresh, previous), known | covered


def collected(fed: Federation, s: State, means: Tensor, counts: Tensor | None = None) -> dict[str, Tensor | Tree]:
    """The new entries of ``s.server`` once all clients have sent the means [n, C, k] of the classes that they have.

    `counts` [n, C] weigh them in `aggregate`: the clients' images unless given.
    """
    sent = fed.upload(means, fed.counts > 0)
    weights = fed.counts if counts is None else counts
    prototypes, known = aggregate(sent, weights, s.server.prototypes, s.server.known)
    return {"prototypes": prototypes, "known": known}


def info_nce(z: Tensor, labels: Tensor, prototypes: Tensor, known: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """InfoNCE of representations z [B, k] against class prototypes [C, k]: (sum over samples, samples that count).

    For a sample of class y, by `labels` [B]: log Σ_c exp(cos(z, G_c)/τ) − cos(z, G_y)/τ over the `known` [C] classes
    (FedCoSR, Eqs. 12–13); a sample whose own class is unknown does not count.
    """
    values, counted = contrasts(z, labels, prototypes, known, temperature)
    return values.sum(), counted.sum()


def contrasts(
    z: Tensor, labels: Tensor, prototypes: Tensor, known: Tensor, temperature: float
) -> tuple[Tensor, Tensor]:
    """The terms of `info_nce` [B], 0 for samples that do not count, and which do [B]."""
    similarity = normalize(z, dim=1, eps=1e-8) @ normalize(prototypes, dim=1, eps=1e-8).T
    logits = torch.where(known, similarity / temperature, FAR)
    own_class = logits.gather(1, labels.unsqueeze(1)).squeeze(1)
    counted = known[labels]
    return torch.where(counted, torch.logsumexp(logits, dim=1) - own_class, 0.0), counted


def contrast_sums(temperature: float) -> Measurement:
    """A measurement for `Federation.measure` of `info_nce` with the server's prototypes: its ``total``, ``samples``."""

    @counts_filled
    def sums(theta: Tree, batch: Batch, at: LossContext) -> dict[str, Tensor]:
        z, shared = at.model.features(theta, batch.x), at.server
        terms = contrasts(z, batch.y, shared.prototypes, shared.known, temperature)
        total, samples = (batch.only_counted(term).sum() for term in terms)
        return {"total": total, "samples": samples}

    return sums


def mean_contrast(z: Tensor, labels: Tensor, prototypes: Tensor, known: Tensor, temperature: float) -> Tensor:
    """The mean of `info_nce` over the samples that count; 0 where none does."""
    total, samples = info_nce(z, labels, prototypes, known, temperature)
    return total / samples.clamp(min=1)
