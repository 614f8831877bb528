"""Groups of clients that a server finds from what they think of each other."""

import torch
from torch import Tensor


def shares_of_groups(preference: Tensor, known: Tensor, number: int) -> Tensor:
    """How much each client has in the mean model of each group, and in the mean of these means: [g + 1, N], float64.

    Spectral clustering of the symmetrised softmax of `preference` [N, N], over the clients that are `known` [N], into
    `number` groups, or as many as there are such clients. Without any, or with number 0, there are none: [0, N].
    """
    members = known.nonzero().flatten()
    groups = min(number, len(members))
    if not groups:
        return preference.new_zeros(0, len(known), dtype=torch.float64)
    labels = torch.arange(groups) if groups == len(members) else _labels(preference[members][:, members], groups)
    of_group = torch.nn.functional.one_hot(labels.to(members.device), groups).T.double()
    of_group = of_group[of_group.any(dim=1)]
    means = of_group / of_group.sum(dim=1, keepdim=True)
    shares = means.new_zeros(len(means) + 1, len(known))
    shares[:, members] = torch.cat([means, means.mean(dim=0, keepdim=True)])
    return shares


def _labels(preference: Tensor, groups: int) -> Tensor:
    from sklearn.cluster import SpectralClustering  # imported late: it takes a second

    affinity = preference.double().softmax(dim=1)
    clustering = SpectralClustering(groups, affinity="precomputed", assign_labels="discretize", random_state=0)
    return torch.from_numpy(clustering.fit_predict((affinity + affinity.T).cpu().numpy() / 2)).long()
