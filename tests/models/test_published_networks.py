"""Models of papers give what torchvision's and timm's own give with the same weights."""

import pytest
import torch
from studies import study_of
from torch import nn

from fedgrid.data.sources import torchvision_shim
from fedgrid.errors import UserError
from fedgrid.files import read_table
from fedgrid.jobs.cell import Saving, train
from fedgrid.jobs.partition import prepare
from fedgrid.loading import load
from fedgrid.tree import Tree

SHAPE, CLASSES = (32, 32, 3), 10


def theirs(module):
    """A module of torchvision or timm; the test is skipped where it cannot be imported."""
    try:
        torchvision_shim.load("torchvision")
        return torchvision_shim.load(module)
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"{module} cannot be imported ({error})")


def resnet18(norm):
    models = theirs("torchvision.models")
    other = models.resnet18(weights=None, num_classes=CLASSES)
    other.conv1, other.maxpool = nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.Identity()
    return load("models", "resnet18")(norm=norm), other


def resnet8(norm):
    block = theirs("torchvision.models.resnet").BasicBlock

    def narrowed(inputs, outputs):
        return nn.Sequential(nn.Conv2d(inputs, outputs, 1, 2, bias=False), nn.BatchNorm2d(outputs))

    stem = nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()
    stages = block(16, 16), block(16, 32, 2, narrowed(16, 32)), block(32, 64, 2, narrowed(32, 64))
    other = nn.Sequential(*stem, *stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, CLASSES))
    return load("models", "resnet8")(norm=norm), other


def mobilenet(norm, multiplier=1.0):
    models = theirs("torchvision.models")
    other = models.mobilenet_v2(weights=None, num_classes=CLASSES, width_mult=multiplier)
    return load("models", "mobilenetv2")(norm=norm, multiplier=multiplier, stride=2), other


def narrow_mobilenet(norm):
    return mobilenet(norm, 0.35)


def vit(_):
    theirs("timm")
    kind = theirs("timm.models.vision_transformer").VisionTransformer
    other = kind(img_size=32, patch_size=4, embed_dim=128, depth=6, num_heads=4, num_classes=CLASSES)
    return load("models", "vit")(), other


def copied(network, other):
    """Our parameters with the other network's values, which come in the same order."""
    ours, values = network.initial(0), [t for name, t in other.state_dict().items() if "num_batches" not in name]
    assert [t.numel() for t in ours.values()] == [t.numel() for t in values]
    pairs = zip(ours.items(), values, strict=True)
    return Tree((name, value.reshape(t.shape).double()) for (name, t), value in pairs)


@pytest.mark.parametrize("pair", [resnet18, resnet8, mobilenet, narrow_mobilenet, vit])
@pytest.mark.parametrize("training", [False, True])
def test_the_same_weights_give_the_same_logits(pair, training):
    model, other = pair("batch")
    with torch.no_grad():
        generator = torch.Generator().manual_seed(0)
        for name, t in other.state_dict().items():
            if t.is_floating_point():
                t.copy_(torch.rand(t.shape, generator=generator) + 0.5 if "var" in name else
                        torch.randn(t.shape, generator=generator) / max(1, t[0].numel()) ** 0.5)  # fmt: skip
        other = other.double().train(training)
        for layer in other.modules():
            if isinstance(layer, nn.Dropout):
                layer.p = 0.0
        network = model.network(SHAPE, CLASSES)
        theta = copied(network, other)
        x = torch.rand(4, 3, 32, 32, generator=generator, dtype=torch.float64)
        logits = (network.learning(0) if training else network)(theta, x)
        torch.testing.assert_close(logits, other(x), rtol=1e-9, atol=1e-9)


SMALL = {
    "resnet8": {"channels": 4},
    "resnet18": {"channels": 4, "norm": "batch"},
    "mobilenetv2": {"multiplier": 0.25},
    "vit": {"width": 16, "depth": 2},
}


ONE_STEP = {"rounds": 1, "local_steps": 1, "dtype": "float64"}
"Deep networks with normalisation amplify rounding, about a hundredfold a step: further steps compare nothing."


@pytest.mark.parametrize("name", SMALL)
def test_both_executors_train_it_alike(name, tmp_path):
    losses = []
    for executor in ("loop", "stacked"):
        study = study_of(
            results=str(tmp_path / executor), methods=["fedavg"], seeds=[0], training=ONE_STEP,
            model={"name": name, "features": 8} | SMALL[name], compute={"executor": executor},
        )  # fmt: skip
        (cell,) = study.cells
        prepare(cell.partition, study)
        train(cell, cell.file, study.compute, Saving(cell.checkpoint, cell.key, every=1e9))
        frame = read_table(cell.file)[0].to_pandas()
        losses.append(frame[frame["metric"].str.startswith("loss")]["value"].to_numpy())
    assert len(losses[0]) and losses[0] == pytest.approx(losses[1], rel=1e-6)


@pytest.mark.parametrize(
    ("name", "settings", "shape", "problem"),
    [
        ("vit", {"patch": 16}, (8, 8, 1), "model.patch: patches of 16×16 do not fit images of 8×8"),
        ("vit", {"heads": 3}, (8, 8, 1), "model.heads: 3 heads cannot share a width of 128"),
        ("mobilenetv2", {"stride": 2}, (8, 8, 1), "model.stride: 2 needs images of at least 16×16"),
        ("resnet18", {}, (4, 4, 1), "needs images of at least 8×8"),
    ],
)
def test_images_that_do_not_fit(name, settings, shape, problem):
    with pytest.raises(UserError, match=problem):
        load("models", name)(**settings).network(shape, CLASSES)


@pytest.mark.parametrize("name", ["resnet8", "resnet18", "mobilenetv2"])
@pytest.mark.parametrize("norm", ["batch", "group", "none"])
def test_the_smallest_ones_take_the_smallest_images(name, norm):
    least = {"resnet8": {"channels": 4}, "resnet18": {"channels": 2}, "mobilenetv2": {"multiplier": 0.25}}[name]
    model = load("models", name)(norm=norm, **least)
    network = model.network((model.smallest, model.smallest, 1), CLASSES)
    logits = network.learning(0)(network.initial(0), torch.rand(1, 1, model.smallest, model.smallest))
    assert logits.shape == (1, CLASSES) and logits.isfinite().all()
