"""The methods, one a file, found by their file names. Here stands what such a file needs, to be imported in one line.

The keys of all cells cover this list: what one method alone needs, it imports from where it is defined.
"""

from torch import Tensor

from fedgrid.components import hp
from fedgrid.engine.federation.federation import Federation
from fedgrid.engine.federation.method import Identity, Method
from fedgrid.engine.local.context import Batch, LossContext, Objective
from fedgrid.engine.local.losses import cross_entropy
from fedgrid.engine.local.task import counts_filled
from fedgrid.engine.state.state import State
from fedgrid.errors import UserError
from fedgrid.tree import Tree, inner, leaves, squared_distance

__all__ = [
    "Batch",
    "Federation",
    "Identity",
    "LossContext",
    "Method",
    "Objective",
    "State",
    "Tensor",
    "Tree",
    "UserError",
    "counts_filled",
    "cross_entropy",
    "hp",
    "inner",
    "leaves",
    "squared_distance",
]
