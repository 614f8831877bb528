"""However a method is computed, its numbers are the same to rounding."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import pytest
import torch

from fedgrid.engine.federation.participation import everyone
from fedgrid.engine.federation.simulation import Simulation
from fedgrid.engine.local.context import LossContext
from fedgrid.engine.local.executor import Executor
from fedgrid.engine.local.loop import Loop
from fedgrid.engine.local.stacked import Stacked
from fedgrid.engine.state.checkpoint import Progress
from fedgrid.engine.state.state import State
from fedgrid.errors import UserError
from fedgrid.suite import simulations
from fedgrid.suite.expectations import CLIENTS, NOT_SCORED, Unmet, check, expect, expect_same, final_progress
from fedgrid.suite.method import check_equal
from fedgrid.tree import Tree, row

PURE = "a loss or step is a pure function of θ, batch and at: no branch on values, nothing changed in place"
TYPES = "θ is in float64 here: make tensors of its type, such as x.new_full(shape, 0.5) of a tensor x of θ"
TOGETHER = "clients trained one by one or together have to give the same numbers, to the rounding of float64"


def computed(
    method_name: str, executor: Executor, dtype: str = "float64", **training: Any
) -> tuple[Simulation, Progress]:
    """(simulation, progress) of three rounds on unequal clients, evaluated at their start and end."""
    usual: dict[str, Any] = {"batch_size": 8, "eval_every": 3}
    simulation = simulations.ragged(executor=executor, dtype=dtype, **usual | training)
    try:
        outcome = simulations.run(method_name, simulation, **simulations.brief(method_name))
    except Exception as error:
        if dtype == "float64" and "type" in str(error) and not isinstance(error, UserError):
            error.add_note(TYPES)
        raise
    return simulation, final_progress(outcome)


@cache
def reference_run(method_name: str, participation: float = 1.0) -> tuple[Simulation, Progress]:
    """Clients one by one, in float64 and on one thread: with this everything else is compared."""
    return computed(method_name, Loop(), participation=participation)


def predictions(method_name: str, simulation: Simulation, state: State) -> list[list[int]]:
    """The class that each client's personal model (or else the global one) gives to its test images."""
    method = simulations.method(method_name, **simulations.brief(method_name))
    fed = everyone(simulation, simulation.training.rounds, state)
    at = LossContext(simulation.model, state.server, Tree(), None)
    with torch.no_grad():
        models = method.used(fed, state)
        if models is None:
            raise Unmet(NOT_SCORED)
        batches = [simulation.data.batch(index).x for index in simulation.data.test]
        return [method.predict(row(models, i), x, at).argmax(dim=1).tolist() for i, x in enumerate(batches)]


def check_close(first: State, second: State, rule: str) -> None:
    """Two states agree to rounding; `rule` begins the sentence."""
    ours, theirs = simulations.state_tree(first), simulations.state_tree(second)
    expect_same(ours, theirs, rule, simulations.beyond_rounding(), f"; {PURE}")


@pytest.mark.parametrize(
    ("participation", "executor"),
    [pytest.param(1.0, Stacked(3), marks=pytest.mark.representatives), (0.5, Stacked())],
    ids=["all, in chunks of three and two", "some, in one chunk"],
)
@check("clients one by one or together", CLIENTS, always=True)
def test_clients_one_by_one_or_together(method_name: str, participation: float, executor: Executor) -> None:
    """Both executors, in float64: any difference is the method's or the engine's fault."""
    alone, loop = reference_run(method_name, participation)
    simulation, together = computed(method_name, executor, participation=participation)
    check_close(together.state, loop.state, TOGETHER)
    same = predictions(method_name, simulation, together.state) == predictions(method_name, alone, loop.state)
    expect(same, f"{TOGETHER}, but `predict` gives other classes to some test images; {PURE}")


