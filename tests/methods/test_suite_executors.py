"""The free suite, continued: however a method is computed, its numbers are the same to rounding."""

from functools import cache

import pytest
import simulations
import torch
from simulations import assert_close_states, assert_equal_states

from fedgrid.engine.federation.participation import everyone
from fedgrid.engine.local.context import LossContext
from fedgrid.engine.local.loop import Loop
from fedgrid.engine.local.stacked import Stacked
from fedgrid.tree import Tree, row


def computed(method_name, executor, dtype="float64", **training):
    """(simulation, progress) of three rounds on unequal clients, evaluated at their start and end."""
    usual = {"batch_size": 8, "eval_every": 3}
    simulation = simulations.ragged(executor=executor, dtype=dtype, **usual | training)
    outcome = simulations.run(method_name, simulation, **simulations.brief(method_name))
    assert outcome.status == "ok"
    return simulation, outcome.progress


@cache
def one_by_one(method_name, participation=1.0):
    """In float64 and on one thread, with which everything else is compared."""
    return computed(method_name, Loop(), participation=participation)


def predictions(method_name, simulation, state):
    """The class that each client's personal model (or else the global one) gives to its test images."""
    method = simulations.method(method_name, **simulations.brief(method_name))
    fed = everyone(simulation, simulation.training.rounds, state)
    at = LossContext(simulation.model, state.server, Tree(), None)
    with torch.no_grad():
        own = method.used(fed, state)
        models = fed.replicate(method.global_model(state)) if own is None else own
        images = enumerate(simulation.data.test)
        return [
            method.predict(row(models, i), simulation.data.batch(j).x, at).argmax(dim=1).tolist() for i, j in images
        ]


@pytest.mark.parametrize(
    ("participation", "executor"),
    [pytest.param(1.0, Stacked(3), marks=pytest.mark.representatives), (0.5, Stacked())],
    ids=["all, in chunks of three and two", "some, in one chunk"],
)
def test_clients_one_by_one_or_together(method_name, participation, executor):
    """Both executors, in float64: any difference is the method's or the engine's fault."""
    alone, loop = one_by_one(method_name, participation)
    simulation, together = computed(method_name, executor, participation=participation)
    assert_close_states(together.state, loop.state)
    assert predictions(method_name, simulation, together.state) == predictions(method_name, alone, loop.state)


@pytest.mark.representatives
def test_clients_under_attack(method_name):
    """Where a slope is all but zero, its sign hangs on rounding: scores may differ by a little."""
    attacked = {"adversarial": {"steps": 2}, "evaluate": ["clean", "fgsm", "pgd20"]}
    loop, together = (computed(method_name, executor, clients=3, **attacked)[1] for executor in (Loop(), Stacked()))
    assert_close_states(together.state, loop.state)
    ours, theirs = (
        {(round_, metric): values for round_, metric, _, values in actual.record.rows if metric[:3] in ("fgs", "pgd")}
        for actual in (together, loop)
    )
    assert ours.keys() == theirs.keys()
    assert any(metric.startswith("pgd20_accuracy") for _, metric in ours)
    for (round_, metric), values in ours.items():
        allowed = {"abs": 1 / 9 + 1e-9} if "accuracy" in metric else {"rel": 1e-2}  # every client tests on nine images
        assert values == pytest.approx(theirs[round_, metric], **allowed), metric


@pytest.mark.representatives
def test_clients_with_batch_norm(method_name):
    """In tiny batches it amplifies rounding without bound, so a client is one batch."""
    loop, together = (
        computed(method_name, executor, clients=3, norm="batch", batch_size=99)[1].state
        for executor in (Loop(), Stacked())
    )
    assert_equal_states(together, loop, rtol=1e-9, atol=1e-9)


@pytest.mark.representatives
@pytest.mark.parametrize("participation", [1.0, 0.5])
def test_float32_decides_the_same_but_for_an_image(method_name, participation):
    _, exact = one_by_one(method_name, participation)
    simulation, together = computed(method_name, Stacked(), "float32", participation=participation)
    ours, theirs = (images_right(actual, simulation) for actual in (together, exact))
    assert set(ours) == set(theirs)
    assert all(abs(ours[key] - theirs[key]) <= 1 for key in ours)


def images_right(progress, simulation):
    """Test images of each client that a model classifies correctly, by round and model."""
    tested = [len(index) for index in simulation.data.test]
    rows = [entry for entry in progress.record.rows if entry[1].startswith("accuracy")]
    return {
        (round_, metric, client): round(value * tested[client])
        for round_, metric, clients, values in rows
        for client, value in zip(clients, values, strict=True)
    }


@pytest.mark.representatives
def test_threads(method_name, threads):
    """The same bits with as many of them, the same numbers to rounding with more."""
    _, expected = one_by_one(method_name)
    threads(2)
    first, again = (computed(method_name, Loop())[1] for _ in range(2))
    assert again.record.rows == first.record.rows
    assert_equal_states(again.state, first.state)
    assert_close_states(first.state, expected.state)
