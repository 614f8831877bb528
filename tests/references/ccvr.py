"""CCVR (Luo et al., NeurIPS 2021, Algorithm 1): FedAvg, whose head is fitted to features drawn from Gaussians at last.

The Gaussian of a class has the mean μ_c and the covariance Σ_c of all its features at the last round's participants.
"""

import torch
from references import fedavg
from references.clients import CLASSES, HEAD, WIDTH, Clients, features, sgd
from references.clients import head as logits_of
from torch.nn.functional import cross_entropy

SETTINGS = ({}, {"samples": 7, "server_epochs": 3, "server_lr": 0.2, "server_batch": 10})


def pooled(means, covariances, n):
    """μ_c and Σ_c of one class from the clients' means, covariances and numbers of its images."""
    total = sum(n)
    mu = sum(n_i * mu_i for n_i, mu_i in zip(n, means, strict=True)) / total
    if total < 2:
        return mu, torch.zeros(len(mu), len(mu), dtype=torch.float64)
    within = sum((n_i - 1) / (total - 1) * sigma for n_i, sigma in zip(n, covariances, strict=True))
    second = sum(n_i / (total - 1) * torch.outer(mu_i, mu_i) for n_i, mu_i in zip(n, means, strict=True))
    return mu, within + second - total / (total - 1) * torch.outer(mu, mu)


def root(sigma):
    """The symmetric Σ^{1/2}; Σ is singular, and eigenvalues that are rounding count as 0."""
    values, vectors = torch.linalg.eigh(sigma)
    values[values < 1e-12 * values.max()] = 0.0
    return vectors @ torch.diag(values.clamp(min=0).sqrt()) @ vectors.T


def state(c: Clients, samples=200, server_epochs=1, server_lr=0.01, server_batch=32):
    w, last = fedavg.state(c)[0]["theta"], c.simulation.training.rounds - 1
    z = {i: features(w, c.x[i]) for i in c.drawn(last)}
    normal = torch.from_numpy(c.random(last, "features").standard_normal((CLASSES, samples, WIDTH)))
    drawn, labels = [], []
    for j in range(CLASSES):
        own = [z[i][c.y[i] == j] for i in z if (c.y[i] == j).any()]
        if own:
            zero = torch.zeros(WIDTH, WIDTH, dtype=torch.float64)
            covariances = [of_client.T.cov() if len(of_client) > 1 else zero for of_client in own]
            mu, sigma = pooled(
                [of_client.mean(dim=0) for of_client in own], covariances, [len(of_client) for of_client in own]
            )
            drawn.append(mu + normal[j] @ root(sigma))
            labels.append(torch.full((samples,), j))
    drawn, labels = torch.cat(drawn), torch.cat(labels)
    for epoch in range(server_epochs):
        order = torch.from_numpy(c.random(last, f"server {epoch}").permutation(len(labels)))
        batches = [(drawn[some], labels[some]) for some in order.split(server_batch)]
        w = sgd(w, batches, lambda theta, x, y: cross_entropy(logits_of(theta, x), y), server_lr, HEAD)
    return {"theta": w}, []
