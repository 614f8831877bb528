"""Frozen features: the representations of a data set's images under a trained network that is not trained further.

The features of an image are the network's pooled output before its classifier. They are written in the form of a data
set whose images are 1×1 with k channels, so a partition and a model treat them as they treat any other images.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fedgrid.data.common.images import PARTS, Images
from fedgrid.data.common.store import Pool, checksum_of, read, read_labels, write
from fedgrid.engine.local.devices import chosen
from fedgrid.models.common.pretrained import check_known, digest_of_weights, library, pretrained_network
from fedgrid.randomness import generator
from fedgrid.settings import Backbone

Floats = tuple[float, ...]
RANDOM = "random"
RANDOM_CHANNELS, RANDOM_GRID, RANDOM_FEATURES = 32, 4, 192


class Frozen(nn.Module):
    """A network and what its images [n, h, w, channels] go through before: division, resizing, normalisation."""

    mean: Tensor
    std: Tensor

    def __init__(self, network: nn.Module, shape: tuple[int, int, int], mean: Floats, std: Floats, weights: str):
        """`shape` (channels, height, width), `mean` and `std` are those of the network's inputs."""
        super().__init__()
        self.network, self.shape, self.weights = network, shape, weights
        self.register_buffer("mean", torch.tensor(mean).reshape(-1, 1, 1))
        self.register_buffer("std", torch.tensor(std).reshape(-1, 1, 1))

    def forward(self, pixels: Tensor, scale: float) -> Tensor:
        """Features float32 [n, k] of pixels from 0 to `scale`; grey images get equal channels."""
        channels, *size = self.shape
        images = pixels.permute(0, 3, 1, 2).float() / scale
        if list(images.shape[2:]) != size:
            images = nn.functional.interpolate(images, size, mode="bilinear", antialias=True)
        features: Tensor = self.network((images.expand(-1, channels, -1, -1) - self.mean) / self.std)
        return features


def build(
    files: Mapping[str, Path],
    outputs: Mapping[str, Path],
    settings: Mapping[str, Any],
    device: str,
    threads: int,
    key: str = "",
) -> None:
    """Writes the features of the data set in `files` to `outputs`, both by part; `settings` are those of `Backbone`.

    Pixels become float32 [n, 1, 1, k], as the network gives them; labels, domains and kept columns stay, captions do
    not. Images are resized to the network's input (antialiased bilinear). Equal files on equal processors give equal
    features, bit for bit. Raises UserError where timm, the network or its weights are missing or do not fit.
    """
    torch.set_num_threads(threads)
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    kind, pool = Backbone(**settings), read(files)
    frozen = _random(pool.facts["shape"]) if kind.backbone == RANDOM else _pretrained(kind)
    features = _features(frozen.to(chosen(device)).eval(), pool, kind.batch)
    labels, _ = read_labels(files)
    images = replace(pool.images, pixels=features[:, None, None], domains=labels.domains, kept=labels.kept)
    parts = _split(images, pool.facts["images"]["train"])
    note = f"features of {kind.backbone}, weights {frozen.weights}"
    facts = pool.facts | {
        "key": key,
        "shape": [1, 1, features.shape[1]],
        "dtype": "float32",
        "scale": 1.0,
        "mean": [0.0],
        "std": [1.0],
        "note": "; ".join(filter(None, [pool.facts["note"], note])),
        "checksum": checksum_of(parts),
    }
    write(outputs, parts, facts, labels.kept_names)


@torch.inference_mode()
def _features(frozen: Frozen, pool: Pool, batch: int) -> np.ndarray:
    pixels, device = torch.from_numpy(pool.images.pixels), frozen.mean.device
    return torch.cat([frozen(some.to(device), pool.facts["scale"]).cpu() for some in pixels.split(batch)]).numpy()


def _split(images: Images, train: int) -> dict[str, Images]:
    return dict(zip(PARTS, (images.rows(slice(0, train)), images.rows(slice(train, None))), strict=True))


def _random(shape: list[int]) -> Frozen:
    """A convolution of the images as they are, pooled to a grid, and a projection, with fixed Gaussian weights."""
    height, width, channels = shape
    network = nn.Sequential(
        nn.Conv2d(channels, RANDOM_CHANNELS, 3, padding=1, bias=False),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(RANDOM_GRID),
        nn.Flatten(),
        nn.Linear(RANDOM_CHANNELS * RANDOM_GRID**2, RANDOM_FEATURES, bias=False),
    )
    with torch.no_grad():
        for name, weights in network.named_parameters():
            drawn = generator("random backbone", name).normal(0, weights[0].numel() ** -0.5, weights.shape)
            weights.copy_(torch.from_numpy(drawn))
    return Frozen(network, (channels, height, width), (0.5,), (0.5,), RANDOM)


def _pretrained(kind: Backbone) -> Frozen:
    advice = f", or take backbone: {RANDOM}"
    timm = library(advice)
    check_known(timm, kind.backbone, [RANDOM])
    network = pretrained_network(timm, kind.backbone, kind.weights, advice)
    inputs = timm.data.resolve_model_data_config(network)
    return Frozen(network, inputs["input_size"], inputs["mean"], inputs["std"], digest_of_weights(network))
