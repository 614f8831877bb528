"""Importing torchvision beside a CPU build of torch that lacks the operators which torchvision registers itself for."""

import importlib
import sys
from types import ModuleType


def load(module: str) -> ModuleType:
    """A module of torchvision, such as ``torchvision.datasets``; ModuleNotFoundError where it is not installed."""
    try:
        return importlib.import_module(module)
    except RuntimeError:
        _declare_operators()
    return importlib.import_module(module)


def _declare_operators() -> None:
    import torch

    for module in [m for m in sys.modules if m.partition(".")[0] == "torchvision"]:
        del sys.modules[module]  # what the failed import left behind
    global _declared
    _declared = torch.library.Library("torchvision", "FRAGMENT")
    for operator in ("nms", "qnms"):
        _declared.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


_declared = None
"The declarations live as long as this object."
