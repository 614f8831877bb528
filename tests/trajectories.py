"""What a method's state is from round to round, what is recorded, and what travels."""

import torch

from fedgrid.engine.federation.participation import everyone
from fedgrid.suite import simulations


def after_each_round(method, simulation, rounds=None):
    """The state before the first round and after each, with the models as they left local training."""
    with torch.no_grad():
        states = [method.setup(everyone(simulation, 0))]
        for number in range(simulation.training.rounds if rounds is None else rounds):
            states.append(simulations.one_round(method, simulation, number, states[-1])[1])
    return states


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
