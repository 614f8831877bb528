"""Convolutions of stacked clients as matrix products: torch's numbers, for every derivative that a method takes."""

from dataclasses import replace

import pytest
import torch
from recorded import Recorded
from tiers import every_third
from torch.nn.functional import conv2d
from torch.utils._python_dispatch import TorchDispatchMode

from fedgrid.engine.local import convolutions
from fedgrid.engine.local.convolutions import Products
from fedgrid.engine.local.loop import Loop
from fedgrid.engine.local.lowered import Lowered
from fedgrid.engine.rounds import federate
from fedgrid.loading import names
from fedgrid.models.convnet import ConvNet
from fedgrid.models.resnet8 import ResNet8
from fedgrid.settings import Adversarial
from fedgrid.suite import simulations

FORMS = {
    "5×5": {"channels": 3, "filters": 8, "side": 12, "size": (5, 5)},
    "with padding and a stride": {"channels": 8, "filters": 6, "side": 11, "size": (3, 3), "stride": 2, "padding": 1},
    "1×1 with a stride": {"channels": 8, "filters": 4, "side": 12, "size": (1, 1), "stride": 2},
    "3×2, unequal": {"channels": 2, "filters": 5, "side": 9, "size": (3, 2), "stride": (2, 1), "padding": (1, 0)},
}


def inputs(form, clients):
    random = torch.Generator().manual_seed(0)

    def drawn(*shape):
        return torch.randn(clients, *shape, generator=random, dtype=torch.float64)

    x = drawn(4, form["channels"], form["side"], form["side"])
    return x, drawn(form["filters"], form["channels"], *form["size"]), drawn(form["filters"])


def autograd_over_vmap(f, x, w, b):
    given = [t.clone().requires_grad_() for t in (x, w, b)]
    y = torch.vmap(f)(*given)
    weights = torch.cos(torch.arange(y.numel(), dtype=y.dtype)).view_as(y)
    return y.detach(), *torch.autograd.grad((y * weights).sum(), given)


def grad_in_vmap(f, x, w, b):
    return torch.vmap(torch.func.grad(lambda *given: f(*given).tanh().sum(), argnums=(0, 1, 2)))(x, w, b)


def an_attack(f, x, w, b):
    def loss(x, w, b):
        slope = torch.func.grad(lambda moved: f(moved, w, b).tanh().sum())(x)
        return f(x + 0.1 * slope, w, b).tanh().sum()

    w = w.clone().requires_grad_()
    losses = torch.vmap(loss)(x, w, b)
    return losses.detach(), *torch.autograd.grad(losses.sum(), w)


def second_order(f, x, w, b):
    def squared(x, w, b):
        first = torch.func.grad(lambda v, u: f(u, v, b).tanh().sum(), argnums=(0, 1))(w, x)
        return sum((slope**2).sum() for slope in first)

    return torch.vmap(torch.func.grad(squared, argnums=(0, 1)))(x, w, b)


def shared_images(f, x, w, b):
    return (torch.vmap(f, in_dims=(None, 0, 0))(x[0], w, b),)


class Convolutions(TorchDispatchMode):
    """Counts torch's own."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += function._schema.name == "aten::convolution"
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("clients", [1, 3])
@pytest.mark.parametrize("derivative", [autograd_over_vmap, grad_in_vmap, an_attack, second_order, shared_images])
@pytest.mark.parametrize("name", FORMS)
def test_products_are_convolutions(name, derivative, clients):
    form = FORMS[name]
    options = {key: form[key] for key in ("stride", "padding") if key in form}

    def f(x, w, b):
        return conv2d(x, w, b, **options)

    expected = derivative(f, *inputs(form, clients))
    with Products(), Convolutions() as left:
        results = derivative(f, *inputs(form, clients))
    assert not left.count
    for one, other in zip(results, expected, strict=True):
        assert torch.allclose(one, other, rtol=1e-12, atol=1e-12 * other.abs().max().item())


@pytest.mark.parametrize(
    "options", [{"groups": 2}, {"dilation": 2}, {"padding": "same"}, {"most": 0}, {"shared": True}]
)
def test_what_stays_as_it_is(options, monkeypatch):
    if "most" in options:
        monkeypatch.setattr(convolutions, "MOST_GATHERED", options["most"])
    x, w, b = inputs({"channels": 4, "filters": 8, "side": 9, "size": (3, 3)}, 3)
    w = w[:, :, :2] if "groups" in options else w
    f = lambda x, w, b: conv2d(x, w, b, **{k: v for k, v in options.items() if k not in ("most", "shared")})  # noqa: E731
    dims, given = ((0, None, None), (x, w[0], b[0])) if "shared" in options else ((0, 0, 0), (x, w, b))
    with Products(), Convolutions() as left:
        torch.vmap(f, in_dims=dims)(*given)
    assert left.count


def compare(method, model, **training):
    """Compares the lowered executor with the loop, to rounding, and returns what it counted."""
    where = simulations.ragged(clients=4, dtype="float64", rounds=3, **training)
    where = replace(where, model=model.network((8, 8, 1), 10))
    executor = Lowered(capture=Recorded)
    now, before = (federate(method, replace(where, executor=each)).progress for each in (executor, Loop()))
    simulations.assert_close_states(now.state, before.state)
    return executor.counts


@pytest.mark.representatives
@pytest.mark.parametrize("name", names("methods"))
def test_every_method_has_the_numbers_of_the_loop(name):
    assert compare(simulations.method(name, **simulations.brief(name)), ConvNet(channels=2, features=8))["replayed"]


@pytest.mark.parametrize("norm", every_third(["group", "batch", "none"]))
def test_with_strides_padding_and_an_adversary(norm):
    model = ResNet8(channels=4, norm=norm)
    assert compare(simulations.method("fedcosr"), model, adversarial=Adversarial(steps=2), batch_size=8)["replayed"]


def test_products_end_with_the_work():
    x, w, b = inputs(FORMS["5×5"], 2)
    compare(simulations.method("fedavg"), ConvNet(channels=2, features=8))
    with Convolutions() as left:
        torch.vmap(conv2d)(x, w, b)
    assert left.count
