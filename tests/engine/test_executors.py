"""Both executors, any chunk and any order of clients give the same numbers."""

import dataclasses
import math
import random
import re
from functools import cache

import numpy as np
import pytest
import torch

from fedgrid.engine.compute import CLIENTS_WORTH_A_CALL, FLOPS_OF_OVERHEAD, executor_for
from fedgrid.engine.federation.participation import everyone
from fedgrid.engine.local import stacked
from fedgrid.engine.local.captured import Captured
from fedgrid.engine.local.grouping import batches_per_call, of_one_epoch
from fedgrid.engine.local.loop import Loop
from fedgrid.engine.local.losses import cross_entropy
from fedgrid.engine.local.lowered import Lowered
from fedgrid.engine.local.optimizers import Optimizer
from fedgrid.engine.local.stacked import Stacked
from fedgrid.engine.local.task import LocalTask
from fedgrid.engine.rounds import federate
from fedgrid.errors import UserError
from fedgrid.methods.common.prototypes import class_sums
from fedgrid.methods.fedavg import FedAvg
from fedgrid.models.cnn import CNN
from fedgrid.models.mlp import MLP
from fedgrid.settings import Compute
from fedgrid.suite import simulations
from fedgrid.suite.simulations import OTHERS, ROUNDING, assert_close, assert_close_states, assert_equal_states
from fedgrid.tree import Tree, squared_distance, tree_map

anyone_or_half = pytest.mark.parametrize("participation", [1.0, 0.5])
both_executors = pytest.mark.parametrize("executor", [Loop(), Stacked()], ids=["loop", "stacked"])


@pytest.fixture(params=[Loop(), Stacked()], ids=["loop", "stacked"])
def fed(request):
    """Round 0 of unequal clients, under either executor."""
    return everyone(simulations.ragged(executor=request.param), 0)


def run(name, executor, **settings):
    """The progress after all rounds on unequal clients."""
    return run_in(simulations.ragged(executor=executor, **settings), name)


def run_in(simulation, name):
    outcome = simulations.run(name, simulation)
    assert outcome.status == "ok"
    return outcome.progress


@pytest.mark.parametrize("name", ["fedcosr", "scaffold"])
@anyone_or_half
def test_chunks(name, participation):
    """Of every size; tests/methods/test_suite_executors.py compares both executors for every method."""
    loop = run(name, Loop(), dtype="float64", participation=participation)
    for chunk in (None, 1, 2, 5):
        together = run(name, Stacked(chunk), dtype="float64", participation=participation)
        assert_close_states(together.state, loop.state)


@pytest.mark.parametrize("name", ["fedavg", "fedcosr"])
def test_threads_of_the_perceptron_as_it_is_shipped(name, threads):
    """The same bits with as many of them, the same numbers to float32's rounding with more."""
    index = torch.arange(600).split(200)
    simulation = simulations.simulation([part.tolist() for part in index], batch_size=128)
    simulation = dataclasses.replace(simulation, model=MLP().network((8, 8, 1), 10))
    actual = []
    for number in (1, 2):
        threads(number)
        first, again = (run_in(simulation, name).state for _ in range(2))
        assert_equal_states(again, first)
        actual.append(first)
    assert_close_states(*actual, tolerance=1e-5)


# One training of five clients, with all that a loss may use


MOMENTUM = Optimizer(0.05, momentum=0.5)


def noisy(theta, batch, at):
    """A loss with random numbers, a constant of the client and a named mean."""
    x = batch.x + at.uniform("noise", batch.x)
    far = squared_distance(theta, at.client.anchor)
    value = cross_entropy(at.model(theta, x), batch.y) + at.client.pull * far
    return value, {"far": (far * len(batch.y), torch.tensor(len(batch.y)))}


def task(simulation, order, **changes):
    """Two epochs of the clients in this order; each has its own start, anchor and pull."""
    fed = everyone(simulation, 0)
    start = fed.replicate(fed.initial())
    start = tree_map(lambda t: t * (1 + torch.arange(len(t)) / 10).reshape(-1, *[1] * (t.dim() - 1)), start)
    rows = {"anchor": tree_map(lambda t: t / 2, start), "pull": torch.arange(len(fed.ids), dtype=torch.float64) / 50}
    order = torch.tensor(list(order))
    own = {"ids": order.tolist(), "theta": tree_map(lambda t: t[order], start)}
    own["clients"] = Tree(tree_map(lambda t: t[order], rows))
    constant = {"batch_size": 4, "seed": simulation.seed, "round": 0, "server": Tree(), "epochs": 2}
    return LocalTask(simulation.data, simulation.data.train, simulation.model, **constant | own | changes)


