"""Methods whose losses change or compare logits: FedLC, FML and FD, on a few numbers and in whole rounds."""

from itertools import pairwise
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from trajectories import after_each_round

from fedgrid.engine.federation.federation import Federation
from fedgrid.engine.federation.participation import everyone, participants
from fedgrid.engine.local.context import Batch, LossContext
from fedgrid.engine.rounds import federate
from fedgrid.engine.state.state import State
from fedgrid.methods.fedlc import FedLC
from fedgrid.models.base import Network
from fedgrid.suite import simulations
from fedgrid.suite.simulations import final
from fedgrid.tree import Tree


class Constant(Network):
    """Its logits are the biases of its head, whatever the image."""

    def __init__(self, classes):
        super().__init__({"extractor": nn.Flatten(), "head": nn.Linear(1, classes)}, 1, classes)


def answering(*logits):
    """The parameters of a `Constant` with these logits."""
    return Tree({"head.weight": doubles(*logits).unsqueeze(1) * 0, "head.bias": doubles(*logits)})


def doubles(*numbers):
    return torch.tensor(numbers, dtype=torch.float64)


def images(*labels):
    return Batch(torch.zeros(len(labels), 1, dtype=torch.float64), torch.tensor(labels))


def at(classes, server=None, **client):
    return LossContext(Constant(classes), Tree(server or {}), Tree(client), None)


def near(ours, expected, tolerance=1e-6):
    expected = torch.as_tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(torch.as_tensor(ours).double(), expected, rtol=0, atol=tolerance)


def all_near(ours, theirs, tolerance=0.0):
    assert set(ours) == set(theirs)
    for name in ours:
        torch.testing.assert_close(ours[name], theirs[name], rtol=0, atol=tolerance)


def traffic(method, simulation):
    """Bytes of each client by direction and round."""
    rows = federate(method, simulation).progress.record.rows
    return {(what, number): list(sent) for number, what, _, sent in rows if what.startswith("bytes")}


# FedLC


def test_fedlc_offsets_and_losses():
    counts = doubles(16, 81, 0).unsqueeze(0)
    theta, losses = answering(1, 1, 5), {}
    for tau in (0.0, 1.0, 2.0):
        method = simulations.method("fedlc", tau=tau, absent=0.0)
        offset = method.offset(SimpleNamespace(counts=counts))[0]
        near(offset, doubles(-tau / 2, -tau / 3, -1e9 if tau else 0))
        losses[tau] = [method.loss(theta, images(y), at(3, offset=offset)) for y in (0, 1)]
    near(torch.stack(losses[1.0]), [0.779949, 0.613282])
    near(losses[0.0][0], 4.035976)


@pytest.mark.parametrize(("images_of_absent", "expected"), [(1, -1.0), (16, -0.5)])
def test_fedlc_counts_absent_classes(images_of_absent, expected):
    method = simulations.method("fedlc", absent=images_of_absent)
    offset = method.offset(SimpleNamespace(counts=doubles(16, 81, 0).unsqueeze(0)))[0]
    near(offset, doubles(-1 / 2, -1 / 3, expected))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_fedlc_offsets_have_the_type_of_parameters(dtype):
    types = set()

    class Noting(FedLC):
        def loss(self, theta, batch, at):
            types.add((at.client.offset.dtype, theta["head.bias"].dtype))
            return super().loss(theta, batch, at)

    assert federate(Noting(), simulations.ragged(2, rounds=1, dtype=dtype)).status == "ok"
    assert types == {(getattr(torch, dtype),) * 2}


def test_fedlc_leaves_the_rows_of_an_absent_class():
    """One client with three classes: FedAvg and FedLC move all rows of its head, the limit those of its classes."""
    simulation = simulations.simulation([simulations.draw([2, 2, 5, 5, 5, 7])])
    start = simulation.model.initial(0)["head.weight"]
    runs = {"limit": ("fedlc", {"absent": 0.0}), "fedlc": ("fedlc", {}), "fedavg": ("fedavg", {})}
    rows = {
        run: final(name, simulation, **given).server.theta["head.weight"] != start
        for run, (name, given) in runs.items()
    }
    assert rows["fedlc"].any(dim=1).all()
    assert rows["limit"].any(dim=1).nonzero().flatten().tolist() == [2, 5, 7]
    assert rows["fedavg"].any(dim=1).all()


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

PRIVATE, MEME = answering(1, 0), answering(0, 0)


