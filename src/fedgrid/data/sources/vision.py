"""Data sets that torchvision knows: its own folder layout, or its verified download."""

from pathlib import Path

import numpy as np

from fedgrid.data.base import PARTS, Images
from fedgrid.errors import UserError


def read(name: str, root: Path, download: bool) -> dict[str, Images] | None:
    """Both parts of torchvision's class `name` under `root`; None where they are neither there nor to be downloaded.

    torchvision checks every downloaded archive against its MD5 sum. Raises UserError where the download fails.
    """
    cls = getattr(_datasets(), name)
    try:
        return {part: _images(cls(str(root), train=part == "train", download=download)) for part in PARTS}
    except (RuntimeError, OSError) as error:
        if download:
            why = " ".join(str(error).split())
            raise UserError(
                f"{name} could not be downloaded; put it under data_root or FEDGRID_DATA ({why})"
            ) from error
        return None


def _images(dataset) -> Images:
    pixels = np.asarray(dataset.data, dtype=np.uint8)
    return Images(pixels.reshape(*pixels.shape[:3], -1), np.asarray(dataset.targets, dtype=np.int64))


def _datasets():
    """torchvision.datasets, imported beside a CPU build of torch that lacks the operators torchvision registers for."""
    try:
        from torchvision import datasets
    except ModuleNotFoundError as error:
        raise UserError("downloading needs torchvision: pip install 'fedgrid[download]'") from error
    except RuntimeError:
        datasets = _import_with_declared_operators()
    return datasets


def _import_with_declared_operators():
    import sys

    import torch

    for module in [m for m in sys.modules if m.partition(".")[0] == "torchvision"]:
        del sys.modules[module]  # what the failed import left behind
    library = torch.library.Library("torchvision", "FRAGMENT")
    for operator in ("nms", "qnms"):
        library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    from torchvision import datasets

    datasets._declared_operators = library  # the declarations live as long as this object
    return datasets