def trained(simulation, order, optimizer):
    """Everything that training and measuring the clients in this order give."""
    actual = simulation.executor.train(task(simulation, order), noisy, optimizer, "")
    sums = simulation.executor.measure(task(simulation, order), class_sums)
    return {"theta": actual.theta, "loss": actual.loss, "mean": actual.mean, "steps": actual.steps, "sums": sums}


@pytest.mark.parametrize(("executor", "tolerance"), [(Loop(), 0.0), (Stacked(), ROUNDING), (Stacked(2), ROUNDING)])
def test_another_order_of_clients(executor, tolerance):
    simulation = simulations.ragged(executor=executor, dtype="float64")
    straight, order = trained(simulation, range(5), MOMENTUM), [3, 0, 4, 2, 1]
    assert_close(trained(simulation, order, MOMENTUM), tree_map(lambda t: t[torch.tensor(order)], straight), tolerance)


@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("kind", ["sgd", "adam"])
def test_a_loss_with_noise_constants_and_means(kind, dropout):
    loop, together = (
        trained(simulations.ragged(executor=e, dtype="float64", model_dropout=dropout), range(5), Optimizer(0.01, kind))
        for e in (Loop(), Stacked())
    )
    assert_close(together, loop)
    assert loop["steps"].tolist() == [2 * math.ceil((7 + 3 * i) / 4) for i in range(5)]


def counting(theta, batch, at):
    """Counts its calls; the count before a call is its loss, and a quantity of all images but one."""
    size, count = len(batch.y), theta["count"]
    return {"count": count + 1}, (count, {"twice": (2 * count * (size - 1), torch.tensor(size - 1))})


@both_executors
def test_loss_and_means_are_those_of_the_last_epoch(executor):
    """By hand: client 1 has ten images, so that its last batches of four, four and two images are those from 3 on."""
    simulation = simulations.ragged(executor=executor)
    start = {"count": torch.zeros(5)}
    actual = simulation.executor.iterate(task(simulation, range(5), theta=start, clients=Tree()), counting)
    assert actual.theta["count"].tolist() == actual.steps.tolist() == [4, 6, 8, 8, 10]
    assert actual.loss[1].item() == pytest.approx((3 * 4 + 4 * 4 + 5 * 2) / 10)
    assert actual.mean.twice[1].item() == pytest.approx(2 * (3 * 3 + 4 * 3 + 5 * 1) / 7)


def itself(theta, batch, at):
    """A loss that names a parameter as it is."""
    return 2 * theta["scale"], {"scale": (theta["scale"], torch.tensor(1))}


@both_executors
def test_a_named_parameter_is_noted_as_it_was_before_the_step(executor):
    fed = everyone(simulations.ragged(executor=executor, batch_size=512), 0)
    actual = fed.train({"scale": torch.ones(5)}, itself)
    assert actual.theta["scale"].tolist() == pytest.approx([1 - 2 * 0.05] * 5)
    assert actual.mean.scale.tolist() == [1.0] * 5


@both_executors
def test_a_loss_that_is_a_constant_moves_nothing(executor):
    fed = everyone(simulations.ragged(executor=executor, clip=1.0), 0)
    actual = fed.train({"scale": torch.ones(5)}, lambda theta, batch, at: batch.x.new_tensor(3.0))
    assert actual.theta["scale"].tolist() == [1.0] * 5
    assert actual.loss.tolist() == [3.0] * 5


def test_part_trains_nothing_else(fed):
    start = fed.replicate(fed.initial())
    after = fed.train(start, simulations.method("fedavg").loss, part="head").theta
    assert {key for key in start if not torch.equal(after[key], start[key])} == {"head.weight", "head.bias"}


@pytest.mark.parametrize(
    "given", [{"part": "head"}, {"steps": 5}, {"share": 0.6}, {"steps": 3, "share": 0.4, "epochs": 9}], ids=str
)
def test_parts_steps_and_shares_are_trained_alike(given):
    feds = [everyone(simulations.ragged(executor=e, dtype="float64"), 0) for e in (Loop(), Stacked(), Stacked(2))]
    loop, *others = (
        fed.train(fed.replicate(fed.initial()), simulations.method("fedavg").loss, **given) for fed in feds
    )
    for together in others:
        assert_close(together.theta | {"loss": together.loss}, loop.theta | {"loss": loop.loss})


# Mistakes of a method


