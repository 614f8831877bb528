"""Augmented images are shifted and mirrored copies, chosen by the key alone."""

import torch

from fedgrid.engine.local.augmentation import PADDING, cropped_and_flipped
from fedgrid.engine.local.context import LossContext
from fedgrid.tree import Tree


def augmented(x, key=5):
    return cropped_and_flipped(x, LossContext(None, Tree(), Tree(), key), "augmentation")


def candidates(image):
    """Every copy that may come of an image [C, H, W]."""
    wide = torch.nn.functional.pad(image, [PADDING] * 4)
    height, width = image.shape[1:]
    span = range(2 * PADDING + 1)
    moved = [wide[:, i : i + height, j : j + width] for i in span for j in span]
    return torch.stack(moved + [copy.flip(2) for copy in moved])


def test_every_image_is_one_of_its_own_copies():
    x = torch.randn(40, 3, 7, 9)
    pairs = zip(x, augmented(x), strict=True)
    actual = [(candidates(image) == copy).flatten(1).all(dim=1).nonzero() for image, copy in pairs]
    assert all(len(place) for place in actual)
    assert len({int(place[0]) for place in actual}) > 20  # they do not all go the same way
    flipped = sum(int(place[0]) >= 81 for place in actual)
    assert 8 < flipped < 32


def test_the_key_decides():
    x = torch.randn(8, 1, 8, 8)
    assert torch.equal(augmented(x), augmented(x))
    assert not torch.equal(augmented(x), augmented(x, key=6))
