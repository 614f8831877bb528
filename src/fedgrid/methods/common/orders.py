"""Random orders that the server draws."""

from collections.abc import Mapping

from torch import Tensor

from fedgrid.engine.local.devices import sent
from fedgrid.methods import Federation


def orders(fed: Federation, sizes: Mapping[str, int]) -> list[Tensor]:
    """A random order of so many things for each purpose's name, see `Federation.random`; sent in one copy."""
    return sent([fed.random(name).permutation(size) for name, size in sizes.items()], fed.ids.device)
