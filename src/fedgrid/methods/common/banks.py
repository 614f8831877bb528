"""Banks: vectors that clients share, several of a class; how they are gathered, kept and contrasted with.

A bank is padded: `vectors` [C, R, k] and `held` [C, R] (bool, False for padding), where R is the largest number of
vectors of any class at present. A class without vectors is masked out everywhere. The server takes a bank apart into a
list of C tensors [m, k] (`listed`) and puts it together again (`padded`).
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize, one_hot

from fedgrid.methods import Batch, Federation, LossContext, Tree, counts_filled
from fedgrid.methods.common.finch import cluster_means, partitions
from fedgrid.methods.common.prototypes import FAR, class_means, summed_by_class

EPS = 1e-8
"A vector shorter than this has no direction: its cosines are (nearly) 0."


def padded(groups: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Tensors [m, k] of any m as one [G, R, k], with a mask [G, R] of what is no padding; R ≥ 1."""
    lengths = [len(group) for group in groups]
    vectors = groups[0].new_zeros(len(groups), max(1, *lengths), groups[0].shape[1])
    for row, group in zip(vectors, groups, strict=True):
        row[: len(group)] = group
    sizes = vectors.new_tensor(lengths, dtype=torch.long)
    return vectors, torch.arange(vectors.shape[1], device=sizes.device) < sizes.unsqueeze(1)


def listed(vectors: Tensor, held: Tensor) -> list[Tensor]:
    """The inverse of `padded`."""
    return list(vectors[held].split(held.sum(dim=1).tolist()))


def empty(theta: Tree) -> dict[str, Tensor]:
    """The bank of C classes before anyone has sent a vector: `vectors` [C, 1, k] of zeros, `held` [C, 1] of False."""
    vectors = torch.zeros_like(theta["head.weight"]).unsqueeze(1)
    return {"vectors": vectors, "held": vectors.any(dim=2)}


def renewed(old: Sequence[Tensor], fresh: Sequence[Tensor]) -> list[Tensor]:
    """The vectors of this round; a class of which none has come keeps those that it had."""
    return [new if len(new) else previous for previous, new in zip(old, fresh, strict=True)]


def grouped(points: Tensor, **how: bool) -> Tensor:
    """The cluster [m] of each of the points [m, k] in FINCH's last partition; `how` as in `partitions`."""
    return points.new_tensor(partitions(points.cpu().numpy(), **how)[-1], dtype=torch.long)


def clustered(groups: Sequence[Tensor], **how: bool) -> list[Tensor]:
    """The means [L, k] of those clusters, for each group of points [m, k]; all groups travel in one copy each way."""
    together = torch.cat(list(groups)).cpu().numpy()
    apart = np.split(together, np.cumsum([len(points) for points in groups])[:-1])
    means = [cluster_means(points, partitions(points, **how)[-1]) for points in apart]
    return list(groups[0].new_tensor(np.concatenate(means)).split([len(means_of_client) for means_of_client in means]))


def vectors_of(bank: list[Tensor], clusters: Callable[[Tensor], Tensor]) -> dict[str, Tensor]:
    """A bank of C tensors [m, k] in the form of `Method.clusters`: label, cluster and vector of each of its vectors.

    `clusters` gives the numbers of the clusters [m] of a class's vectors [m, k]; they count within the class.
    """
    labels = torch.cat([torch.full_like(points[:, 0], c, dtype=torch.long) for c, points in enumerate(bank)])
    return {"label": labels, "cluster": torch.cat([clusters(points) for points in bank]), "vector": torch.cat(bank)}


def centres(vectors: Tensor, held: Tensor) -> tuple[Tensor, Tensor]:
    """The plain mean of each class's vectors [C, k], and which classes have any [C]."""
    number = held.sum(dim=1, keepdim=True)
    return (vectors * held.unsqueeze(2)).sum(dim=1) / number.clamp(min=1), number.squeeze(1) > 0


def against(
    logits: Tensor, positive: Tensor, allowed: Tensor, *, each: bool = False, exclude: bool = False
) -> tuple[Tensor, Tensor]:
    """Contrast of the `positive` with all `allowed` entries (masks) of logits […, M]: (values […], which count […]).

    −log of the positives' share of all allowed entries, log Σ_m e^{l_m} − log Σ_{m positive} e^{l_m}; with `each` the
    mean over the positives m of −log of m's own share, with `exclude` relative to the negatives alone. Logits without a
    positive, or without anything to compare it with, give 0 and do not count.
    """
    positive = positive & allowed
    others = allowed & ~positive if exclude else allowed
    total = torch.logsumexp(torch.where(others, logits, FAR), dim=-1)
    if each:
        own_class = torch.where(positive, logits, 0.0).sum(dim=-1) / positive.sum(dim=-1).clamp(min=1)
    else:
        own_class = torch.logsumexp(torch.where(positive, logits, FAR), dim=-1)
    counted = (positive.any(dim=-1) & others.any(dim=-1)).expand_as(total)
    return torch.where(counted, total - own_class, 0.0), counted


def average(values: Tensor, counted: Tensor) -> Tensor:
    """The mean of the values that count; 0 where none does."""
    return values.sum() / counted.sum().clamp(min=1)


def bank_contrast(z: Tensor, labels: Tensor, vectors: Tensor, held: Tensor, temperature: float) -> Tensor:
    """Mean contrast (scalar) of representations z [B, k] with a bank (FedCCL, Eq. 16, with a temperature; FPL).

    All vectors of a sample's own class, by `labels` [B], are its positives; 0 where no sample's class has any.
    """
    cosines = normalize(z, dim=1, eps=EPS) @ normalize(vectors.flatten(0, 1), dim=1, eps=EPS).T
    of_class = one_hot(labels, len(held)).bool().unsqueeze(2).expand(-1, -1, held.shape[1]).flatten(1)
    return average(*against(cosines / temperature, of_class, held.flatten()))


def by_class(fed: Federation, theta: Tree) -> list[Tensor]:
    """Representations of training images under the stack `theta`, by client and class: n·C tensors [m, k].

    The C tensors of the first client come first.
    """
    sizes = fed.counts.long().tolist()
    pairs = zip(fed.representations(theta), sizes, strict=True)
    return [points for (z, labels), sizes in pairs for points in z[labels.argsort(stable=True)].split(sizes)]


def unit_means(fed: Federation, theta: Tree) -> Tensor:
    """Means [n, C, k] of the normalised representations of each class, z/‖z‖, under the models `theta`."""

    @counts_filled
    def sums(theta_i: Tree, batch: Batch, at: LossContext) -> dict[str, Tensor]:
        z = normalize(at.model.features(theta_i, batch.x), dim=1, eps=EPS)
        return {"sums": summed_by_class(z, batch, at.model.classes)}

    return class_means(fed.measure(theta, sums).sums, fed.counts)