@pytest.mark.parametrize("labels", [[0], [0, 0, 0]])
def test_fml_losses(labels):
    """KL is a mean over images and a sum over classes."""
    method, batch = simulations.method("fml"), images(*labels)
    for theta, other, imitation, both in ((PRIVATE, MEME, 0.120115, 0.216688), (MEME, PRIVATE, 0.110944, 0.402046)):
        near(method.mutual(theta, other, 0.0, batch, at(2)), imitation)
        near(method.mutual(theta, other, 0.5, batch, at(2)), both)
    near(method.mutual(PRIVATE, MEME, 1.0, batch, at(2)), 0.313262)


def test_fml_steps_both_models_from_where_they_were():
    """Slopes are share·(q − e_y) + (1 − share)·(q − p), with p, the other's probabilities, a constant."""
    method = simulations.method("fml")
    both, value = method.step(Tree(meme=MEME, personal=PRIVATE), images(0), at(2, server={"lr": 1.0}))
    near(both["personal"]["head.bias"], [1 + 0.018941, -0.018941])
    near(both["meme"]["head.bias"], [0.365529, -0.365529])
    near(value, 0.216688)
    uneven = simulations.method("fml", alpha=1.0, beta=0.0)
    both, value = uneven.step(Tree(meme=MEME, personal=PRIVATE), images(0), at(2, server={"lr": 0.5}))
    near(both["personal"]["head.bias"], [1 + 0.5 * 0.268941, -0.5 * 0.268941])
    near(both["meme"]["head.bias"], [0.5 * 0.231059, -0.5 * 0.231059])
    near(value, 0.313262)


def test_fml_losses_of_equal_models_are_equal():
    method = simulations.method("fml")
    losses = [method.mutual(*pair, 0.5, images(1), at(2)) for pair in ((PRIVATE, PRIVATE), (MEME, MEME))]
    near(torch.stack(losses), [0.5 * 1.313262, 0.5 * 0.693147])
    assert method.mutual(PRIVATE, Tree(PRIVATE), 0.3, images(0, 1), at(2)) == method.mutual(
        Tree(PRIVATE), PRIVATE, 0.3, images(0, 1), at(2)
    )


def test_fml_sends_the_meme_alone():
    simulation = simulations.ragged(3, rounds=2)
    size = sum(t.numel() for t in simulation.model.initial(0).values())
    sent = traffic(simulations.method("fml"), simulation)
    assert len(sent) == 4 and all(values == [4 * size] * 3 for values in sent.values())
    # nor does anything of the private models come to the server where memes do not imitate them
    one, other = (final("fml", simulation, beta=1.0, alpha=alpha) for alpha in (0.2, 0.9))
    all_near(one.server.theta, other.server.theta)
    assert not torch.equal(one.clients.personal["head.weight"], other.clients.personal["head.weight"])


def test_fml_keeps_the_private_models_of_idle_clients():
    simulation = simulations.ragged(5, participation=0.4, rounds=1)
    state, start = final("fml", simulation), simulation.model.initial(0)["head.weight"]
    moved = [not torch.equal(head, start) for head in state.clients.personal["head.weight"]]
    assert torch.tensor(moved).nonzero().flatten().tolist() == participants(simulation, 0).tolist()


# FD

OUTPUTS = torch.tensor([[[0.9, 0.1], [0.0, 0.0]], [[0.5, 0.5], [0.0, 0.0]], [[0.1, 0.9], [0.2, 0.8]]])
HAS = torch.tensor([[True, False], [True, False], [True, True]])


def consensus(outputs=OUTPUTS, ids=(0, 1, 2), **settings):
    """G and what is known of it, for some of three clients of whom only the last one has the second class."""
    fed = SimpleNamespace(ids=torch.tensor(ids), size=len(ids), total=3)
    return simulations.method("fd", **settings).consensus(fed, State(server={"outputs": outputs, "has": HAS}))


def test_fd_means_the_outputs_of_the_others():
    outputs, known = consensus()
    near(outputs[:, 0], [[0.3, 0.7], [0.5, 0.5], [0.7, 0.3]])
    near(outputs[:2, 1], [[0.2, 0.8], [0.2, 0.8]])
    assert known.tolist() == [[True, True], [True, True], [True, False]]
    with_its_own, known = consensus(exclude_own=False)
    near(with_its_own[:, 0], [[0.5, 0.5]] * 3)
    assert known.all() and outputs.dtype == with_its_own.dtype == OUTPUTS.dtype
    some, known = consensus(ids=(0, 2))
    near(some, outputs[[0, 2]], 0)
    assert known.tolist() == [[True, True], [True, False]]


