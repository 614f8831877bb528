"""What the suites of models, partitions and data sets say of components that are wrong."""

import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
import torch
from torch import nn

from fedgrid.data.synthetic import Synthetic
from fedgrid.errors import UserError
from fedgrid.models.base import Model, Network
from fedgrid.models.mlp import MLP
from fedgrid.partition.homogeneous import Homogeneous
from fedgrid.suite import data, model, partition
from fedgrid.suite.expectations import Unmet


class Idle(nn.Module):
    """A layer that ignores its weight."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width, width))

    def forward(self, x):
        return x


class Over(nn.Module):
    """A layer that computes over the batch."""

    def forward(self, x):
        return x - x.mean(dim=0)


class Branching(nn.Module):
    """A layer that branches on values."""

    def forward(self, x):
        return x if x.sum() > 0 else -x


class Noisy(nn.Module):
    """A layer that draws."""

    def forward(self, x):
        return x + 0.1 * torch.rand_like(x)


def with_layer(*layers):
    class Flawed(MLP):
        def extractor(self, shape):
            return nn.Sequential(super().extractor(shape), *layers)

    return Flawed()


class Narrow(Model):
    """It ignores its width."""

    def extractor(self, shape):
        return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), 16))


class Drawing(MLP):
    """Its parameters are drawn from torch's generator."""

    def network(self, shape, classes, vocabulary=2):
        network = super().network(shape, classes, vocabulary)
        network.initial = lambda seed: Network.initial(network, seed).map(torch.rand_like)
        return network


class TwoLayers(MLP):
    """Its head has two layers."""

    def network(self, shape, classes, vocabulary=2):
        network = super().network(shape, classes, vocabulary)
        network.modules["head"] = nn.Sequential(network.modules["head"], nn.Linear(classes, classes))
        return network


class NeverSmall(MLP):
    """It says that it refuses small images."""

    smallest = 4

    def network(self, shape, classes, vocabulary=2):
        return replace(MLP()).network(shape, classes, vocabulary)


MODELS = {
    "an idle layer": (with_layer(Idle(128)), model.test_gradients, "have a gradient of 0 on 32 random images"),
    "a layer over the batch": (with_layer(Over()), model.test_a_batch_of_one, "may not depend on the other images"),
    "a branch on values": (with_layer(Branching()), model.test_stacked, "the extractor may not branch on values"),
    "noise": (with_layer(Noisy()), model.test_calls_change_nothing, "two calls have to give the same logits"),
    "another width": (Narrow(), model.test_shapes, r"6 images have to give \[6, 128\]"),
    "draws": (Drawing(), model.test_initial_parameters, "draws from torch's generator"),
    "a head of two layers": (TwoLayers(), model.test_parts, "the head is one linear layer"),
    "small images": (NeverSmall(), model.test_too_small_images, "has to refuse images of 3×3"),
    "dropout of its own": (
        with_layer(nn.Dropout(0.5)),
        model.test_shapes,
        "a layer with state or randomness of its own",
    ),
}


@pytest.mark.parametrize("flaw", MODELS)
def test_a_flaw_of_a_model_is_told_in_a_sentence(flaw):
    component, test, words = MODELS[flaw]
    with pytest.raises((Unmet, UserError), match=words):
        test(component)


class Global(Homogeneous):
    """It draws from NumPy's global generator."""

    def owners(self, pool, random):
        return np.random.permutation(np.arange(len(pool.labels)) % self.clients)


class Fixed(Homogeneous):
    """It draws nothing, and no other seed is another partition."""

    def split(self, pool, seed):
        return super().split(pool, 0)


class Doubling(Homogeneous):
    """Its first client has an image of another one's."""

    def split(self, pool, seed):
        table = super().split(pool, seed)
        return pa.concat_tables([table.slice(0, 1), table])


class Uneven(Homogeneous):
    """It deals out half of what it says."""

    def owners(self, pool, random):
        owner = super().owners(pool, random)
        return np.where(random.random(len(owner)) < 0.5, owner, -1)


class Endless(Homogeneous):
    """It looks for owners for ever."""

    def owners(self, pool, random):
        while True:
            random.random(10)


