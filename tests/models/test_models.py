"""The networks: what the papers say of them, in numbers of layers and parameters."""

import pytest

from fedgrid.errors import UserError
from fedgrid.loading import load


def network(name, shape, classes=10, **settings):
    return load("models", name)(**settings).network(shape, classes)


def parameters(net):
    return sum(t.numel() for t in net.initial(0).values())


def layers(net):
    return [t.dim() // 2 for name, t in net.initial(0).items() if name.endswith("weight")]


@pytest.mark.parametrize(
    ("name", "settings", "shape", "width", "kinds", "size"),
    [
        ("cnn", {"features": 512}, (28, 28, 1), 512, [2, 2, 1, 1], 582_026),  # PFLlib's FedAvgCNN on MNIST
        ("lenet5", {}, (32, 32, 3), 84, [2, 2, 1, 1, 1], 62_006),  # pFedGraph's code on CIFAR-10
        # MOON's encoder, projection head of 84 and 256 and classifier
        ("lenet5", {"projection": 256}, (32, 32, 3), 256, [2, 2, 1, 1, 1, 1, 1], 61_156 + 7_140 + 21_760 + 2_570),
        ("convnet", {}, (28, 28, 1), 128, [2, 2, 1, 1], 320 + 18_496 + 49 * 64 * 128 + 128 + 1_290),
        ("convnet", {"blocks": 3}, (32, 32, 3), 128, [2, 2, 2, 1, 1], 896 + 18_496 + 73_856 + 16 * 128 * 128 + 1_418),
        (
            "mlp",
            {"hidden": None, "features": 128},
            (1, 1, 192),
            128,
            [1, 1],
            193 * 128 + 129 * 10,
        ),  # FedCCL on features
        ("mlp", {"hidden": 100, "features": 50}, (8, 8, 1), 50, [1, 1, 1], 6_500 + 5_050 + 510),
    ],
)
def test_layers_and_parameters(name, settings, shape, width, kinds, size):
    net = network(name, shape, **settings)
    assert (net.width, layers(net), parameters(net)) == (width, kinds, size)


def test_too_many_blocks_for_an_image():
    with pytest.raises(UserError, match="at least 16 pixels"):
        network("convnet", (8, 8, 1), blocks=4)
    assert network("convnet", (16, 16, 1), blocks=4, channels=2)


@pytest.mark.parametrize("norm", ["batch", "group"])
def test_every_block_is_normalised(norm):
    names = network("convnet", (16, 16, 1), blocks=3, channels=8, norm=norm).initial(0)
    assert sum(name.endswith("weight") and t.dim() == 1 for name, t in names.items()) == 3
