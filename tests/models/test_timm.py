"""Networks of timm: they start as what timm gives, and only what is trained is a parameter."""

import sys
from copy import deepcopy
from dataclasses import replace
from importlib.util import find_spec

import pytest
import torch
from pretended import DEVICE, fetched, machine
from recorded import Recorded
from safetensors.torch import save_file
from torch import nn

from fedgrid.engine.local.captured import Captured
from fedgrid.engine.local.loop import Loop
from fedgrid.errors import UserError
from fedgrid.loading import load
from fedgrid.models.common.low_rank import LowRank
from fedgrid.models.common.norm import named_layers
from fedgrid.models.common.pretrained import library
from fedgrid.suite import simulations
from fedgrid.tree import Tree, row, tree_map

if find_spec("timm") is None:
    pytest.skip("timm is not installed: pip install 'fedgrid[features]'", allow_module_level=True)

SHAPE, CLASSES = (32, 32, 3), 10
BACKBONES = ("test_resnet", "test_efficientnet", "test_vit")
TRAINED = ("all", "head", "last 2", "lora")


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    """By name, a file of weights and the network that they are of, whose batch norms have seen images."""
    folder, networks = tmp_path_factory.mktemp("weights"), {}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for name in BACKBONES:
            network = library().create_model(name, num_classes=0)
            side = network.pretrained_cfg["input_size"][1]
            network.train()(torch.rand(2, 3, side, side))
            file = folder / f"{name}.safetensors"
            save_file(network.state_dict(), file)
            networks[name] = str(file), network.eval()
    return networks


@pytest.fixture
def built(pretrained):
    """A function from a backbone and settings to fedgrid's network."""

    def build(name, shape=SHAPE, **settings):
        settings = {"weights": pretrained[name][0]} | settings
        return load("models", "timm")(backbone=name, **settings).network(shape, CLASSES)

    return build


def timms(pretrained, name):
    """timm's own network for the images here."""
    network = deepcopy(pretrained[name][1])
    if name == "test_vit":
        network.set_input_size(img_size=SHAPE[:2])
    return network


def images(count=4, channels=3, dtype=torch.float32):
    return torch.rand(count, channels, *SHAPE[:2], generator=torch.Generator().manual_seed(1), dtype=dtype)


def moved(theta):
    """θ with other values, as after training."""
    random = torch.Generator().manual_seed(2)
    return theta.map(lambda t: t + 0.1 * torch.rand(t.shape, generator=random).to(t))


