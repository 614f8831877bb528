"""A method's own prediction as a program of `torch.export`, which runs without fedgrid."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, fx, nn
from torch.export import Dim

from fedgrid.engine.local.context import LossContext
from fedgrid.errors import UserError
from fedgrid.models.base import Network
from fedgrid.tree import Tree, leaves, rebuilt

Scores = Callable[[Tree, Tensor, LossContext], Tensor]
"(θ, x [B, …], context) → class scores [B, C]."


class Prediction(nn.Module):
    """A prediction whose θ and state are buffers."""

    def __init__(self, predict: Scores, network: Network, kept: Tree):
        super().__init__()
        self.predict, self.network, self.kept = predict, network, kept
        for number, t in enumerate(leaves(kept)):
            self.register_buffer(f"kept_{number}", t)

    def forward(self, x: Tensor) -> Tensor:
        kept = rebuilt(self.kept, list(self.buffers()))
        at = LossContext(self.network, kept.get("server", Tree()), kept.get("client", Tree()), None)
        return self.predict(kept.theta, x, at)


def program(predict: Scores, network: Network, kept: Tree, shape: Sequence[int], dtype: torch.dtype) -> nn.Module:
    """What `predict` does with inputs [B, *shape] of a type, for any B.

    `kept` are θ and what it reads of the state, under ``theta``, ``server`` and ``client``. Raises UserError where
    torch cannot export it.
    """
    example = torch.zeros(2, *shape, dtype=dtype)
    try:
        return _exported(Prediction(predict, network, kept), example, network.mixed)
    except Exception as error:  # of a method's own code, which may do anything
        first = str(error).strip().partition("\n")[0]
        raise UserError(
            f"torch.export cannot export how this model predicts ({type(error).__name__}: {first})"
        ) from error


@torch.no_grad()
def _exported(module: nn.Module, example: Tensor, mixed: bool) -> nn.Module:
    exported = torch.export.export(module, (example,), dynamic_shapes=({0: Dim.DYNAMIC},))
    if mixed:  # what autocast does is written out, or it would be lost below
        exported = exported.run_decompositions({})
    return _plain(exported.module())


def _plain(module: fx.GraphModule) -> fx.GraphModule:
    """The same program, without checks of what it is given, as a module that can be pickled and told `eval`."""
    for node in module.graph.find_nodes(op="call_module", target="_guards_fn"):
        module.graph.erase_node(node)
    module.recompile()
    return fx.symbolic_trace(module)
