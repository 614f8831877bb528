"""How often and on which of its images a client trains: epochs, steps, shares, and some clients alone."""

import pytest
import torch

from fedgrid.engine.federation.participation import everyone
from fedgrid.engine.local.loop import Loop
from fedgrid.engine.local.stacked import Stacked
from fedgrid.engine.local.task import LocalTask
from fedgrid.suite import simulations
from fedgrid.tree import leaves

EXECUTORS = pytest.mark.parametrize("executor", [Loop, Stacked])


def seen(simulation, **given):
    """How many images each client saw, and in how many steps: the loss counts them itself."""
    fed = everyone(simulation, 0)

    def count(theta, batch, at):
        return {"images": theta["images"] + len(batch.y)}, batch.x.sum() * 0

    trained = fed.iterate({"images": torch.zeros(fed.size)}, count, **given)
    return trained.theta["images"].tolist(), trained.steps.tolist()


SIZES = [7, 10, 13, 16, 19]


@EXECUTORS
@pytest.mark.parametrize(
    ("given", "images", "steps"),
    [
        ({}, SIZES, [2, 3, 4, 4, 5]),
        ({"epochs": 2}, [2 * n for n in SIZES], [4, 6, 8, 8, 10]),
        ({"steps": 1}, [4] * 5, [1] * 5),
        ({"steps": 3}, [7 + 4, 10, 12, 12, 12], [3] * 5),
        ({"steps": 7}, [7 + 7 + 7 + 4, 10 + 10 + 4, 13 + 12, 16 + 12, 19 + 8], [7] * 5),
        ({"steps": 0}, [0] * 5, [0] * 5),
        ({"share": 0.5}, [3, 5, 6, 8, 9], [1, 2, 2, 2, 3]),
        ({"share": 0.01}, [1] * 5, [1] * 5),
        ({"share": 0.5, "steps": 2}, [3 + 3, 5, 6, 8, 8], [2] * 5),
    ],
)
def test_images_and_steps(executor, given, images, steps):
    assert seen(simulations.ragged(executor=executor()), **given) == (images, steps)


def test_the_studys_number_of_steps_replaces_its_epochs():
    simulation = simulations.ragged(local_steps=3)
    assert seen(simulation)[1] == [3] * 5
    assert seen(simulation, epochs=1) == (SIZES, [2, 3, 4, 4, 5])
    assert seen(simulation, steps=1)[1] == [1] * 5
    fed = everyone(simulation, 0)
    counted = fed.measure({}, lambda theta, batch, at: {"images": batch.x.new_tensor(len(batch.y))}).images
    assert counted.tolist() == SIZES


def test_perfedavg_takes_two_batches_for_each_of_the_studys_steps(monkeypatch):
    asked, usual = set(), Loop.iterate

    def noted(self, task, step):
        asked.add((task.stream, task.steps))
        return usual(self, task, step)

    monkeypatch.setattr(Loop, "iterate", noted)
    simulations.run("perfedavg", simulations.ragged(local_steps=3))
    assert asked == {("main", 6), ("adapt", 1)}


@EXECUTORS
def test_a_client_without_images_takes_no_step(executor):
    simulation = simulations.simulation([[], simulations.draw([1, 2])], executor=executor())
    assert seen(simulation, steps=3) == ([0, 6], [0, 3])
    assert seen(simulation, share=0.5) == ([0, 1], [0, 1])


def test_as_many_steps_as_an_epoch_has_are_that_epoch():
    simulation = simulations.simulation([simulations.draw(range(8)), simulations.draw(range(7, 0, -1))], batch_size=4)
    fed, loss = everyone(simulation, 2), simulations.method("local").loss
    start = fed.replicate(fed.initial())
    ours, theirs = fed.train(start, loss, steps=4), fed.train(start, loss, epochs=2)
    assert all(torch.equal(a, b) for a, b in zip(leaves(ours.theta), leaves(theirs.theta), strict=True))
    assert torch.equal(ours.loss, theirs.loss)


def test_a_share_is_drawn_again_each_round_and_repeats_for_the_same_stream():
    simulation = simulations.ragged()
    task = LocalTask(simulation.data, simulation.data.train, simulation.model, 4, 0, 3, [4], {}, {}, {}, share=0.5)
    first, again, next_ = task.order(4, 0), task.order(4, 0), task.order(4, 1)
    assert first.tolist() == again.tolist() != next_.tolist()
    assert len(set(first.tolist())) == 9 and set(first.tolist()) <= set(range(len(simulation.data.train[4])))


@EXECUTORS
def test_some_clients_train_as_they_do_among_all(executor):
    fed, loss = everyone(simulations.ragged(executor=executor()), 1), simulations.method("local").loss
    chosen = torch.tensor([False, True, False, True, True])
    start = fed.replicate(fed.initial())
    some = fed.subset(chosen)
    assert some.ids.tolist() == [1, 3, 4] and some.weights.sum() == 1
    alone = some.train({name: t[chosen] for name, t in start.items()}, loss).theta
    among = fed.train(start, loss).theta
    for name, t in alone.items():
        torch.testing.assert_close(t, among[name][chosen])
    some.upload(alone)
    assert (fed.traffic.up > 0).tolist() == chosen.tolist()
