"""Methods whose losses change or compare logits: FedLC, FML and FD, their limits and what travels."""

import pytest
import torch
from nearness import all_near
from trajectories import after_each_round, numbers, traffic

from fedgrid.engine.rounds import federate
from fedgrid.methods.fedlc import FedLC
from fedgrid.suite import simulations
from fedgrid.suite.simulations import final

# FedLC


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_fedlc_offsets_have_the_type_of_parameters(dtype):
    types = set()

    class Noting(FedLC):
        def loss(self, theta, batch, at):
            types.add((at.client.offset.dtype, theta["head.bias"].dtype))
            return super().loss(theta, batch, at)

    assert federate(Noting(), simulations.ragged(2, rounds=1, dtype=dtype)).status == "ok"
    assert types == {(getattr(torch, dtype),) * 2}


def test_fedlc_returns_what_a_client_with_one_class_received():
    labels = ([4] * 5, [6] * 9, [1, 2, 3, 1])
    simulation = simulations.simulation([simulations.draw(wanted) for wanted in labels], rounds=1, momentum=0.9)
    limit, start = simulations.method("fedlc", absent=0.0), simulation.model.initial(0)
    trained = after_each_round(limit, simulation)[1].trained
    for name, t in trained.items():
        assert torch.equal(t[0], start[name]) and torch.equal(t[1], start[name])
    assert not torch.equal(trained["head.weight"][2], start["head.weight"])


@pytest.mark.parametrize("repeated", [True, False])
def test_fedlc_of_equal_counts_is_fedavg(repeated):
    """All margins of a client are equal then, whatever they are, and cancel."""
    labels = [list(range(10)), list(range(10)) * 2 + ([] if repeated else [3, 3, 3])]
    simulation = simulations.simulation([simulations.draw(wanted) for wanted in labels], dtype="float64")
    ours, theirs = (final(name, simulation).server.theta for name in ("fedlc", "fedavg"))
    if repeated:
        all_near(ours, theirs, 1e-12)
    else:
        assert (ours["head.weight"] - theirs["head.weight"]).abs().max() > 1e-6


# FML


def test_fml_sends_the_meme_alone():
    simulation = simulations.ragged(3, rounds=2)
    sent = [[4 * numbers(simulation.initial)] * 3] * 2
    assert traffic("fml", simulation) == {"up": sent, "down": sent}
    # nor does anything of the private models come to the server where memes do not imitate them
    one, other = (final("fml", simulation, beta=1.0, alpha=alpha) for alpha in (0.2, 0.9))
    all_near(one.server.theta, other.server.theta, 0)
    assert not torch.equal(one.clients.personal["head.weight"], other.clients.personal["head.weight"])


# FD

LABELS = [[0, 0, 1], [1, 1, 2, 3], [3, 3, 3, 9, 9], [9, 1]]
HEARD = [{1, 2, 3, 9}, {0, 1, 3, 9}, {0, 1, 2, 3, 9}, {0, 1, 2, 3, 9}]
"The classes of which each client is told what others say: only client 0 has class 0, only client 1 class 2."


def test_fd_bytes():
    """Ten probabilities for each class: up for those of the client, down for those that others have."""
    simulation = simulations.simulation([simulations.draw(labels, start=99 * i) for i, labels in enumerate(LABELS)])
    up, down = ([4 * 10 * len(set(classes)) for classes in of_client] for of_client in (LABELS, HEARD))
    assert traffic("fd", simulation) == {"up": [up] * 3, "down": [[0] * 4, down, down]}
