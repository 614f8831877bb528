"""Where parameters start: most are drawn, some layers state values of their own."""

from collections.abc import Mapping

from torch import Tensor, nn

NAME = "initial_values"


def set_initial_values(layer: nn.Module, values: Mapping[str, Tensor]) -> None:
    """Has parameters and statistics of a layer start from `values`, by their names, and not be drawn."""
    vars(layer)[NAME] = dict(values)


def initial_values(layer: nn.Module) -> Mapping[str, Tensor]:
    """The values from which parameters and statistics of a layer start, by name; empty: all are drawn."""
    values: Mapping[str, Tensor] = vars(layer).get(NAME, {})
    return values
