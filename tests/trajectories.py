"""What a method's state is from round to round."""

import torch

from fedgrid.engine.federation.participation import everyone
from fedgrid.suite import simulations


def after_each_round(method, simulation):
    """The state before the first round and after each."""
    with torch.no_grad():
        states = [method.setup(everyone(simulation, 0))]
        for number in range(simulation.training.rounds):
            states.append(simulations.one_round(method, simulation, number, states[-1])[1])
    return states
