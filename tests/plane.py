"""A network for worked examples: representations are the two numbers of an image themselves."""

import torch
from nearness import doubles
from torch import nn

from fedgrid.engine.local.context import Batch, LossContext
from fedgrid.models.base import Network
from fedgrid.tree import Tree


class Plane(Network):
    """A linear head on the plane."""

    def __init__(self, classes=2):
        super().__init__({"extractor": nn.Flatten(), "head": nn.Linear(2, classes)}, 2, classes)


def points(*rows, labels=None):
    """Images that are points of the plane, by default all of class 0."""
    labels = [0] * len(rows) if labels is None else labels
    return Batch(doubles(*rows).reshape(-1, 1, 1, 2), torch.tensor(labels))


def at(model=None, server=None, **client):
    """What a loss sees beside θ and a batch."""
    return LossContext(model or Plane(), Tree(server or {}), Tree(client), None)