@pytest.mark.parametrize("train", TRAINED)
@pytest.mark.parametrize("name", BACKBONES)
def test_it_starts_as_timms_own_network(name, train, pretrained, built):
    network, other = built(name, train=train), timms(pretrained, name)
    with torch.inference_mode():
        expected = other(images())
        features = network.features(network.initial(0), images())
    assert network.width == features.shape[1] == expected.shape[1]
    torch.testing.assert_close(features, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", BACKBONES)
def test_only_what_is_trained_is_a_parameter(name, pretrained, built):
    total = sum(p.numel() for p in timms(pretrained, name).parameters())

    def extractor(train):
        network = built(name, train=train)
        return network.parameters(network.initial(0)).part("extractor")

    full, last, low_rank = map(extractor, ("all", "last 2", "lora"))
    assert not extractor("head")
    assert sum(t.numel() for t in full.values()) == total
    assert 0 < len(last) < len(full) and set(last) < set(full)
    assert {key.split(".")[-2] for key in low_rank} == {"down", "up"}


def test_the_last_blocks_are_those_of_the_family(built):
    def blocks(name, count):
        theta = built(name, train=f"last {count}").initial(0).part("extractor")
        return {".".join(key.split(".")[3:5]) for key in theta}

    assert blocks("test_vit", 2) == {"blocks.4", "blocks.5", "norm.weight", "norm.bias"}
    assert blocks("test_resnet", 1) == {"layer4.0"}
    assert blocks("test_resnet", 2) == {"layer4.0", "layer3.0"}


def test_statistics_travel_where_their_norm_is_trained(built):
    full, last = (built("test_efficientnet", train=train) for train in ("all", "last 1"))
    norms = named_layers(last.modules["extractor"], "extractor")
    assert set(last.statistics) == {f"{norm}.{kind}" for norm in norms for kind in ("running_mean", "running_var")}
    assert 0 < len(last.statistics) < len(full.statistics)
    theta, x = last.initial(0), images()
    in_training, in_evaluation = last.learning(0)(theta, x), last(theta, x)
    assert not torch.allclose(in_training, in_evaluation)
    torch.testing.assert_close(last(theta, x), in_evaluation, rtol=0, atol=0)  # a frozen norm has not moved
    assert set(last.moments(theta, x)) == set(last.statistics)


def test_random_weights_depend_on_names_and_on_the_seed_where_they_are_trained(built):
    one, other = (built("test_resnet", weights="random", train="last 1") for _ in range(2))
    assert all(torch.equal(t, other.initial(0)[name]) for name, t in one.initial(0).items())
    name = "extractor.0.network.layer4.0.conv1.weight"
    assert not torch.equal(one.initial(0)[name], one.initial(1)[name])
    theta = one.initial(0)
    torch.testing.assert_close(one(theta, images()), other(theta, images()), rtol=0, atol=0)


@pytest.mark.parametrize("name", ["test_resnet", "test_vit"])
def test_low_rank_updates_merge_into_the_weights(name, pretrained, built):
    network = built(name, train="lora", rank=3, alpha=6.0)
    theta = moved(network.initial(0))
    values = {key.removeprefix("extractor."): t for key, t in theta.part("extractor").items()}
    other, paths = timms(pretrained, name), [key.removesuffix(".up.weight") for key in values if "up" in key]
    for path in paths:
        down, up = (values[f"{path}.{factor}.weight"].flatten(1) for factor in ("down", "up"))
        merged = other.get_submodule(path.removeprefix("0.network.")).weight
        with torch.no_grad():
            merged += 2.0 * (up @ down).reshape(merged.shape)
    assert len(paths) == sum(isinstance(layer, nn.Linear | nn.Conv2d) for layer in other.modules())
    with torch.inference_mode():
        torch.testing.assert_close(network.features(theta, images()), other(images()), rtol=1e-4, atol=1e-4)


def test_an_updated_layer_knows_its_merged_weight():
    base = nn.Conv2d(4, 6, 3, stride=2, padding=1, dilation=1)
    layer, x = LowRank(base, 2, 0.5).to_empty(device="cpu"), torch.rand(2, 4, 9, 9)
    for parameter in layer.parameters():
        nn.init.uniform_(parameter)
    expected = nn.functional.conv2d(x, layer.weight, layer.bias, stride=2, padding=1)
    torch.testing.assert_close(layer(x), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("train", TRAINED)
@pytest.mark.parametrize("name", ["test_resnet", "test_vit"])
def test_a_stack_gives_what_each_client_gives_alone(name, train, built):
    network = built(name, train=train)
    thetas = [moved(network.initial(seed).map(torch.Tensor.double)) for seed in range(3)]
    x = images(dtype=torch.float64)
    learning = network.learning(0)

    def gradient(theta, x):
        trained = network.parameters(theta)
        return torch.func.grad(lambda t: learning(Tree(theta) | t, x).square().mean())(trained)

    together = torch.vmap(gradient, in_dims=(0, None))(dict(tree_map(lambda *t: torch.stack(t), *thetas)), x)
    for number, theta in enumerate(thetas):
        for key, expected in gradient(theta, x).items():
            torch.testing.assert_close(row(together, number)[key], expected, rtol=1e-9, atol=1e-9)


def test_constants_are_made_once_for_each_type_and_stay_ordinary_tensors(built):
    network = built("test_vit", train="lora")
    module = network.modules["extractor"][0]
    double = network.initial(0).map(torch.Tensor.double)
    with torch.inference_mode():
        torch.func.grad(lambda theta: network(theta, images(dtype=torch.float64)).sum())(double)
    ((_, first), (place, made)) = module._values.items()
    assert place == (torch.device("cpu"), torch.float64) and len(made) == len(first)
    assert not any(t.is_inference() or torch._C._functorch.is_functorch_wrapped_tensor(t) for t in made)
    network(network.initial(0), images())
    network(double, images(dtype=torch.float64))
    assert all(now is then for now, then in zip(module._values[place], made, strict=True))
    half = network.in_bfloat16()(network.initial(0), images())
    assert half.dtype == torch.float32 and half.isfinite().all()


def test_executors_agree(built):
    network = built("test_resnet", (8, 8, 1), train="lora")
    training = {"rounds": 3, "local_steps": 1, "dtype": "float64"}
    executors = Loop(), Captured(capture=Recorded)
    given = [replace(simulations.ragged(clients=2, **training), model=network, executor=one) for one in executors]
    loop, captured = (simulations.final("fedavg", one) for one in given)
    simulations.assert_close_states(loop, captured, 1e-6)
    assert executors[1].counts["replayed"]


def test_constants_are_where_the_images_are(built):
    network = built("test_resnet", (8, 8, 1), train="last 1")
    given = replace(simulations.ragged(clients=2, rounds=1, local_steps=1, dtype="float64"), model=network)
    with machine():
        there = fetched(simulations.final("fedavg", simulations.moved(given, DEVICE)))
    simulations.assert_close_states(there, simulations.final("fedavg", given))


def test_what_is_frozen_is_counted_in_operations_alone(built):
    full, head, low_rank = (built("test_resnet", train=train) for train in ("all", "head", "lora"))
    assert full.flops(SHAPE) == head.flops(SHAPE) < low_rank.flops(SHAPE) < 2 * head.flops(SHAPE)


def test_grey_images_have_equal_channels(built):
    network, grey = built("test_resnet", train="head"), images(channels=1)
    theta = network.initial(0)
    torch.testing.assert_close(network(theta, grey), network(theta, grey.expand(-1, 3, -1, -1)))


def test_features_of_another_width_come_from_a_trained_layer(built):
    network = built("test_resnet", train="head", features=7)
    assert network.width == 7 and list(network.initial(0).part("extractor")) == [
        "extractor.1.weight",
        "extractor.1.bias",
    ]
    assert built("test_resnet", train="head", projection=9).width == 9


@pytest.mark.parametrize(
    ("name", "settings", "shape", "problem"),
    [
        ("test_resnet", {"train": "last 99"}, SHAPE, "model.train: 'test_resnet' has 5 blocks, not 99"),
        ("test_resnet", {"weights": "none.pth"}, SHAPE, "weights: there is no file none.pth"),
        ("test_resnet", {}, (8, 8, 2), "takes images of 3 channels, not 2"),
        ("test_vit", {}, (8, 8, 3), "'test_vit' cannot take images of 8×8"),
        ("test_nfnet", {"weights": "random", "train": "lora"}, SHAPE, "lora has no update for a ScaledStdConv2d"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(name, settings, shape, problem, pretrained):
    weights = pretrained[name][0] if name in pretrained else "random"
    with pytest.raises(UserError, match=problem) as caught:
        load("models", "timm")(backbone=name, **{"weights": weights} | settings).network(shape, CLASSES)
    assert "\n" not in str(caught.value)


def test_unknown_networks_and_weights_of_others_are_refused(pretrained):
    kind = load("models", "timm")
    with pytest.raises(UserError, match="backbone: unknown network; did you mean 'test_resnet'"):
        kind(backbone="test_resnets", weights="random").network(SHAPE, CLASSES)
    with pytest.raises(UserError, match=r"weights: .* is of another network, it lacks"):
        kind(backbone="test_vit", weights=pretrained["test_resnet"][0]).network(SHAPE, CLASSES)


def test_without_timm_the_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(UserError, match=r"timm is missing; pip install 'fedgrid\[features\]'"):
        load("models", "timm")().network(SHAPE, CLASSES)
