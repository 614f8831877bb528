"""What a method's state is from round to round, what is recorded, and what travels."""

from dataclasses import replace

import torch

from fedgrid.engine.federation import participation
from fedgrid.engine.federation.participation import everyone
from fedgrid.suite import simulations


def after_each_round(method, simulation, rounds=None):
    """The state before the first round and after each, with the models as they left local training."""
    with torch.no_grad():
        states = [method.setup(everyone(simulation, 0))]
    for number in range(simulation.training.rounds if rounds is None else rounds):
        states.append(next_state(method, simulation, number, states[-1]))
    return states


def next_state(method, simulation, number, state):
    """The state after the round of that number, which begins with `state`."""
    with torch.no_grad():
        return simulations.one_round(method, simulation, number, state)[1]


def after_rounds(name, simulation, rounds, **settings):
    """A method's state after so many rounds."""
    return after_each_round(simulations.method(name, **settings), simulation, rounds)[-1]


def brief(name):
    """A method that takes few steps where it counts them itself."""
    return simulations.method(name, **simulations.brief(name))


def ending_after(rounds, error=simulations.Killed):
    """A listener to progress that ends the work after so many rounds."""

    def tell(progress, remark):
        if progress.rounds == rounds:
            raise error

    return tell


def recorded(progress):
    """{(round, metric): {client: value}}; some clients may have a row of their own."""
    values = {}
    for done, metric, clients, numbers in progress.record.rows:
        values.setdefault((done, metric), {}).update(zip(clients, numbers, strict=True))
    return values


def traffic(name, simulation, **settings):
    """Bytes of all participants in each round: {"up": [[…], …], "down": …}."""
    rows = simulations.run(name, simulation, **settings).progress.record.rows
    return {way: [list(values) for _, metric, _, values in rows if metric == f"bytes_{way}"] for way in ("up", "down")}


def numbers(tree):
    """How many numbers a tree of tensors has."""
    return sum(t.numel() for t in tree.values())


def two_groups(clients=range(6), rounds=4):
    """Three clients with digits and three for whom y is 9 − y; those of `clients` alone have images."""
    starts = [60 * i + (800 if i >= 3 else 0) for i in range(6)]
    train = [
        simulations.draw([*range(10)] * (1 + i % 3), start=start) if i in clients else []
        for i, start in enumerate(starts)
    ]
    simulation = simulations.simulation(train, lr=0.2, local_epochs=3, rounds=rounds, dtype="float64")
    labels = simulation.data.labels.clone()
    labels[800:] = 9 - labels[800:]
    return replace(simulation, data=replace(simulation.data, labels=labels))


def keep_two_models_together(monkeypatch, simulation):
    """Has models of clients made and written two at a time."""
    model = sum(t.numel() * t.element_size() for t in simulation.initial.values())
    monkeypatch.setitem(participation.MODELS_TOGETHER, "cpu", 2 * model)
