"""Synthetic images: learnable, a function of their settings, in the form that they announce."""

import itertools

import numpy as np
import pytest
from data_files import built

from fedgrid.components import describe
from fedgrid.data.common import store
from fedgrid.data.common.images import PARTS
from fedgrid.data.synthetic import Synthetic

SMALL = {"train_images": 40, "test_images": 20}


def accuracy(data):
    """Of a logistic regression from the training part on the test part."""
    from sklearn.linear_model import LogisticRegression

    parts = data.load(None, None).parts
    inputs = {part: images.pixels.reshape(len(images.labels), -1) / 255 for part, images in parts.items()}
    fitted = LogisticRegression(max_iter=300).fit(inputs["train"], parts["train"].labels)
    return fitted.score(inputs["test"], parts["test"].labels)


@pytest.mark.parametrize("settings", [{}, {"domain_count": 4}, {"channels": 3, "draw": 1}])
def test_the_classes_can_be_learnt(settings):
    assert accuracy(Synthetic(train_images=2_000, test_images=500, **settings)) > 0.8


def test_noise_makes_it_harder():
    easy, hard = (accuracy(Synthetic(train_images=1_000, test_images=500, noise=noise)) for noise in (2.0, 10.0))
    assert hard < 0.7 < easy


def test_the_form_is_that_of_the_images():
    data = Synthetic(**SMALL, size=12, channels=3, class_count=7, domain_count=3, side=6)
    info, actual = data.info(None), data.load(None, None)
    assert info.shape == (6, 6, 3)
    assert (info.classes, info.domains) == (actual.classes, actual.domains)
    assert len(info.classes) == 7 and len(info.domains) == 3
    for part in PARTS:
        images = actual.parts[part]
        assert images.pixels.shape == (info.images[part], 12, 12, 3)
        assert images.pixels.dtype == np.uint8


def test_every_class_is_equally_frequent_in_every_domain():
    images = Synthetic(train_images=120, class_count=5, domain_count=4).load(None, None).parts["train"]
    assert (np.bincount(images.labels * 4 + images.domains) == 6).all()
    assert (np.diff(images.labels) < 0).any(), "the images are in no order"


def test_another_draw_gives_other_images():
    one, other = (Synthetic(**SMALL, draw=draw).load(None, None).parts for draw in (0, 1))
    assert one["train"].domains is None
    assert store.checksum_of(one) != store.checksum_of(other)
    both = np.concatenate([one["train"].pixels, one["test"].pixels])
    assert len(np.unique(both, axis=0)) == 60, "no test image is a training image"


def test_the_number_computed_at_once_does_not_matter(monkeypatch):
    data = Synthetic(**SMALL, domain_count=2)
    whole = store.checksum_of(data.load(None, None).parts)
    monkeypatch.setattr("fedgrid.data.synthetic.AT_ONCE", 3 * 28 * 28)
    assert store.checksum_of(data.load(None, None).parts) == whole


def test_domains_look_different():
    data = Synthetic(train_images=400, test_images=0, domain_count=3, noise=1.0)
    images = data.load(None, None).parts["train"]
    means = [images.pixels[images.domains == domain].mean(axis=0) for domain in range(3)]
    assert all(np.abs(a - b).mean() > 5 for a, b in itertools.combinations(means, 2))


def test_normalised_inputs_are_of_unit_size():
    data = Synthetic(train_images=500, test_images=0)
    inputs = (data.load(None, None).parts["train"].pixels / data.scale - data.mean[0]) / data.std[0]
    assert abs(inputs.mean()) < 0.05
    assert 0.9 < inputs.std() < 1.1


def test_it_is_described_converted_and_read(tmp_path):
    names = {p["name"] for p in describe(Synthetic)["parameters"]}
    assert names >= {"side", "colour", "train_images", "class_count", "domain_count", "noise", "draw"}
    data = Synthetic(**SMALL, colour=True, domain_count=2)
    pool, labels = built(data, tmp_path)
    assert data.is_available(None)
    assert pool.images.pixels.shape == (60, *data.info(None).shape) == (60, 28, 28, 3)
    assert labels.domain_names == data.info(None).domains