def test_a_step_must_keep_the_form_of_its_tree(fed):
    with pytest.raises(ValueError, match="names, shapes and types"):
        fed.iterate({"count": torch.zeros(5)}, lambda theta, batch, at: ({"other": theta["count"]}, theta["count"]))


def test_a_part_must_be_one(fed):
    with pytest.raises(ValueError, match=r"starts with 'body', only: extractor\.1\.weight"):
        fed.train(fed.replicate(fed.initial()), noisy, part="body")


def test_a_measurement_is_not_random(fed):
    with pytest.raises(ValueError, match=r"at\.uniform"):
        fed.measure({"count": torch.zeros(5)}, lambda theta, batch, at: {"noise": at.uniform("noise", batch.x)})


def branching(theta, batch, at):
    """A loss that looks at a number, which a stack does not have."""
    return theta["scale"] * (1 if batch.x.sum() > 0 else 2)


def test_a_loss_that_branches_is_for_the_loop_alone():
    loop, together = (everyone(simulations.ragged(executor=e), 0) for e in (Loop(), Stacked()))
    assert loop.train({"scale": torch.ones(5)}, branching).loss.isfinite().all()
    with pytest.raises(UserError, match="choose the executor 'loop'"):
        together.train({"scale": torch.ones(5)}, branching)


def test_another_mistake_keeps_its_own_words(fed):
    with pytest.raises(RuntimeError, match="must match the size"):
        fed.train({"scale": torch.ones(5)}, lambda theta, batch, at: (theta["scale"] + batch.x + torch.ones(99)).sum())


# Settings of the study


SETTINGS = {
    "adam": {"optimizer": "adam", "lr": 0.003},
    "momentum and decay": {"momentum": 0.9, "weight_decay": 1e-2, "lr": 0.01},
    "clip": {"clip": 0.5},
    "adam, decay and clip": {"optimizer": "adam", "lr": 0.003, "weight_decay": 1e-2, "clip": 0.5},
    "dropout": {"dropout": 0.5},
    "augmentation": {"augmentation": "crop-flip"},
    "adversarial training": {"adversarial": {"steps": 2}},
}


@cache
def plain(name):
    """The state without any of the settings."""
    return run(name, Loop(), dtype="float64").state


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=list(SETTINGS))
@pytest.mark.parametrize("name", ["fedavg", "fedcosr"])
def test_settings_matter_and_mean_the_same_to_both(name, settings):
    loop, together = (run(name, executor, dtype="float64", **settings).state for executor in (Loop(), Stacked()))
    assert_close_states(together, loop)
    with pytest.raises(AssertionError):
        assert_close_states(loop, plain(name), 1e-3)


def precise(simulation):
    """The same simulation, computed in float64."""
    data = dataclasses.replace(
        simulation.data, centre=simulation.data.centre.double(), spread=simulation.data.spread.double()
    )
    return dataclasses.replace(
        simulation, data=data, training=dataclasses.replace(simulation.training, dtype="float64")
    )


@pytest.mark.parametrize(("name", "chunks"), [("fedavg", [None]), ("fedcosr", [None, 2]), ("ditto", [2])])
@pytest.mark.parametrize("edge", [*simulations.HARDEST, *(pytest.param(e, marks=pytest.mark.full) for e in OTHERS)])
def test_edges(name, chunks, edge):
    simulation, executors = precise(simulations.edge(edge)), [Loop(), *map(Stacked, chunks)]
    loop, *others = (run_in(dataclasses.replace(simulation, executor=e), name) for e in executors)
    for together in others:
        assert_close_states(together.state, loop.state)
        assert [entry[:3] for entry in together.record.rows] == [entry[:3] for entry in loop.record.rows]
        for (*_, ours), (*_, theirs) in zip(together.record.rows, loop.record.rows, strict=True):
            assert ours == pytest.approx(theirs, rel=1e-6)


def convolutional(**settings):
    """Unequal clients whose digits are twice as large, and a CNN."""
    simulation = simulations.ragged(**settings)
    pixels = simulation.data.images.repeat_interleave(2, dim=2).repeat_interleave(2, dim=3)
    model = CNN(channels=3, features=8).network((16, 16, 1), 10)
    return dataclasses.replace(simulation, data=dataclasses.replace(simulation.data, images=pixels), model=model)


@anyone_or_half
def test_convolutions(participation):
    loop, *others = (
        run_in(convolutional(executor=e, dtype="float64", participation=participation), "fedcosr").state
        for e in (Loop(), Stacked(), Stacked(2))
    )
    for together in others:
        assert_close_states(together, loop)


