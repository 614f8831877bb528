"""Angles between clients: cosines of their updates, and principal angles between subspaces of their features."""

import torch
from torch import Tensor

from fedgrid.methods import Batch, LossContext, Tree, counts_filled, leaves

RANK = 1e-10
"A direction with less than this share of a client's Σ ‖z‖² is rounding."
COLUMNS = 2**16
"Parameters that are multiplied at once, so that not all of them are copied to float64."


def gram(stack: Tree) -> Tensor:
    """Inner products [n, n] of a stack's rows over all its parameters; float64."""
    pieces = (piece.double() for t in leaves(stack) for piece in t.flatten(1).split(COLUMNS, dim=1))
    products: Tensor = sum(piece @ piece.T for piece in pieces)
    return products


def cosines(stack: Tree) -> Tensor:
    """Cosines [n, n] between a stack's rows over all parameters; 0 for a row of zeros, even with itself; float64."""
    products = gram(stack)
    norms = products.diagonal().sqrt()
    lengths = torch.outer(norms, norms)
    return torch.where(lengths > 0, products / lengths, 0.0).clamp(-1, 1)


@counts_filled
def feature_moments(theta: Tree, batch: Batch, at: LossContext) -> dict[str, Tensor]:
    """Σ z [k] and Σ zzᵀ [k, k], float64; a measurement for `Federation.measure`."""
    z = batch.only_counted(at.model.features(theta, batch.x).double())
    return {"sums": z.sum(dim=0), "squares": z.T @ z}


def directions(sums: Tensor, squares: Tensor, counts: Tensor, number: int, centred: bool) -> Tensor:
    """The first right singular vectors V [n, number, k] of every client's features, as rows (FedSaC, Eq. 5); float64.

    They are the eigenvectors of Σ zzᵀ or, if `centred`, of the scatter about the mean (principal components), and come
    from moments of `counts` [n] images, `sums` [n, k] and `squares` [n, k, k] as in `feature_moments`; no features need
    to be kept. A client of lower rank has rows of zeros. The entry of largest magnitude of a row is positive, which
    fixes the sign. On a GPU torch before 2.12 solves for one client after the other.
    """
    scatter = squares.double()
    if centred:
        means = sums.double() / counts.clamp(min=1).unsqueeze(1)
        scatter = scatter - sums.double().unsqueeze(2) * means.unsqueeze(1)
    values, vectors = torch.linalg.eigh(scatter)
    rows, values = vectors.mT.flip(1)[:, :number], values.flip(1)[:, :number]
    real = values > RANK * squares.diagonal(dim1=1, dim2=2).sum(dim=1, keepdim=True)
    largest = rows.gather(2, rows.abs().argmax(dim=2, keepdim=True))
    signed: Tensor = rows * largest.sign() * real.unsqueeze(2)
    return signed


def common_rank(bases: Tensor) -> Tensor:
    """How many angles each two of the subspaces V [n, r, k] have between them [n, n]; rows of zeros do not count."""
    ranks = bases.any(dim=2).sum(dim=1)
    return torch.minimum(ranks.unsqueeze(0), ranks.unsqueeze(1))


def principal_angles(bases: Tensor) -> Tensor:
    """Principal angles [n, n, r], ascending, between subspaces with orthonormal rows V [n, r, k]; float64.

    The cosines are the singular values of V_i V_jᵀ. Where an angle is small its cosine says little of it, and it is
    taken from the distance of the two principal vectors. Only the first `common_rank` angles mean anything.
    """
    bases = bases.double()
    u, cosine, v = torch.linalg.svd(torch.einsum("iak,jbk->ijab", bases, bases))
    vectors_i = torch.einsum("ijal,iak->ijlk", u, bases)
    vectors_j = torch.einsum("ijlb,jbk->ijlk", v, bases)
    near = 2 * torch.atan2((vectors_i - vectors_j).norm(dim=3), (vectors_i + vectors_j).norm(dim=3))
    return torch.where(cosine > 0.5, near, cosine.clamp(max=1).acos())


def greedy_angles(bases: Tensor) -> Tensor:
    """Angles [n, n, r] of FedSaC's code: the largest signed entry of V_i V_jᵀ, its row and column dropped, and again.

    They depend on signs and basis, and may exceed π/2.
    """
    bases, real = bases.double(), bases.any(dim=2)
    cosine = torch.einsum("iak,jbk->ijab", bases, bases)
    cosine = torch.where(real[:, None, :, None] & real[None, :, None, :], cosine, -torch.inf)
    width, angles = bases.shape[1], []
    for _ in range(width):
        best, position = cosine.flatten(2).max(dim=2)
        angles.append(best.clamp(-1, 1).acos())
        a, b = (torch.nn.functional.one_hot(index, width).bool() for index in (position // width, position % width))
        cosine = cosine.masked_fill(a.unsqueeze(3) | b.unsqueeze(2), -torch.inf)
    return torch.stack(angles, dim=2)


def overlap(bases: Tensor, angles: Tensor) -> Tensor:
    """cos((1/r) Σ_l ϕ_l) [n, n] (FedSaC, Eq. 7) over two clients' `angles` [n, n, r], of which they may have fewer.

    0 where two clients have no angle, 1 with oneself.
    """
    ranks, position = common_rank(bases), torch.arange(angles.shape[2], device=bases.device)
    total = torch.where(position < ranks.unsqueeze(2), angles, 0.0).sum(dim=2)
    overlaps = torch.where(ranks > 0, (total / ranks.clamp(min=1)).cos(), 0.0)
    return overlaps.fill_diagonal_(1.0)
