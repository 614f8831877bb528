"""The optimisers are torch's own, for one client and for a stack of them, and their rates follow the schedule."""

import pytest
import torch

from fedgrid.engine.local.optimizers import Optimizer, study_optimizer
from fedgrid.settings import Training

SHAPES = {"weight": (4, 3), "bias": (4,), "scale": (), "filters": (2, 3, 5, 5)}
STEPS = 6
SGD = [{}, {"momentum": 0.9}, {"weight_decay": 0.1}, {"momentum": 0.9, "weight_decay": 0.1}]
KINDS = [Optimizer(0.05, **settings) for settings in SGD]
KINDS += [Optimizer(0.01, "adam"), Optimizer(0.01, "adam", weight_decay=0.1)]
KINDS += [Optimizer(0.05, clip=0.7, momentum=0.5), Optimizer(0.01, "adam", clip=0.7)]


def normal(seed, dtype=torch.float64, clients=()):
    """A tree of normal numbers, by default of one client."""
    source = torch.Generator().manual_seed(seed)
    return {name: torch.randn((*clients, *shape), generator=source, dtype=dtype) for name, shape in SHAPES.items()}


def descended(optimizer, theta, slopes, taken=0):
    """The parameters after each step; `taken` are the steps behind it, [k] for the clients of a stack."""
    theta = {name: t.clone() for name, t in theta.items()}
    moments, after = optimizer.moments(theta), []
    for number, slope in enumerate(slopes, start=1):
        optimizer.step(theta, [slope[name] for name in theta], moments, torch.tensor(taken) + number)
        after.append({name: t.clone() for name, t in theta.items()})
    return after


def by_torch(make, theta, slopes, clip=None):
    """The same from one of torch's optimisers."""
    theta = {name: t.clone().requires_grad_() for name, t in theta.items()}
    optimizer, after = make(theta.values()), []
    for slope in slopes:
        for name, t in theta.items():
            t.grad = None if slope[name] is None else slope[name].clone()
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(theta.values(), clip)
        optimizer.step()
        after.append({name: t.detach().clone() for name, t in theta.items()})
    return after


def assert_steps(ours, theirs, tolerance=0.0):
    for a, b in zip(ours, theirs, strict=True):
        for name in SHAPES:
            torch.testing.assert_close(a[name], b[name], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("settings", SGD)
def test_sgd_is_torchs_to_the_bit(settings, dtype):
    theta, slopes = normal(0, dtype), [normal(1 + step, dtype) for step in range(STEPS)]
    theirs = by_torch(lambda parameters: torch.optim.SGD(parameters, 0.05, **settings), theta, slopes)
    assert_steps(descended(Optimizer(0.05, **settings), theta, slopes), theirs)


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_adam_is_torchs(weight_decay):
    theta, slopes = normal(0), [normal(1 + step) for step in range(STEPS)]
    theirs = by_torch(lambda p: torch.optim.Adam(p, 0.01, weight_decay=weight_decay), theta, slopes)
    assert_steps(descended(Optimizer(0.01, "adam", weight_decay=weight_decay), theta, slopes), theirs, 1e-12)


@pytest.mark.parametrize("factor", [0.01, 1.0])  # well below the bound, and above it
def test_clip_is_torchs(factor):
    theta = normal(0)
    slopes = [{name: factor * t for name, t in normal(1 + step).items()} for step in range(STEPS)]
    theirs = by_torch(lambda parameters: torch.optim.SGD(parameters, 0.05), theta, slopes, clip=2.0)
    assert_steps(descended(Optimizer(0.05, clip=2.0), theta, slopes), theirs, 1e-12)
    unclipped = descended(Optimizer(0.05), theta, slopes)
    assert torch.equal(unclipped[0]["bias"], theirs[0]["bias"]) == (factor < 1)


@pytest.mark.parametrize("optimizer", KINDS, ids=str)
def test_a_stack_is_its_clients(optimizer):
    """Each with its own slopes, of very different length, and its own number of steps behind it."""
    taken = [0, 3, 11]
    lengths = torch.tensor([0.01, 1.0, 100.0], dtype=torch.float64)
    theta, slopes = normal(0, clients=(3,)), [normal(1 + step, clients=(3,)) for step in range(STEPS)]
    slopes = [{name: (t.movedim(0, -1) * lengths).movedim(-1, 0) for name, t in slope.items()} for slope in slopes]
    together = descended(optimizer, theta, slopes, taken)
    for client, before in enumerate(taken):
        own, *own_slopes = ({name: t[client] for name, t in tree.items()} for tree in (theta, *slopes))
        theirs = [{name: t[client] for name, t in tree.items()} for tree in together]
        assert_steps(theirs, descended(optimizer, own, own_slopes, before), 1e-12)


@pytest.mark.parametrize("clients", [(), (3,)])
@pytest.mark.parametrize("optimizer", KINDS, ids=str)
def test_a_parameter_without_slope_stays(optimizer, clients):
    theta, slopes = normal(0, clients=clients), [normal(1 + step, clients=clients) for step in range(STEPS)]
    idle = [slope | {"bias": None} for slope in slopes]
    after = descended(optimizer, theta, idle, [0, 0, 0] if clients else 0)[-1]
    assert {name for name in theta if torch.equal(after[name], theta[name])} == {"bias"}


def test_a_parameter_without_slope_counts_for_no_norm():
    theta, slopes = normal(0), [normal(1 + step) | {"bias": None} for step in range(STEPS)]
    theirs = by_torch(lambda parameters: torch.optim.SGD(parameters, 0.05), theta, slopes, clip=0.7)
    assert_steps(descended(Optimizer(0.05, clip=0.7), theta, slopes), theirs, 1e-12)


SCHEDULES = [
    ({"lr_schedule": "constant", "rounds": 4}, [1, 1, 1, 1]),
    ({"lr_schedule": "exponential", "lr_decay": 0.5, "rounds": 4}, [1, 0.5, 0.25, 0.125]),
    ({"lr_schedule": "steps", "lr_decay": 0.1, "rounds": 8}, [1, 1, 1, 1, 0.1, 0.1, 0.01, 0.01]),
    ({"lr_schedule": "steps", "lr_decay": 0.1, "rounds": 5}, [1, 1, 1, 0.1, 0.01]),  # T/2 = 2.5, 3T/4 = 3.75
    ({"lr_schedule": "steps", "lr_decay": 0.1, "rounds": 1}, [1]),
    ({"lr_schedule": "cosine", "rounds": 4}, [1, 0.8535533905932737, 0.5, 0.14644660940672624]),
]


@pytest.mark.parametrize(("settings", "factors"), SCHEDULES)
def test_rates_by_hand(settings, factors):
    rates = [study_optimizer(Training(lr=0.2, **settings), round_).lr for round_ in range(len(factors))]
    assert rates == pytest.approx([0.2 * factor for factor in factors], rel=1e-12)


@pytest.mark.parametrize(("settings", "factors"), SCHEDULES)
def test_after_the_last_round_its_rate_stays(settings, factors):
    """For what is trained for the last evaluation."""
    training = Training(lr=0.2, **settings)
    assert study_optimizer(training, training.rounds) == study_optimizer(training, training.rounds - 1)


def test_a_study_hands_everything_on():
    training = Training(optimizer="adam", lr=0.2, momentum=0.3, weight_decay=0.4, clip=0.5)
    assert study_optimizer(training, 0) == Optimizer(0.2, "adam", 0.3, 0.4, 0.5)
    assert study_optimizer(training, 0).but(lr=0.1, clip=None) == Optimizer(0.1, "adam", 0.3, 0.4, None)
