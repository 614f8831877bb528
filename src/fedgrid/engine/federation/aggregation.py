"""How the server makes one of what its clients upload: their mean, or a rule that bears malicious ones.

Robust rules count clients equally, as their papers do, and take no account of how many images a client has. What is not
finite is farther away than anything else. With n uploads and f = ⌈share·n⌉ of them assumed malicious:

    median       the median of every coordinate: of two middle values their mean (Yin et al., ICML 2018, Definition 1)
    trimmed      the mean of every coordinate without its f smallest and f largest values (ibid., Definition 2)
    krum         the upload whose n − f − 2 nearest others are nearest, by the sum of squared distances; the first of
                 equals (Blanchard et al., NeurIPS 2017, Section 4)
    multi-krum   the mean of the n − f uploads that are first by that sum (ibid., Section 5)
"""

import torch
from torch import Tensor

from fedgrid.settings import Training
from fedgrid.tree import TensorOrTree, leaves, rows, tree_map, weighted_sum


def aggregate(stack: TensorOrTree, weights: Tensor, training: Training) -> TensorOrTree:
    """One of the rows of a stack [n, …] by the study's rule; `weights` [n] count for the mean alone."""
    rule, number = training.aggregation, len(weights)
    if rule == "mean":
        return weighted_sum(stack, weights)
    assumed = training.assumed(number)
    if rule == "median":
        return tree_map(lambda t: trimmed_mean(t, (number - 1) // 2), stack)
    if rule == "trimmed":
        return tree_map(lambda t: trimmed_mean(t, min(assumed, (number - 1) // 2)), stack)
    best = krum_scores(squared_distances(stack), assumed).argsort(stable=True)
    return equal_mean(rows(stack, best[: 1 if rule == "krum" else max(1, number - assumed)]))


def trimmed_mean(values: Tensor, cut: int) -> Tensor:
    """Means of values [n, …] without the `cut` smallest and as many largest of each coordinate; NaN is the largest."""
    return equal_mean(values.sort(dim=0).values[cut : len(values) - cut])


def equal_mean(stack: TensorOrTree) -> TensorOrTree:
    """The mean of rows that count equally; a single one comes back bit for bit."""
    (number,) = {len(t) for t in leaves(stack)}
    weights = torch.full((number,), 1 / number, dtype=torch.float64, device=leaves(stack)[0].device)
    return weighted_sum(stack, weights)


def krum_scores(distances: Tensor, assumed: int) -> Tensor:
    """Sums [n] of each row's n − f − 2 smallest squared distances to others, of `distances` [n, n]; f is `assumed`.

    With fewer than f + 3 rows, as where uploads are lost, it is the distance to the nearest one.
    """
    number = len(distances)
    nearest = distances.clone().fill_diagonal_(torch.inf).sort(dim=1).values
    return nearest[:, : min(max(1, number - assumed - 2), number - 1)].sum(dim=1)


def squared_distances(stack: TensorOrTree) -> Tensor:
    """‖V_i − V_j‖² [n, n] of the rows of a stack in float64, infinite where a number is not finite."""
    total = torch.zeros((), dtype=torch.float64)
    for t in leaves(stack):
        values = t.reshape(len(t), -1).double()
        total = total.to(t.device) + torch.stack([(values - row).square().sum(dim=1) for row in values])
    return total.nan_to_num(nan=torch.inf, posinf=torch.inf)