@pytest.mark.parametrize("number", [1, 2])
def test_convolutions_give_the_same_bits_again_with_as_many_threads(number, threads):
    """With other threads they need not: what a weight's gradient adds up is shared out among them."""
    threads(number)
    first, again = (run_in(convolutional(batch_size=16), "fedcosr").state for _ in range(2))
    assert_equal_states(again, first)


# Memory


def with_room_for(clients, monkeypatch):
    """A device on which more clients than these run out of memory, at the very end of their work; sizes of the rest."""
    sizes = []

    def limited(work):
        def attempt(*given):
            result = work(*given)
            positions = next(value for value in given if isinstance(value, list))
            if len(positions) > clients:
                raise torch.OutOfMemoryError
            sizes.append(len(positions))
            return result

        return attempt

    for owner, name in ((stacked, "_train"), (Stacked, "_summed")):
        monkeypatch.setattr(owner, name, limited(getattr(owner, name)))
    return sizes


@pytest.mark.parametrize(("room", "sizes"), [(2, [2, 2, 1]), (1, [1] * 5)])
def test_a_chunk_that_does_not_fit_is_halved(monkeypatch, room, sizes):
    simulation = simulations.ragged(executor=Stacked(), dtype="float64")
    expected = trained(simulation, range(5), MOMENTUM)
    done = with_room_for(room, monkeypatch)
    actual = trained(simulation, range(5), MOMENTUM)
    assert done == sizes * 2  # training, then measuring
    assert_close(actual, expected)


def test_a_federation_continues_with_fewer_clients_at_a_time(monkeypatch):
    expected = run("fedcosr", Loop(), dtype="float64", local_epochs=2)
    sizes = with_room_for(2, monkeypatch)
    actual = run("fedcosr", Stacked(), dtype="float64", local_epochs=2)
    assert_close_states(actual.state, expected.state)
    assert max(sizes) == 2


def test_a_client_that_never_fits_is_the_users_concern(monkeypatch):
    with_room_for(0, monkeypatch)
    with pytest.raises(UserError, match="not even one client fits"):
        run("fedavg", Stacked())


# Divergence


@pytest.mark.parametrize(
    ("settings", "rounds"), [({"lr": 1e30}, 0), ({"weight_decay": 1e5}, 0), ({"weight_decay": 1e3}, 1)]
)
@anyone_or_half
def test_a_rate_too_large_is_the_same_sentence_to_both(settings, rounds, participation):
    worlds_of_both = (
        simulations.ragged(executor=e, participation=participation, **settings) for e in (Loop(), Stacked())
    )
    loop, together = (simulations.run("fedavg", simulation) for simulation in worlds_of_both)
    assert (loop.status, loop.reason) == (together.status, together.reason)
    assert loop.status == "diverged"
    assert re.fullmatch(rf"the training loss of client \d is not finite in round {rounds + 1}", loop.reason)
    assert_reached(loop, rounds)
    assert_reached(together, rounds)


def assert_reached(outcome, rounds):
    """Everything before the round that diverged is there, and nothing of that round."""
    assert outcome.progress.rounds == rounds
    assert {entry[0] for entry in outcome.progress.record.rows} == set(range(rounds + 1))
    assert all(math.isfinite(value) for *_, values in outcome.progress.record.rows for value in values)


class Burdened(FedAvg):
    """From round 3 on, client 3 carries a burden that makes its loss, or only the step down from it, overflow."""

    burden: float = math.inf

    def loss(self, theta, batch, at):
        return super().loss(theta, batch, at) + at.client.burden * theta["head.bias"].sum()

    def round(self, fed, s):
        burden = torch.where((fed.ids == 3) & (fed.round >= 2), self.burden, 0.0)
        local = fed.train(fed.broadcast(s.server.theta), self.loss, clients={"burden": burden})
        return s.update(server={"theta": fed.average(fed.upload(local.theta))}, trained=local.theta)


@pytest.mark.parametrize(("burden", "what"), [(math.inf, "the training loss"), (1e38, "the model")])
@both_executors
def test_the_client_and_the_round_that_diverge_are_named(executor, burden, what):
    simulation = simulations.ragged(executor=executor, rounds=5, batch_size=512, lr=10.0)
    outcome = federate(Burdened(burden=burden), simulation)
    assert (outcome.status, outcome.reason) == ("diverged", f"{what} of client 3 is not finite in round 3")
    assert_reached(outcome, 2)