@pytest.mark.representatives
@check("clients one by one or together, on attacked images", CLIENTS)
def test_clients_under_attack(method_name: str) -> None:
    """Where a slope is all but zero, its sign hangs on rounding: scores may differ by a little."""
    attacked: dict[str, Any] = {"adversarial": {"steps": 2}, "evaluate": ["clean", "fgsm", "pgd20"]}
    loop, together = (computed(method_name, executor, clients=3, **attacked)[1] for executor in (Loop(), Stacked()))
    check_close(together.state, loop.state, TOGETHER)
    ours, theirs = (
        {(round_, metric): values for round_, metric, _, values in actual.record.rows if metric[:3] in ("fgs", "pgd")}
        for actual in (together, loop)
    )
    assert ours.keys() == theirs.keys()
    assert any(metric.startswith("pgd20_accuracy") for _, metric in ours)
    for (round_, metric), values in ours.items():
        allowed: dict[str, Any] = {"abs": 1 / 9 + 1e-9} if "accuracy" in metric else {"rel": 1e-2}  # of nine images
        close = values == pytest.approx(theirs[round_, metric], **allowed)
        expect(close, f"{TOGETHER}, but {metric} of round {round_} differs by more than one image or 1 %; {PURE}")


@pytest.mark.representatives
@check("clients one by one or together, with batch norm", CLIENTS)
def test_clients_with_batch_norm(method_name: str) -> None:
    """In tiny batches it amplifies rounding without bound, so a client is one batch."""
    loop, together = (
        computed(method_name, executor, clients=3, norm="batch", batch_size=99)[1].state
        for executor in (Loop(), Stacked())
    )
    ours, theirs = simulations.state_tree(together), simulations.state_tree(loop)
    statistics = "; code that compares models uses fed.parameters(theta), which leaves batch norm's statistics out"
    expect_same(ours, theirs, f"{TOGETHER}, with batch norm too", simulations.by_more_than(1e-9, 1e-9), statistics)


@pytest.mark.representatives
@pytest.mark.parametrize("participation", [1.0, 0.5], ids=["all take part", "some take part"])
@check("float32 classifies like float64, but for one image", CLIENTS)
def test_float32_decides_the_same_but_for_an_image(method_name: str, participation: float) -> None:
    _, exact = reference_run(method_name, participation)
    simulation, together = computed(method_name, Stacked(), "float32", participation=participation)
    ours, theirs = (images_right(actual, simulation) for actual in (together, exact))
    assert set(ours) == set(theirs)
    far = [key for key in ours if abs(ours[key] - theirs[key]) > 1]
    rule = "float32 has to classify as float64 does, but for one image of a client"
    which = "".join(f"{metric} of client {client} in round {round_}" for round_, metric, client in far[:1])
    stable = "rewrite what loses digits: a logarithm of a softmax as log_softmax, a small difference of large sums"
    expect(not far, f"{rule}, but {which} differs by more; {stable}")


def images_right(progress: Progress, simulation: Simulation) -> dict[tuple[int, str, int], int]:
    """Test images of each client that a model classifies correctly, by round and model."""
    tested = [len(index) for index in simulation.data.test]
    rows = [entry for entry in progress.record.rows if entry[1].startswith("accuracy")]
    return {
        (round_, metric, client): round(value * tested[client])
        for round_, metric, clients, values in rows
        for client, value in zip(clients, values, strict=True)
    }


@pytest.mark.representatives
@check("any number of threads", CLIENTS)
def test_threads(method_name: str) -> None:
    """The same bits with as many of them, the same numbers to rounding with more."""
    _, expected = reference_run(method_name)
    with threads(2):
        first, again = (computed(method_name, Loop())[1] for _ in range(2))
    check_equal(again, first, "two runs with two threads have to agree bit for bit")
    check_close(first.state, expected.state, "two threads have to give the numbers of one, to rounding")


@contextmanager
def threads(number: int) -> Iterator[None]:
    """So many threads of torch within; the former number is put back."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
