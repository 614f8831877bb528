"""What every model is: a pure function of its parameters, which are those of an extractor and of a linear head."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from fedgrid.components import describe
from fedgrid.data.common.images import IMAGE, SIGNAL, TABULAR, TEXT
from fedgrid.errors import UserError
from fedgrid.models.base import PARTS, Model, Network
from fedgrid.models.common.norm import is_statistic
from fedgrid.suite import simulations
from fedgrid.suite.expectations import MODEL, Unmet, check, check_documented, expect, expect_same
from fedgrid.tree import Tree, row, tree_map

CLASSES, VOCABULARY, WORDS, READINGS, IMAGES = 7, 50, 12, 40, 6
"Of the networks and batches here; no two are equal, so that none is mistaken for another."
STACKED = "models under torch.vmap have to give what each gives alone"
PURE = (
    "layers are pure functions of their parameters: no buffers, no dropout, no random numbers, nothing changed in place"
)


def shape_of(model: Model) -> tuple[int, int, int]:
    """Images that are higher than wide, with three colours, where the model takes images; else of what it takes."""
    if IMAGE not in model.kinds:
        return {TEXT: (1, WORDS, 1), SIGNAL: (1, READINGS, 3), TABULAR: (1, 1, WORDS)}[model.kinds[0]]
    side = max(model.smallest, 8)
    return side + 4, side, 3


def network_of(model: Model) -> Network:
    """The network of `CLASSES` classes for such images."""
    return model.network(shape_of(model), CLASSES, VOCABULARY)


def batches(model: Model, count: int = IMAGES) -> Iterator[tuple[Network, Tree, Tensor]]:
    """Of each modality: its network, its parameters in float64, and a batch of random images or texts."""
    network, random = network_of(model), torch.Generator().manual_seed(0)
    theta = network.initial(0).map(Tensor.double)
    height, width, colours = shape_of(model)
    for modality in network.modalities or ("",):
        part = network.only(modality) if modality else network
        if network.textual or modality == "textual":
            x = torch.randint(1, VOCABULARY, (count, WORDS), generator=random)
        else:
            x = torch.rand(count, colours, height, width, generator=random, dtype=torch.float64)
        yield part, part.part_of_modality(theta) if modality else theta, x


@check("title and settings are documented", MODEL)
def test_it_says_what_it_is(model: Model) -> None:
    check_documented(type(model))
    expect(bool(describe(type(model))["summary"]), "the file has to begin with a docstring that says what the model is")


@check("features and logits have the declared shapes", MODEL)
def test_shapes(model: Model) -> None:
    for network, theta, x in batches(model):
        width = model.projection or model.features
        expect(network.width == width, f"features={model.features} declares a width of {width}, not {network.width}")
        z = network.features(theta, x)
        check_shape("`extractor` gives", z, (IMAGES, width))
        check_shape("the network gives", network(theta, x), (IMAGES, CLASSES))
        same = torch.equal(network(theta, x), network.head(theta, z))
        expect(same, "logits have to be the head's of the features; `network` may not be overridden otherwise")


def check_shape(what: str, values: Tensor, shape: tuple[int, ...]) -> None:
    """Values have the shape, and are finite numbers of float64 where θ and images are."""
    rule = f"{IMAGES} images have to give {list(shape)}"
    expect(tuple(values.shape) == shape, f"{rule}, but {what} {list(values.shape)}")
    expect(values.dtype == torch.float64, f"{what} {values.dtype} for θ and images of float64")
    expect(bool(values.isfinite().all()), f"{what} NaN or infinite numbers for random images")


@check("other widths and numbers of classes", MODEL)
def test_settings_decide_the_width(model: Model) -> None:
    for features, projection in ((24, None), (24, 10)):
        changed = replace(model, features=features, projection=projection)
        for network, theta, x in batches(changed):
            width = projection or features
            actual = network.features(theta, x).shape[1]
            settings = f"features={features}, projection={projection}"
            expect(actual == width, f"{settings} has to give representations of {width} numbers, not {actual}")
    for classes in (1, 2, 11):
        network = model.network(shape_of(model), classes, VOCABULARY)
        actual = len(network.initial(0)["head.bias"])
        expect(actual == classes, f"a network of {classes} classes has a head of {actual}")


@check("every parameter belongs to the extractor or to the linear head", MODEL)
def test_parts(model: Model) -> None:
    network = network_of(model)
    theta = network.initial(0)
    parts = {part: set(theta.part(part)) for part in PARTS}
    stray = sorted(set(theta) - parts["extractor"] - parts["head"])
    expect(not stray, f"names begin with 'extractor.' or 'head.', but there are {', '.join(stray)}")
    expect(bool(parts["extractor"]), "the extractor has no parameters, so that there is nothing to train but the head")
    head = {name: tuple(theta[name].shape) for name in sorted(parts["head"])}
    linear = {"head.bias": (CLASSES,), "head.weight": (CLASSES, network.width)}
    expect(head == linear, f"the head is one linear layer {linear}, but it is {head}")


@check("gradients reach every parameter", MODEL)
def test_gradients(model: Model) -> None:
    reached: set[str] = set()
    for network, theta, x in batches(model, count=32):
        trained = network.parameters(theta)
        gradient = torch.func.grad(lambda t, n=network, x=x, all_=theta: loss(n, all_ | t, x))(trained)
        finite = [name for name, g in gradient.items() if not g.isfinite().all()]
        expect(not finite, f"the gradient of {', '.join(finite)} is not finite for random images")
        reached |= {name for name, g in gradient.items() if g.abs().max() > 0}
    left = sorted(name for name in network_of(model).initial(0) if not is_statistic(name) and name not in reached)
    sentence = f"{', '.join(left)} have a gradient of 0 on 32 random images: does `extractor` use all its layers?"
    expect(not left, sentence)


def loss(network: Network, theta: Tree, x: Tensor) -> Tensor:
    """A number that depends on all logits, each in another way."""
    scores = network.learning(0)(theta, x)
    labels = torch.arange(len(x)) % scores.shape[1]
    return torch.nn.functional.cross_entropy(scores, labels)


@check("the seed alone decides the initial parameters", MODEL)
def test_initial_parameters(model: Model) -> None:
    def drawn(seed: int, torch_seed: int) -> Tree:
        torch.manual_seed(torch_seed)
        before = torch.get_rng_state()
        theta = network_of(model).initial(seed)
        sentence = "initial parameters are drawn by fedgrid, but building the model draws from torch's generator"
        expect(torch.equal(before, torch.get_rng_state()), sentence)
        return theta

    first, again, other = drawn(0, 1), drawn(0, 2), drawn(1, 1)
    expect_same(first, again, "the same seed has to give the same parameters")
    equal = not simulations.difference(first, other)
    expect(not equal, "another seed has to give other parameters, but they are equal")


@check("an image is classified alike alone and in a batch", MODEL)
def test_a_batch_of_one(model: Model) -> None:
    differ = simulations.by_more_than(1e-9, 1e-9)
    for network, theta, x in batches(model):
        alone = torch.cat([network(theta, x[i : i + 1]) for i in range(len(x))])
        rule = "in evaluation an image's logits may not depend on the other images of its batch"
        advice = "; use batch norm from fedgrid.models.common.norm"
        expect_same({"the logits": alone}, {"the logits": network(theta, x)}, rule, differ, advice)
        in_training = loss(network, theta, x[:1])
        expect(bool(in_training.isfinite()), "a batch of one image has to give a finite loss in training")


@check("calls change nothing", MODEL)
def test_calls_change_nothing(model: Model) -> None:
    for network, theta, x in batches(model):
        before, images = theta.map(torch.clone), x.clone()
        first = network(theta, x)
        loss(network, theta, x)
        expect_same(theta, before, "a call may not change θ", advice=f" afterwards; {PURE}")
        expect(torch.equal(x, images), f"a call may not change its images; {PURE}")
        expect(torch.equal(first, network(theta, x)), f"two calls have to give the same logits; {PURE}")


@check("a stack of models gives what each gives alone", MODEL)
def test_stacked(model: Model) -> None:
    differ = simulations.beyond_rounding()
    for network, _, x in batches(model):
        full = [network_of(model).initial(seed).map(Tensor.double) for seed in range(3)]
        thetas = [network.part_of_modality(theta) if network.modality else theta for theta in full]
        for what, function in functions(network):
            alone = [function(theta, x) for theta in thetas]
            together = vmapped(function, what)(tree_map(lambda *rows: torch.stack(rows), *thetas), x)
            for i, expected in enumerate(alone):
                expect_same({what: row(together, i)}, {what: expected}, STACKED, differ, f"; {PURE}")


def functions(network: Network) -> list[tuple[str, Callable[[Tree, Tensor], Any]]]:
    """What the engine computes with a model, by name."""
    gradient = torch.func.grad(lambda trained, theta, x: loss(network, theta | trained, x))
    return [
        ("the logits", network),
        ("the gradient", lambda theta, x: dict(gradient(network.parameters(theta), theta, x))),
    ]


def vmapped(function: Callable[[Tree, Tensor], Any], what: str) -> Callable[[Tree, Tensor], Any]:
    """The function for a stack of models and one batch; an error of vmap's becomes a sentence."""

    def together(thetas: Tree, x: Tensor) -> Any:
        try:
            return torch.vmap(lambda theta: function(Tree(theta), x))(dict(thetas))
        except RuntimeError as error:
            problem = f"{what} cannot be computed for a stack of models ({error})"
            raise Unmet(f"{problem}; the extractor may not branch on values") from error

    return together


@check("images that are too small are refused in a sentence", MODEL)
def test_too_small_images(model: Model) -> None:
    if model.smallest == 1:
        return
    side = model.smallest - 1
    try:
        model.network((side, side, 3), CLASSES, VOCABULARY)
    except UserError:
        return
    raise Unmet(f"smallest = {model.smallest} has to refuse images of {side}×{side}")
