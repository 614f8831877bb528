"""FINCH: clusters from first neighbours, without a number of clusters or a threshold to choose.

Sarfraz, Sharma & Stiefelhagen, Efficient Parameter-free Clustering Using First Neighbor Relations, CVPR 2019. A point
is linked to its nearest one, κ(m), in cosine distance d = 1 − cos; clusters are the connected components. The means of
the clusters' points are clustered in turn, until one cluster would be left. Linking two points that share a neighbour,
as the paper also does, adds no component.

The early exit of the authors' package deletes later links with A·d > ϑ, where A(m, q) = [κ(m) = q] + [κ(q) = m] +
[κ(m) = κ(q)] and ϑ is the largest A·d among the points themselves, and ends once a step has merged a single cluster.
So do releases up to 0.2.1; later ones have no multiplicity A and drop that last step.

What differs by the rounding of float64 alone counts as equal, and among equals the first is nearest, so that identical
points are clustered alike in any order of arithmetic. A zero vector has cosine 0 with everything.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from scipy.sparse import coo_array

ROWS = 2048
"Points whose distances to all others are in memory at a time."
SMALLEST = 4
"Fewer points are one cluster, whatever they are."
ROUNDING = 1e-12
"Cosines that differ by no more are equal."


def partitions(
    points: np.ndarray, early_exit: bool = False, keep_one: bool = False, only_first: bool = False
) -> list[np.ndarray]:
    """Γ_0, Γ_1, …, from fine to coarse and nested: the cluster [n] of each of the points [n, k].

    A coarser partition into a single cluster is thrown away, unless `keep_one`; `only_first` leaves it at Γ_0.
    """
    from scipy.sparse.csgraph import connected_components

    points = np.asarray(points, dtype=np.float64)
    if len(points) < SMALLEST:
        return [np.zeros(len(points), dtype=np.int32)]
    levels: list[np.ndarray] = []
    centres, reach = points, None
    while True:
        links = _links(centres)
        if early_exit:
            lengths = _lengths(links, centres)
            reach = lengths.max() if reach is None else reach
            near = lengths.data <= reach + ROUNDING
            links = _graph(lengths.row[near], lengths.col[near], len(centres))
        number, of_centre = connected_components(links, directed=False)
        if levels and (number == len(centres) or (number == 1 and not keep_one)):
            return levels
        levels.append(of_centre[levels[-1]] if levels else of_centre)
        if number == 1 or only_first or (early_exit and number == len(centres) - 1):
            return levels
        centres = cluster_means(points, levels[-1])


def cluster_means(points: np.ndarray, clusters: np.ndarray) -> np.ndarray:
    """The mean [L, k] of the points [n, k] of each of the clusters 0 … L − 1."""
    if len(points) < SMALLEST and not clusters.any():  # most classes of most clients, where classes are many
        return np.asarray(points, dtype=np.float64).mean(axis=0, keepdims=True) if len(points) else points
    from scipy.sparse import coo_array

    members = coo_array((np.ones(len(points)), (clusters, np.arange(len(points)))))
    means: np.ndarray = members.tocsr() @ np.asarray(points, dtype=np.float64) / np.bincount(clusters)[:, None]
    return means


def _cosines(vectors: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Some row numbers, and the cosines of these rows [some, n] with all."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors / np.where(length > 0, length, 1)
    for some in np.split(np.arange(len(unit)), range(ROWS, len(unit), ROWS)):
        yield some, unit[some] @ unit.T


def _links(centres: np.ndarray) -> "coo_array":
    """The graph [n, n] of m – κ(m)."""
    nearest = []
    for some, cosines in _cosines(centres):
        cosines[some - some[0], some] = -np.inf
        nearest.append((cosines >= cosines.max(axis=1, keepdims=True) - ROUNDING).argmax(axis=1))
    return _graph(np.arange(len(centres)), np.concatenate(nearest), len(centres))


def _lengths(links: "coo_array", centres: np.ndarray) -> "coo_array":
    """A·d where A > 0, for the early exit."""
    first = links.tocsr()
    both, distances = (first + first.T + first @ first.T).tocsr(), []
    for some, cosines in _cosines(centres):
        pairs = both[some].tocoo()
        distances.append(pairs.data * (1 - cosines[pairs.row, pairs.col]))
    pairs = both.tocoo()
    return _graph(pairs.row, pairs.col, len(centres), np.concatenate(distances))


def _graph(row: np.ndarray, col: np.ndarray, size: int, data: np.ndarray | None = None) -> "coo_array":
    from scipy.sparse import coo_array

    return coo_array((np.ones(len(row)) if data is None else data, (row, col)), shape=(size, size))
