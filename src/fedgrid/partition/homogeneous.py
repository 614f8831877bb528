"""No heterogeneity: all images are shuffled and dealt out evenly (*Homo* in FedSaC's tables)."""

import numpy as np

from fedgrid.data.common.store import Labels
from fedgrid.partition.base import SampledPartition


class Homogeneous(SampledPartition):
    title = "homogeneous"
    source = "Yan et al., FedSaC, Table 1; as pFedGraph's (Ye et al., ICML 2023)"
    named = ("clients",)
    similar_sizes = True

    def description(self) -> str:
        return f"homogeneous, {self.clients} clients"

    def owners(self, pool: Labels, random: np.random.Generator) -> np.ndarray:
        return random.permutation(np.arange(len(pool.labels)) % self.clients)