class LateFineTuning(FedAvg):
    """Fine-tunes for every evaluation, from the second round on so fast that it overflows."""

    def received(self, fed, s):
        rate = 1e30 if fed.round >= 2 else 0.1
        return fed.train(fed.replicate(s.server.theta), self.loss, optimizer=fed.optimizer.but(lr=rate)).theta


@both_executors
def test_a_training_for_the_evaluation_that_diverges_is_called_so(executor):
    outcome = federate(LateFineTuning(), simulations.ragged(executor=executor))
    expected = r"the training loss of client \d, in the evaluation, is not finite in round 2"
    assert re.fullmatch(expected, outcome.reason)
    assert outcome.status == "diverged"
    assert_reached(outcome, 1)


# The choice of an executor


def sizes_of_calls(images, size):
    """Clients served by each call of the stacked executor in an epoch in which all of them train together."""
    orders = sorted(images, key=lambda index: -(len(index) // size))
    return [len(group.keys) for group in of_one_epoch(orders, size, np.zeros(len(orders), dtype=np.int64))]


def uneven(seed):
    """(images of some clients, batch size); some have none, some a batch's multiple."""
    draw = random.Random(seed)
    lengths = [draw.choice([0, 1, 4, 8, draw.randrange(30)]) for _ in range(draw.randrange(1, 9))]
    return [np.arange(100 * i, 100 * i + length) for i, length in enumerate(lengths)], draw.choice([1, 3, 4, 50])


@pytest.mark.parametrize("seed", range(20))
def test_every_client_gets_its_batches_in_order(seed):
    images, size = uneven(seed)
    orders = sorted(images, key=lambda index: -(len(index) // size))
    got = {row: [] for row in range(len(orders))}
    for group in of_one_epoch(orders, size, 1000 * np.arange(len(orders))):
        for row_, index, key in zip(group.rows.tolist(), group.index[0].tolist(), group.keys.tolist(), strict=True):
            assert key == 1000 * row_ + len(got[row_])
            got[row_].append(index)
    for row_, order in enumerate(orders):
        assert got[row_] == [order[start : start + size].tolist() for start in range(0, len(order), size)]


@pytest.mark.parametrize("seed", range(20))
def test_batches_per_call_is_the_mean_over_the_calls(seed):
    images, size = uneven(seed)
    calls = sizes_of_calls(images, size)
    assert batches_per_call(images, size) == pytest.approx(sum(calls) / len(calls) if calls else 0)


def test_batches_per_call_by_hand():
    images = [torch.arange(length) for length in (8, 8, 9, 5)]
    assert batches_per_call(images, 4) == 9 / 3  # (4 + 3) full ones in two calls, then two clients' last image


@pytest.mark.parametrize(
    ("device", "flops", "together", "expected"),
    [
        ("cpu", FLOPS_OF_OVERHEAD, CLIENTS_WORTH_A_CALL, Stacked),
        ("cpu", FLOPS_OF_OVERHEAD + 1, CLIENTS_WORTH_A_CALL, Loop),
        ("cpu", FLOPS_OF_OVERHEAD, CLIENTS_WORTH_A_CALL - 0.01, Loop),
        ("cuda", FLOPS_OF_OVERHEAD + 1, 1, Lowered),
    ],
)
def test_the_executor_that_is_chosen(device, flops, together, expected):
    assert type(executor_for(Compute(), torch.device(device), flops, together)) is expected


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_executor_that_was_asked_for(device):
    for flops, together in ((1, 100), (1e12, 1)):
        case = (torch.device(device), flops, together)
        assert isinstance(executor_for(Compute(executor="loop"), *case), Loop)
        assert executor_for(Compute(executor="stacked"), *case).chunk is None
        assert executor_for(Compute(executor="stacked", client_chunk="3"), *case).chunk == 3


def test_captured_steps_need_a_gpu():
    executor = executor_for(Compute(executor="captured", client_chunk="3"), torch.device("cuda"), 1, 1)
    assert isinstance(executor, Captured) and executor.chunk == 3
    with pytest.raises(UserError, match="'captured' needs a CUDA GPU"):
        executor_for(Compute(executor="captured"), torch.device("cpu"), 1, 1)


def test_weights_of_an_average_have_the_sum_one(fed):
    stack = fed.replicate(fed.initial())
    images = fed.counts.sum(dim=1)
    assert_close(fed.average(stack, images / images.sum()), fed.average(stack))
    with pytest.raises(ValueError, match=rf"the weights sum to {float(images.sum()):.4g}, so that this is no average"):
        fed.average(stack, images)