def test_fd_a_client_does_not_hear_itself():
    other_outputs = OUTPUTS.clone()
    other_outputs[0, 0] = torch.tensor([0.0, 1.0])
    changed = [not torch.equal(*pair) for pair in zip(consensus()[0], consensus(other_outputs)[0], strict=True)]
    assert changed == [False, True, True]


def test_fd_loss_of_an_image_of_a_known_class_and_of_an_unknown_one():
    """Logits (1, 0): cross entropy 0.313262 with class 0, 1.313262 with class 1; 1.194059 with (0.119203, 0.880797)."""
    targets, theta = doubles([0.119203, 0.880797], [0, 0]), answering(1, 0)
    for lam in (0.0, 1.0, 2.0):
        method = simulations.method("fd", lam=lam)
        near(method.loss(theta, images(0), at(2, targets=targets)), 0.313262 + lam * 1.194059)
        near(method.loss(theta, images(1), at(2, targets=targets)), 1.313262)
        near(method.loss(theta, images(0, 1), at(2, targets=targets)), (1.626523 + lam * 1.194059) / 2)


LABELS = [[0, 0, 1], [1, 1, 2, 3], [3, 3, 3, 9, 9], [9, 1]]
HEARD = [{1, 2, 3, 9}, {0, 1, 3, 9}, {0, 1, 2, 3, 9}, {0, 1, 2, 3, 9}]
"The classes of which each client is told what others say: only client 0 has class 0, only client 1 class 2."


def labelled(**training):
    return simulations.simulation(
        [simulations.draw(labels, start=99 * i) for i, labels in enumerate(LABELS)], **training
    )


def test_fd_bytes():
    """Ten probabilities for each class: up for those of the client, down for those that others have."""
    sent = traffic(simulations.method("fd"), labelled(rounds=3))
    for number in (1, 2, 3):
        assert sent["bytes_up", number] == [4 * 10 * len(set(labels)) for labels in LABELS]
        assert sent["bytes_down", number] == [4 * 10 * len(classes) * (number > 1) for classes in HEARD]


def test_fd_a_class_of_one_client_is_unknown_to_that_client():
    simulation, method = labelled(rounds=1), simulations.method("fd")
    state = after_each_round(method, simulation)[-1]
    _, known = method.consensus(everyone(simulation, 1, state), state)
    assert [set(row.nonzero().flatten().tolist()) for row in known] == HEARD


def test_fd_shares_mean_outputs_of_the_trained_models_and_remembers_those_of_idle_clients():
    simulation = simulations.ragged(4, participation=0.5, rounds=4, dtype="float64")
    states = after_each_round(simulations.method("fd"), simulation)
    idle_rounds = 0
    for number, (before, state) in enumerate(pairwise(states)):
        active = participants(simulation, number).tolist()
        for i, index in enumerate(simulation.data.train):
            if i not in active:
                assert torch.equal(state.server.outputs[i], before.server.outputs[i])
                assert torch.equal(state.server.has[i], before.server.has[i])
                idle_rounds += int(before.server.has[i].any())
                continue
            batch = simulation.data.batch(index)
            outputs = simulation.model({name: t[i] for name, t in state.clients.theta.items()}, batch.x).softmax(dim=1)
            assert state.server.has[i].nonzero().flatten().tolist() == batch.y.unique().tolist()
            for c in batch.y.unique().tolist():
                near(state.server.outputs[i, c], outputs[batch.y == c].mean(dim=0), 1e-12)
    assert idle_rounds  # of clients that had sent before


def test_fd_trains_on_probabilities_where_something_is_known(monkeypatch):
    simulation, method = labelled(rounds=2, dtype="float64"), simulations.method("fd")
    targets, train = [], Federation.train

    def noting(fed, theta, loss, **given):
        targets.append(given["clients"]["targets"])
        return train(fed, theta, loss, **given)

    monkeypatch.setattr(Federation, "train", noting)
    states = after_each_round(method, simulation)
    outputs, known = method.consensus(everyone(simulation, 1, states[1]), states[1])
    assert not targets[0].any() and not targets[1][~known].any()
    near(targets[1][known], outputs[known], 1e-12)
    near(outputs[known].sum(dim=1), torch.ones(int(known.sum())), 1e-12)
    assert targets[1].dtype == torch.float64


def test_fd_is_local_in_the_first_round_alone():
    for rounds in (1, 2):
        simulation = simulations.ragged(rounds=rounds)
        ours, theirs = (final(name, simulation).clients.theta for name in ("fd", "local"))
        assert all(torch.equal(ours[name], t) for name, t in theirs.items()) == (rounds == 1)
