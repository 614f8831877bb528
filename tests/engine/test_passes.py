"""On a GPU, clients with similar numbers of images share calls of a pass without gradient."""

import numpy as np
import pytest
import torch
from pretended import last_round

from fedgrid.engine.federation.participation import everyone
from fedgrid.engine.local import passes, stacked
from fedgrid.engine.local.stacked import Stacked
from fedgrid.methods import Batch, counts_filled
from fedgrid.suite import simulations

SIZES = (0, 1, 5, 64, 70, 300)


def federation(executor):
    """Clients of very unequal size, one of them without images."""
    where = simulations.simulation([simulations.draw(np.arange(size) % 10) for size in SIZES], executor=executor)
    return everyone(where, 0)


@counts_filled
def sums(theta, batch, at):
    z = batch.only_counted(at.model.features(theta, batch.x))
    return {"z": z.sum(dim=0), "images": batch.only_counted(torch.ones_like(batch.y)).sum()}


def values(theta, batch, at):
    return {"z": at.model.features(theta, batch.x), "y": batch.y}


@pytest.mark.parametrize("images", [4, 100, 10_000])
def test_filled_calls_give_the_sums_and_values_of_each_client(monkeypatch, images):
    expected = federation(Stacked())
    theta = expected.replicate(expected.initial())
    plain, each = expected.measure(theta, sums), expected.collect(theta, values)
    monkeypatch.setattr(stacked, "_shares_calls", lambda task: True)
    monkeypatch.setitem(stacked.MEASURED_TOGETHER, "cpu", images)
    fed = federation(Stacked())
    actual = fed.measure(theta, sums)
    assert actual.images.tolist() == list(SIZES)
    torch.testing.assert_close(actual.z, plain.z)
    for one, other in zip(fed.collect(theta, values), each, strict=True):
        torch.testing.assert_close(one.z, other.z)
        assert torch.equal(one.y, other.y)


@pytest.mark.parametrize(("levels", "calls", "waste"), [(passes.COARSE, 5, 3), (passes.FINE, 10, 1.5)])
def test_few_calls_waste_little(levels, calls, waste):
    sizes = np.array([int(x) for x in np.random.default_rng(3).pareto(0.6, 200) * 20 + 1]).clip(max=5000)
    plan = list(passes._similar(sizes, 10**9, 10**9, levels))
    assert len(plan) <= calls
    assert sum(len(members) * len(columns) for members, columns in plan) < waste * sizes.sum() + levels.few * len(sizes)
    seen = np.zeros(len(sizes), dtype=int)
    for members, columns in plan:
        seen[members] += (columns < sizes[members][:, None]).sum(axis=1)
    assert (seen == sizes).all()


def test_a_batch_without_filling_is_as_it_is():
    x = torch.ones(3, 1, 2, 2)
    assert Batch(x, torch.zeros(3)).only_counted(x) is x
    part = Batch(x, torch.zeros(3), torch.tensor([True, False, True])).only_counted(x)
    assert part.sum(dim=(1, 2, 3)).tolist() == [4, 0, 4]


def operators(name, clients, equal):
    """(operators of a round, of its evaluation) on the pretended device, with two steps of every client."""
    number = [0 if equal else i for i in range(clients)]
    train = [
        simulations.draw([i % 10, (i + 1) % 10] * 4 + [i % 10] * (number[i] * 7 % 40), start=i) for i in range(clients)
    ]
    test = [simulations.draw([i % 10] * (3 + number[i] % 11), start=50) for i in range(clients)]
    where = simulations.simulation(train, test, rounds=2, batch_size=4, local_steps=2, executor=Stacked())
    _, in_round, in_evaluation = last_round(simulations.method(name), where)
    return in_round.operators, in_evaluation.operators


@pytest.mark.parametrize("equal", [True, False])
@pytest.mark.parametrize("name", ["fedavg", "fedcosr", "fedproto", "pfedgraph"])
def test_a_round_starts_as_many_operators_however_many_clients_there_are(name, equal):
    few, *more = (operators(name, clients, equal) for clients in (4, 20, 100))
    assert more == [few, few]