class Alone(Homogeneous):
    """Its last client gets nothing."""

    def owners(self, pool, random):
        return super().owners(pool, random) % (self.clients - 1)


class Careless(Homogeneous):
    """It fails where there are too few images."""

    def check_feasible(self, info, seeds):
        pass

    def check(self, images, classes, domains):
        assert images >= self.clients


class Training(Homogeneous):
    """Its shared test images are training images."""

    def _shared(self, pool, seed):
        return super()._shared(pool, seed) - pool.train


PARTITIONS = {
    "draws": (Global(), partition.test_the_seed_decides, "it draws from NumPy's global generator"),
    "one seed for all": (Fixed(), partition.test_another_seed_differs, "seeds 0 and 1 gave the same partition"),
    "an image twice": (Doubling(), partition.test_no_image_is_dealt_out_twice, r"image \d+ is dealt out twice"),
    "half of the images": (Uneven(), partition.test_expected_numbers, r"`expected` says 2240 train images, 11\d\d "),
    "no end": (Endless(), partition.test_no_image_is_dealt_out_twice, "takes more than 1 seconds"),
    "a client without images": (Alone(), partition.test_no_image_is_dealt_out_twice, r"client \[19\] got no image"),
    "other test images": (Training(), partition.test_test_images, "is dealt out twice|an image of the training part"),
}


@pytest.mark.parametrize("flaw", PARTITIONS)
def test_a_flaw_of_a_partition_is_told_in_a_sentence(flaw, monkeypatch):
    monkeypatch.setattr(partition, "PATIENCE", 1)
    component, test, words = PARTITIONS[flaw]
    with pytest.raises(Unmet, match=words):
        test(component)


def test_a_partition_that_fails_on_few_images():
    with pytest.raises(AssertionError):
        partition.test_few_images(Careless())


class Shuffled(Synthetic):
    """Its images are drawn anew every time."""

    source = "nobody"

    def original(self, folder, download):
        raw = super().original(folder, download)
        order = np.random.default_rng().permutation(len(raw.parts["train"].labels))
        train = replace(raw.parts["train"], pixels=raw.parts["train"].pixels[order])
        return replace(raw, parts={**raw.parts, "train": train})


class Wide(Synthetic):
    """Its images are not as it declares them."""

    source = "nobody"

    def prepared_shape(self, shape):
        return (28, 29, 1) if shape == self.shape else shape

    def info(self, root):
        return replace(super().info(root), shape=(28, 30, 1))


class Unknown(Synthetic):
    """It declares a class of which there is no image, and no source."""

    source = ""

    @property
    def classes(self):
        return (*super().classes, "another")

    def original(self, folder, download):
        return replace(super().original(folder, download), classes=self.classes)


class Floating(Synthetic):
    """Its pixels are no bytes."""

    scale = 100.0

    def original(self, folder, download):
        raw = super().original(folder, download)
        parts = {part: replace(images, pixels=images.pixels.astype(np.float32)) for part, images in raw.parts.items()}
        return replace(raw, parts=parts)


SMALL = {"train_images": 60, "test_images": 20}
DATA = {
    "other images every time": (Shuffled(**SMALL), data.test_it_is_deterministic, "loading twice gave other images"),
    "another shape": (Wide(**SMALL), data.test_images, r"are \(28, 29, 1\), not \(28, 30, 1\) as declared"),
    "a class without images": (Unknown(**SMALL), data.test_labels, "no training image is of the class another"),
    "no source": (Unknown(**SMALL), data.test_it_says_what_it_is, "states no source"),
    "pixels of another type": (
        Floating(**SMALL),
        data.test_images,
        "samples of the train part are float32; give uint8",
    ),
    "another scale": (Floating(**SMALL), data.test_constants, "is the largest pixel value, but there are pixels of 2"),
}


@pytest.mark.parametrize("flaw", DATA)
def test_a_flaw_of_a_data_set_is_told_in_a_sentence(flaw):
    component, test, words = DATA[flaw]
    with pytest.raises(Unmet, match=words):
        test(component)
