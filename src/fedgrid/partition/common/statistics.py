"""How heterogeneous a partition is: sizes, classes held, distances between the clients' class distributions.

A client's *training images* are those of its splits "train" and "validation": what it may learn from. Its class
distribution p_i is the share of every class among them; clients without training images have none and are left out of
all distances.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from fedgrid.data.common.columns import numbers
from fedgrid.partition.common.rows import EVERYONE, SPLITS, split_numbers


def statistics(table: pa.Table, clients: int, classes: int) -> dict[str, Any]:
    """Plain numbers and lists (JSON) on the rows (client, split, label, domain if any) of a partition.

    images          number of rows by split; `shared_test` of them belong to all clients (client -1)
    sizes           by split: rows of every client, [clients]; shared rows belong to nobody
    counts          training images, [clients][classes]
    domains         by name of a domain: training images of every client, [clients]; empty without domains
    size            min, median, max and coefficient of variation (population standard deviation / mean) of the
                    clients' training images, clients without any included
    classes_held    classes with at least one training image, [clients]
    jensen_shannon  mean, min, max over all pairs of clients of the Jensen-Shannon distance: the square root of
                    H((p_i + p_j) / 2) - (H(p_i) + H(p_j)) / 2 with the entropy H in bits; 0 for equal distributions,
                    1 for clients without a common class (Lin 1991; a metric: Endres and Schindelin 2003)
    earth_mover     mean and max over clients of Σ_c |p_i(c) - p(c)|, with p the class distribution of all training
                    images together: what the literature calls earth mover's distance (Zhao et al. 2018, Federated
                    Learning with Non-IID Data, Sec. 3), from 0 to 2, every client counting the same;
                    pairwise_mean: mean of Σ_c |p_i(c) - p_j(c)| over all pairs of clients

    A distance is null where there is no pair, or no client, to measure.
    """
    client, split = numbers(table["client"]), split_numbers(table)
    is_client = client != EVERYONE
    sizes = _tally(clients, client[is_client], len(SPLITS), split[is_client]).T
    counts, _ = class_counts(table, clients, classes)
    return {
        "images": {name: int((split == number).sum()) for number, name in enumerate(SPLITS)},
        "shared_test": int((~is_client).sum()),
        "sizes": {name: sizes[number].tolist() for number, name in enumerate(SPLITS)},
        "counts": counts.tolist(),
        "domains": _domains(table, clients),
        "size": _spread(counts.sum(axis=1)),
        "classes_held": (counts > 0).sum(axis=1).tolist(),
        **_distances(counts[counts.any(axis=1)]),
    }


def class_counts(table: pa.Table, clients: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Images of every client and class, int64 [clients, classes]: training (with validation) and the client's own test.

    Shared test rows are in neither.
    """
    client, label = numbers(table["client"]), numbers(table["label"])
    training = _training(table)
    test = ~training & (client != EVERYONE)
    both = [_tally(clients, client[chosen], classes, label[chosen]) for chosen in (training, test)]
    return both[0], both[1]


def domains_of_clients(table: pa.Table, clients: int) -> list[str | None]:
    """The one domain of each client's images [clients], in rows (client, domain); None where there are several or none.

    Shared test rows do not count.
    """
    pairs = pa.table({"client": table["client"], "domain": table["domain"].cast(pa.string())})
    pairs_present = pairs.group_by(["client", "domain"]).aggregate([])
    held: list[set[str | None]] = [set() for _ in range(clients)]
    for client, domain in zip(pairs_present["client"].to_pylist(), pairs_present["domain"].to_pylist(), strict=True):
        if client != EVERYONE:
            held[client].add(domain)
    return [domains.pop() if len(domains) == 1 else None for domains in held]


def _training(table: pa.Table) -> np.ndarray:
    is_training: np.ndarray = (numbers(table["client"]) != EVERYONE) & (split_numbers(table) != SPLITS.index("test"))
    return is_training


def _tally(rows: int, row: np.ndarray, columns: int, column: np.ndarray) -> np.ndarray:
    """How often every pair of numbers occurs, int64 [rows, columns]."""
    return np.bincount(row.astype(np.int64) * columns + column, minlength=rows * columns).reshape(rows, columns)


def _domains(table: pa.Table, clients: int) -> dict[str, list[int]]:
    if "domain" not in table.column_names or table["domain"].null_count:  # every image has one, or none
        return {}
    training = table.filter(pa.array(_training(table)))
    encoded = training["domain"].cast(pa.string()).combine_chunks().dictionary_encode()
    tally = _tally(clients, training["client"].to_numpy(), len(encoded.dictionary), encoded.indices.to_numpy())
    return {name: tally[:, number].tolist() for number, name in enumerate(encoded.dictionary.to_pylist())}


def _spread(sizes: np.ndarray) -> dict[str, float]:
    variation = float(sizes.std() / sizes.mean()) if sizes.any() else 0.0
    return {"min": int(sizes.min()), "median": float(np.median(sizes)), "max": int(sizes.max()), "variation": variation}


def _distances(counts: np.ndarray) -> dict[str, dict[str, float | None]]:
    """The distances of clients that all have images, with `counts` [clients, classes] > 0 somewhere."""
    shares = counts / counts.sum(axis=1, keepdims=True)
    entropies = _entropies(shares)

    def jensen_shannon(i: int, others: slice) -> np.ndarray:
        divergences = _entropies((shares[i] + shares[others]) / 2) - (entropies[i] + entropies[others]) / 2
        distances: np.ndarray = np.sqrt(divergences.clip(0) / np.log(2))
        return distances

    def earth_mover(i: int, others: slice) -> np.ndarray:
        distances: np.ndarray = np.abs(shares[i] - shares[others]).sum(axis=1)
        return distances

    pooled = np.abs(shares - counts.sum(axis=0) / max(counts.sum(), 1)).sum(axis=1)
    return {
        "jensen_shannon": _summary(_pairwise(len(shares), jensen_shannon), "mean", "min", "max"),
        "earth_mover": _summary(pooled, "mean", "max")
        | {"pairwise_mean": _summary(_pairwise(len(shares), earth_mover), "mean")["mean"]},
    }


def _pairwise(clients: int, distances: Callable[[int, slice], np.ndarray]) -> np.ndarray:
    """The distances of all pairs of clients, [clients·(clients − 1)/2], from those between client i and the later ones.

    They are filled in client by client: the arithmetic of all pairs at once would need many times their memory.
    """
    by_pair, start = np.empty(clients * (clients - 1) // 2), 0
    for i in range(clients - 1):
        end = start + clients - 1 - i
        by_pair[start:end] = distances(i, slice(i + 1, None))
        start = end
    return by_pair


def _summary(values: np.ndarray, *names: str) -> dict[str, float | None]:
    """What numpy's functions of these `names` say of the values; null where there are none."""
    return {name: float(getattr(np, name)(values)) if len(values) else None for name in names}


def _entropies(shares: np.ndarray) -> np.ndarray:
    """H [n] of the rows of `shares` [n, classes], in nats; 0·log 0 is 0."""
    entropies: np.ndarray = -(shares * np.log(np.where(shares > 0, shares, 1))).sum(axis=1)
    return entropies
