"""Small data that are no images, with networks for them: texts, signals and rows of a table, drawn by label."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch

from fedgrid.data.common.images import SIGNAL, TABULAR, TEXT
from fedgrid.engine.local.client_data import ClientData
from fedgrid.models.base import PADDING_AND_UNKNOWN, Model, Network
from fedgrid.models.fasttext import FastText
from fedgrid.models.har_cnn import HARCNN
from fedgrid.models.mlp import MLP

SHAPES = {TEXT: (1, 9, 1), SIGNAL: (1, 16, 3), TABULAR: (1, 1, 6)}
WORDS = 30
MODELS: Mapping[str, Model] = {
    TEXT: FastText(features=8),
    SIGNAL: HARCNN(features=8, channels=4, width=3),
    TABULAR: MLP(hidden=16, features=8),
}
"By kind of samples, a small model that takes them."


def of_kind(images: ClientData, kind: str) -> tuple[ClientData, Network]:
    """The clients of `images` with samples of a kind that have the same labels, and a network for them.

    A text begins with a word of its class and may be short, or without any word; signals and rows vary about the
    middle of their class.
    """
    shape, labels = SHAPES[kind], images.labels.numpy()
    make = _texts if kind == TEXT else _numbers
    samples = torch.from_numpy(make(labels, shape)).permute(0, 3, 1, 2)
    constant = images.centre.new_ones(1, shape[2], 1, 1)
    vocabulary = (WORDS if kind == TEXT else 0) + PADDING_AND_UNKNOWN
    data = replace(images, images=samples, centre=0 * constant, spread=constant, vocabulary=vocabulary)
    return data, MODELS[kind].network(shape, images.classes, vocabulary)


def _texts(labels: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    draw = np.random.default_rng(3)
    tokens = draw.integers(1, WORDS + PADDING_AND_UNKNOWN, (len(labels), *shape), dtype=np.int32)
    tokens[:, 0, 0, 0] = labels + PADDING_AND_UNKNOWN
    lengths = draw.integers(0, shape[1] + 1, len(labels))
    tokens[np.arange(shape[1]) >= lengths[:, None, None], :] = 0
    return tokens


def _numbers(labels: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    draw = np.random.default_rng(4)
    middle = draw.standard_normal((labels.max() + 1, *shape), np.float32)
    samples: np.ndarray = middle[labels] + draw.standard_normal((len(labels), *shape), np.float32)
    return samples
