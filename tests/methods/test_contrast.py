"""The contrasts of FedPCL, FedProc, FPL, FedCCL and FedSSC: examples of a few numbers, worked out in float64 without
fedgrid's code, and limits that hold for any numbers."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from nearness import near_printed as near
from plane import at
from torch import nn
from trajectories import after_each_round, traffic

from fedgrid.engine.federation.participation import everyone
from fedgrid.engine.local.context import Batch
from fedgrid.engine.local.loop import Loop
from fedgrid.engine.local.stacked import Stacked
from fedgrid.engine.rounds import federate
from fedgrid.methods.common import banks
from fedgrid.methods.common.banks import against, bank_contrast, centres, clustered, listed, padded
from fedgrid.methods.common.finch import partitions
from fedgrid.methods.common.model_contrast import model_contrast
from fedgrid.methods.common.prototypes import aggregate, info_nce
from fedgrid.methods.fedccl import FedCCL
from fedgrid.suite import simulations
from fedgrid.suite.simulations import final
from fedgrid.tree import Tree, leaves

TWO = torch.tensor([True, True])
UNITS = torch.tensor([[0.6, 0.8], [1.0, 0.0]]).double()
LABELS = torch.tensor([0, 1])
THETA = {"head.weight": torch.zeros(2, 2).double(), "head.bias": torch.zeros(2).double()}
"A head that knows nothing."


class Given:
    """A network whose representations are a part of its parameters."""

    def evaluating(self):
        return self

    def features(self, theta, x):
        return theta["z"].expand(len(x), -1)

    def head(self, theta, z):
        return torch.zeros(len(z), 3, dtype=torch.float64)


def directions(*degrees):
    angles = torch.tensor(degrees).double().deg2rad()
    return torch.stack([angles.cos(), angles.sin()], dim=1)


def means_by_class(fed, theta, unit=False):
    """Every client's class means under its model of a stack; of what is a unit vector each, where asked."""
    actual = [(nn.functional.normalize(z, dim=1) if unit else z, y) for z, y in fed.representations(theta)]
    return [{c: z[y == c].mean(dim=0) for c in y.unique().tolist()} for z, y in actual]


# FedPCL

SETS = torch.tensor([[[1.0, 0.0], [0.0, 1.0]], [[0.8, 0.6], [0.6, 0.8]]]).double()
OF_ALL = Tree(prototypes=SETS.mean(dim=0), known=TWO, sets=SETS, has=TWO.expand(2, 2))
NOBODY = {"sets": torch.zeros_like(SETS), "has": ~TWO.expand(2, 2)}


def test_fedpcl_contrasts_with_the_mean_and_with_every_client():
    near(OF_ALL.prototypes, [[0.9, 0.3], [0.3, 0.9]])
    method = simulations.method("fedpcl", temperature=0.5)
    for z, y, value in zip(UNITS, LABELS, (0.820330, 1.463282), strict=True):
        near(method.contrasts(z[None], y[None], Tree(OF_ALL | NOBODY)), value)
    near(method.contrasts(UNITS, LABELS, Tree(OF_ALL | NOBODY)), 1.141806)
    near(method.contrasts(UNITS, LABELS, OF_ALL), 2.313533)
    for client, value in enumerate((1.519972, 0.823481)):
        one = Tree(OF_ALL | {"sets": SETS[client : client + 1], "has": TWO[None]})
        near(method.contrasts(UNITS, LABELS, one), 1.141806 + value)


def test_fedpcl_without_the_positive():
    method = simulations.method("fedpcl", temperature=0.5, exclude_positive=True)
    for z, y, value in zip(UNITS, LABELS, (0.24, 1.2), strict=True):
        near(method.contrasts(z[None], y[None], Tree(OF_ALL | NOBODY)), value)
    near(method.contrasts(UNITS, LABELS, Tree(OF_ALL | NOBODY)), 0.72)
    near(method.contrasts(UNITS, LABELS, OF_ALL), 1.44)


@pytest.mark.parametrize("exclude", [False, True])
def test_fedpcl_limits(exclude):
    def value(given, tau=0.5):
        return simulations.method("fedpcl", temperature=tau, exclude_positive=exclude).contrasts(UNITS, LABELS, given)

    one = Tree(OF_ALL | {"sets": OF_ALL.prototypes[None], "has": TWO[None]})
    near(value(one), 2 * value(Tree(OF_ALL | NOBODY)), 1e-12)  # N = 1
    near(value(Tree(OF_ALL | {"sets": SETS.flip(0)})), value(OF_ALL), 1e-12)  # two clients swapped
    equal = Tree(OF_ALL | NOBODY | {"prototypes": torch.ones_like(SETS[0])})
    near(value(equal), math.log(1 if exclude else 2), 1e-12)
    near(value(Tree(OF_ALL | NOBODY), tau=1e9), math.log(1 if exclude else 2), 1e-6)
    one_class = Tree(OF_ALL | {"known": torch.tensor([True, False])})
    near(value(one_class), 0.0, 0)  # nothing to compare with, and the other sample does not count
    near(value(Tree(OF_ALL | NOBODY | {"known": ~TWO})), 0.0, 0)


def test_fedpcl_fills_what_a_client_lacks_with_the_mean():
    method = simulations.method("fedpcl", temperature=0.5)
    lacking = Tree(OF_ALL | {"has": torch.tensor([[True, False], [True, True]])})
    filled = SETS.clone()
    filled[0, 1] = OF_ALL.prototypes[1]
    near(method.contrasts(UNITS, LABELS, lacking), method.contrasts(UNITS, LABELS, Tree(OF_ALL | {"sets": filled})))


def test_fedpcl_predicts_the_nearest_of_its_own_prototypes():
    own = torch.tensor([[0.9, 0.1], [0.2, 0.3]]).double()
    method, x = simulations.method("fedpcl"), torch.tensor([[3.0, 4.0]]).double()

    def predicted(has, theta=THETA):
        return method.predict(Tree(theta) | {"means": own, "has": has}, x, at()).argmax().item()

    # distances² are 0.58 and 0.41, while the larger product is that with the first one
    assert predicted(TWO) == 1 and (own @ torch.tensor([0.6, 0.8]).double()).argmax().item() == 0
    assert predicted(torch.tensor([True, False])) == 0
    by_head = THETA | {"head.bias": torch.tensor([1.0, 0.0]).double()}
    assert predicted(~TWO, by_head) == 0


def test_fedpcl_serves_each_client_its_own_prototypes():
    """Which differ from the global ones in what they predict."""
    simulation = simulations.ragged(dtype="float64", lr=0.3)
    method, fed = simulations.method("fedpcl", temperature=0.5), everyone(simulation, 3)
    outcome = federate(method, simulation).progress
    state = outcome.state
    own = means_by_class(fed, state.clients.theta, unit=True)
    served = method.used(fed, state)
    assert not any(torch.allclose(means, state.server.prototypes) for means in served["means"])
    assert torch.equal(served["has"], fed.counts > 0)
    correct = []
    for i, index in enumerate(simulation.data.test):
        for c, mean in own[i].items():
            near(served["means"][i, c], mean, 1e-12)
        batch, classes = simulation.data.batch(index), sorted(own[i])
        z = simulation.model.features({name: t[i] for name, t in state.clients.theta.items()}, batch.x)
        far = torch.cdist(nn.functional.normalize(z, dim=1), torch.stack([own[i][c] for c in classes]))
        correct.append((torch.tensor(classes)[far.argmin(dim=1)] == batch.y).double().mean().item())
    actual = {metric: values for number, metric, _, values in outcome.record.rows if number == 3}
    near(actual["accuracy_received"], correct, 1e-6)


@pytest.mark.parametrize("with_ce", [False, True])
def test_fedpcl_that_averages_takes_own_prototypes_under_the_average(with_ce):
    simulation = simulations.ragged()
    method, fed = simulations.method("fedpcl", average=True, with_ce=with_ce), everyone(simulation, 3)
    state = after_each_round(method, simulation)[-1]
    served = method.used(fed, state)
    for name, t in state.server.theta.items():
        assert torch.equal(served[name], t.expand_as(served[name]))
    for i, own in enumerate(means_by_class(fed, fed.replicate(state.server.theta), unit=True)):
        assert served["has"][i].nonzero().squeeze(1).tolist() == sorted(own)
        for c, mean in own.items():
            near(served["means"][i, c], mean, 1e-6)
            assert (state.server.sets[i, c] - mean).abs().max() > 1e-4  # under its own model they were others
    if with_ce:
        assert method.global_model(state) is state.server.theta
    else:
        assert method.global_model(state) is None
    assert "means" not in simulations.method("fedpcl", average=True, readout="head").used(fed, state)


# FedProc

CENTRES = torch.tensor([[2.0, 2.0], [2.0, -1.0]]).double()


def test_fedproc_contrast():
    for z, y, value in zip(UNITS, LABELS, (0.367684, 0.603867), strict=True):
        near(info_nce(z[None], y[None], CENTRES, TWO, 1.0)[0], value)
    for share in (1.0, 0.25, 0.0):
        value = simulations.method("fedproc", temperature=1.0).loss(
            THETA, Batch(UNITS, LABELS), at(server={"prototypes": CENTRES, "known": TWO, "share": share})
        )
        near(value, share * math.log(2) + (1 - share) * 0.485775)


@pytest.mark.parametrize(("t", "total"), [(0, 0.9), (25, 0.589331), (50, 0.692887), (100, 0.9), (150, 0.9)])
def test_fedproc_moves_from_the_contrast_to_cross_entropy(t, total):
    for until, rounds, faster in ((100, 7, 1), (None, 100, 1), (50, 100, 2), (None, 50, 2)):
        fed = SimpleNamespace(round=t / faster, training=SimpleNamespace(rounds=rounds))
        share = simulations.method("fedproc", until=until).share(fed)
        near(share * 0.9 + (1 - share) * 0.485775, total)


def test_limits_of_a_contrast_with_one_vector_a_class():
    random, classes = torch.Generator().manual_seed(0), 5
    z = torch.randn(40, 3, generator=random).double()
    y, known = torch.randint(classes, (40,), generator=random), torch.ones(classes, dtype=torch.bool)
    prototypes = torch.randn(classes, 3, generator=random).double()
    near(info_nce(z, y, torch.ones(classes, 3).double(), known, 1.0)[0] / 40, math.log(classes), 1e-12)
    for tau in (0.2, 1.0):
        values = torch.stack([info_nce(a[None], b[None], prototypes, known, tau)[0] for a, b in zip(z, y, strict=True)])
        assert (values >= math.log1p((classes - 1) * math.exp(-2 / tau)) - 1e-12).all()
        assert (values <= math.log1p((classes - 1) * math.exp(2 / tau)) + 1e-12).all()
        alone = bank_contrast(z, y, prototypes.unsqueeze(1), known.unsqueeze(1), tau)
        near(alone, values.mean(), 1e-12)  # one vector a class


# FPL

CLUSTERS = torch.tensor([[[1.0, 0.0], [0.8, 0.6]], [[0.0, 1.0], [-0.6, 0.8]]]).double()
FPL = (
    ([1.0, 1.0], 0.02, 7.213534e-07, 0.25),
    ([1.0, 1.0], 0.07, 0.017140, 0.25),
    ([1.0, 1.0], 0.5, 0.391424, 0.25),
    ([2.0, 1.0], 0.07, 0.000366, 0.85),
    ([2.0, 1.0], 0.5, 0.214637, 0.85),
)


@pytest.mark.parametrize(("z", "tau", "value", "pull"), FPL)
def test_fpl_contrasts_with_clusters_and_pulls_to_their_mean(z, tau, value, pull):
    held, z = TWO.expand(2, 2), torch.tensor([z]).double()
    near(centres(CLUSTERS, held)[0][0], [0.9, 0.3])
    near(bank_contrast(z, LABELS[:1], CLUSTERS, held, tau), value, 1e-12 if value < 1e-6 else 1e-6)
    given = at(server={"vectors": CLUSTERS, "held": held})
    for weights in ((1.0, 1.0), (0.0, 1.0), (1.0, 0.0), (0.5, 2.0)):
        method = simulations.method("fpl", temperature=tau, contrast=weights[0], pull=weights[1])
        expected = math.log(2) + weights[0] * value + weights[1] * pull
        near(method.loss(THETA, Batch(z, LABELS[:1]), given), expected, 2e-6)


def test_fpl_leaves_samples_of_an_unknown_class_alone():
    z = torch.tensor([[1.0, 1.0], [7.0, 3.0]]).double()
    given = at(server={"vectors": CLUSTERS, "held": torch.tensor([[True, True], [False, False]])})
    value = simulations.method("fpl", temperature=0.5).loss(THETA, Batch(z, LABELS), given)
    near(value, math.log(2) + 0.25)  # no negative either, and the pull is that of the first sample alone


def test_fpl_clusters_many_clients():
    pairs = [simulations.draw([0, 1], start=25 * i) for i in range(12)]
    state = final("fpl", simulations.simulation(pairs, rounds=1))
    numbers = state.server.held.sum(dim=1)
    assert (numbers[:2] >= 1).all() and (numbers[:2] <= 6).all() and (numbers[2:] == 0).all()


def test_fpl_serves_the_means_of_finchs_clusters():
    pairs = [simulations.draw([0, 1, 1], start=25 * i) for i in range(12)]
    simulation = simulations.simulation(pairs, rounds=2, dtype="float64")
    state = after_each_round(simulations.method("fpl"), simulation)[-1]
    own = means_by_class(everyone(simulation, 2), state.trained)
    for c in (0, 1):
        points = torch.stack([means[c] for means in own]).numpy()
        labels = partitions(points)[-1]
        expected = np.stack([points[labels == q].mean(axis=0) for q in range(labels.max() + 1)])
        assert len(expected) >= 2
        near(state.server.vectors[c][state.server.held[c]], expected, 1e-12)


def test_fpl_with_a_class_that_one_client_holds():
    clients = [simulations.draw([0, 1, 0, 1], start=30 * i) for i in range(5)] + [simulations.draw([0, 7, 7])]
    simulation = simulations.simulation(clients, rounds=3)
    states = after_each_round(simulations.method("fpl"), simulation)
    for state in states[1:]:
        assert state.server.held.sum(dim=1)[[2, 7]].tolist() == [0, 1]
        mean = means_by_class(everyone(simulation, 3), state.trained)[5][7]
        near(state.server.vectors[7, state.server.held[7]], mean[None], 1e-5)
        assert all(t.isfinite().all() for t in leaves(state.server))


def test_fpl_without_its_losses_sends_what_fedavg_does():
    simulation = simulations.ragged(participation=0.6)
    assert (
        traffic("fpl", simulation, contrast=0.0, pull=0.0)
        == traffic("fedavg", simulation)
        != traffic("fpl", simulation)
    )


def test_fpl_keeps_the_clusters_of_an_absent_class():
    old, fresh = (
        [torch.ones(2, 3), torch.zeros(0, 3), 2 * torch.ones(1, 3)],
        [torch.zeros(0, 3)] * 2 + [torch.ones(4, 3)],
    )
    assert [len(group) for group in banks.renewed(old, fresh)] == [2, 0, 4]


# FedCCL

SIGNALS = [directions(0, 5, 12, 80, 88), directions(170, 190)]
SAMPLES = directions(60, 150)
COSINES = (
    (0.500000, 0.573576, 0.669131, 0.939693, 0.882948, -0.342020, -0.642788),
    (-0.866025, -0.819152, -0.743145, 0.342020, 0.469472, 0.939693, 0.766044),
)


def test_fedccl_local_contrast():
    near(SAMPLES @ torch.cat(SIGNALS).T, COSINES)
    bank = padded(SIGNALS)
    for z, y, value in zip(SAMPLES, LABELS, (0.034769, 0.378131), strict=True):
        near(bank_contrast(z[None], y[None], *bank, 0.5), value)
    near(bank_contrast(SAMPLES, LABELS, *bank, 0.5), 0.206450)
    for z, y, value in zip(SAMPLES, LABELS, (0.0, 0.001296), strict=True):
        near(bank_contrast(z[None], y[None], *bank, 0.07), value)
    near(bank_contrast(SAMPLES, LABELS, *bank, 0.07), 0.000648)


def test_fedccl_global_contrast():
    actual = clustered(SIGNALS)
    near(actual[0], [[0.991447, 0.098356], [0.104274, 0.992099]])
    near(actual[1], [[-0.984808, 0.0]])
    means, known = centres(*padded(actual))
    near(means, [[0.547861, 0.545228], [-0.984808, 0.0]])
    averaged = centres(*padded(SIGNALS))[0]
    near(averaged[0], [0.636578, 0.455853])
    for prototypes, values, mean in (
        (means, (0.051990, 0.099793), 0.075892),
        (means * torch.tensor([[2.0], [1.0]]), (0.051990, 0.099793), 0.075892),  # Eq. 15 as it is printed: a sum
        (averaged, (0.057815, 0.074602), 0.066209),
    ):
        for z, y, value in zip(SAMPLES, LABELS, values, strict=True):
            near(info_nce(z[None], y[None], prototypes, known, 0.5)[0], value)
        near(info_nce(SAMPLES, LABELS, prototypes, known, 0.5)[0] / 2, mean)


def test_fedccl_objective_is_the_sum_of_three():
    bank = padded(SIGNALS)
    means, known = centres(*padded(clustered(SIGNALS)))
    given = at(server={"vectors": bank[0], "held": bank[1], "prototypes": means, "known": known})
    for local, global_ in ((1.0, 1.0), (0.0, 1.0), (1.0, 0.0), (0.3, 2.0), (0.0, 0.0)):
        for reduction, times in (("mean", 1), ("sum", 2)):
            weights = {"local_weight": local, "global_weight": global_}
            method = simulations.method("fedccl", temperature=0.5, reduction=reduction, **weights)
            value = method.loss(THETA, Batch(SAMPLES, LABELS), given)
            near(value, math.log(2) + times * (local * 0.206450 + global_ * 0.075892), 2e-6)


def test_fedccl_signals_of_five_points():
    points = torch.tensor(
        [[1, 0], [1.992389, 0.174311], [0.978148, 0.207912], [0.520945, 2.954423], [0.034899, 0.999391]]
    )
    near(clustered([points])[0], [[1.323512, 0.127408], [0.277922, 1.976907]])
    near(clustered([points], keep_one=True)[0], [[0.905276, 0.867207]])


def test_fedccl_of_few_images_a_class_is_the_averaged_one():
    simulation = simulations.simulation(
        [simulations.draw([i, i, i + 1, i + 1, i + 1], start=20 * i) for i in range(5)], dtype="float64"
    )
    plain, averaged = (final("fedccl", simulation, average_local=on) for on in (False, True))
    for a, b in zip(leaves(plain.server), leaves(averaged.server), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


def many(**training):
    """Two clients with up to eight images of a class."""
    return simulations.simulation(
        [simulations.draw([i, i + 1] * 8, start=10 * i) for i in range(2)], dtype="float64", **training
    )


def test_fedccl_read_literally_is_the_averaged_one():
    clustering, literal, averaged = (
        final("fedccl", many(), **given)
        for given in ({}, {"stop": "literal"}, {"average_local": True, "average_global": True})
    )
    assert clustering.server.held.shape[1] > literal.server.held.shape[1]
    for a, b in zip(leaves(literal.server), leaves(averaged.server), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("average_global", [False, True])
def test_fedccl_global_signals_are_means_of_clusters_or_of_all(average_global):
    six = [simulations.draw([0, 0, 0, 0, 0, 0, 0, 1], start=30 * i) for i in range(6)]
    server = final("fedccl", simulations.simulation(six, dtype="float64"), average_global=average_global).server
    of_all = centres(server.vectors, server.held)
    of_clusters = centres(*padded(clustered(listed(server.vectors, server.held))))
    assert not torch.allclose(of_all[0][0], of_clusters[0][0])
    near(server.prototypes, (of_all if average_global else of_clusters)[0], 1e-12)
    assert torch.equal(server.known, of_all[1])


def test_fedccl_with_early_exit():
    points = directions(0, 4, 20, 25, 100, 106, 130, 133)
    assert len(clustered([points], **simulations.method("fedccl").how)[0]) == 2
    assert len(clustered([points], **simulations.method("fedccl", early_exit=True).how)[0]) == 4


def test_fedccl_that_stops_at_once_has_finchs_first_clusters():
    points = directions(0, 4, 20, 25, 100, 106, 130, 133)
    method = simulations.method("fedccl", stop="first")
    near(clustered([points], **method.how)[0], points.unflatten(0, (4, 2)).mean(dim=1), 1e-12)
    for number in (1, 2, 3):
        near(clustered([points[::3][:number]], **method.how)[0], points[::3][:number].mean(dim=0, keepdim=True), 1e-12)
    simulation = simulations.simulation(
        [simulations.draw([i, i + 1] * 24, start=10 * i) for i in range(2)], dtype="float64", rounds=1
    )
    (_, state), fed = after_each_round(method, simulation), everyone(simulation, 1)
    bank, actual = listed(state.server.vectors, state.server.held), fed.representations(state.trained)
    for c in range(3):
        fine = np.concatenate([first_clusters(z[y == c].numpy()) for z, y in actual if (y == c).any()])
        near(bank[c], fine, 1e-9)
        near(state.server.prototypes[c], first_clusters(fine).mean(axis=0), 1e-9)
    assert state.server.held.sum() > final("fedccl", simulation).server.held.sum()


def first_clusters(points):
    """Means of Γ_0."""
    labels = partitions(points)[0]
    return np.stack([points[labels == q].mean(axis=0) for q in range(labels.max() + 1)])


def test_fedccl_of_one_client_that_averages_has_two_equal_contrasts():
    simulation = simulations.simulation([simulations.draw([0, 1, 2] * 5)], dtype="float64")
    both = {"average_local": True, "average_global": True}
    local, global_ = (
        final("fedccl", simulation, **both, local_weight=a, global_weight=2 - a).server.theta for a in (2.0, 0.0)
    )
    for name, t in local.items():
        torch.testing.assert_close(t, global_[name], rtol=1e-10, atol=1e-10)


def test_fedccl_has_at_most_half_as_many_signals_as_images():
    simulation = many(rounds=1)
    method, fed = simulations.method("fedccl"), everyone(simulation, 1)
    _, held = method.signals(fed, fed.replicate(fed.initial()))
    numbers = held.sum(dim=2).double()
    assert (numbers <= (fed.counts / 2).floor().clamp(min=1)).all() and ((numbers > 0) == (fed.counts > 0)).all()
    assert numbers.max() > 1


def test_limits_of_a_contrast_with_a_bank():
    bank = padded(SIGNALS)
    near(bank_contrast(SAMPLES[:1], LABELS[:1], *bank, 1e9), math.log(7 / 5), 1e-6)
    near(bank_contrast(SAMPLES[1:], LABELS[1:], *bank, 1e9), math.log(7 / 2), 1e-6)
    one = padded([SIGNALS[0], SIGNALS[1][:0]])
    near(bank_contrast(SAMPLES[:1], LABELS[:1], *one, 0.5), 0.0, 1e-12)  # no negative
    near(bank_contrast(SAMPLES, LABELS, *one, 0.5), 0.0, 1e-12)  # and the other sample has no positive
    three = padded([*SIGNALS, SIGNALS[0][:0]])
    near(bank_contrast(directions(60, 40, 150), torch.tensor([0, 2, 1]), *three, 0.5), 0.206450)  # the second: no class
    nothing = padded([signals[:0] for signals in SIGNALS])
    z = SAMPLES.clone().requires_grad_()
    value = bank_contrast(z, LABELS, *nothing, 0.02)
    near(value.detach(), 0.0, 0)
    near(torch.autograd.grad(value, z)[0], torch.zeros(2, 2), 0)
    wider = [torch.cat([group, torch.full((3, 2), torch.pi).double()]) for group in (bank[0][0], bank[0][1])]
    held = torch.cat([bank[1], torch.zeros(2, 3, dtype=torch.bool)], dim=1)
    near(bank_contrast(SAMPLES, LABELS, torch.stack(wider), held, 0.5), 0.206450)  # padding is not looked at


def test_a_bank_is_taken_apart_and_put_together():
    groups = [torch.randn(m, 3) for m in (2, 0, 5, 1)]
    vectors, held = padded(groups)
    assert vectors.shape == (4, 5, 3) and held.sum(dim=1).tolist() == [2, 0, 5, 1]
    assert all(torch.equal(a, b) for a, b in zip(groups, listed(vectors, held), strict=True))


# FedSSC

SHARED = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]]).double()
Z = {"own": [[1.0, 2.0]], "server": [[2.0, 1.0]], "previous": [[-1.0, 1.0]]}
GIVEN = {"prototypes": SHARED, "known": torch.tensor([True] * 3)}


def compared(previous):
    own, server = ({"z": torch.tensor(Z[name]).double()} for name in ("own", "server"))
    context = at(Given(), GIVEN | {"theta": server, "weight": 0.55, "labels": 1.0}, previous={"z": previous})
    return own, context, Batch(torch.zeros(1, 2), torch.tensor([1]))


def test_fedssc_contrasts():
    method = simulations.method("fedssc", mu_moon=5.0)
    own, context, batch = compared(torch.tensor(Z["previous"]).double())
    near(model_contrast(own["z"], batch.x, context, 0.5), 0.322094)
    near(method.with_shared(own["z"], batch.y, context.server), 0.390135)
    near(method.loss(own, batch, context), math.log(3) + 5 * 0.322094 + 0.55 * 0.390135, 1e-5)
    own, context, batch = compared(torch.tensor(Z["server"]).double())
    z = own["z"].requires_grad_()
    value = model_contrast(z, batch.x, context, 0.5)
    near(value.detach(), 0.693147)
    near(torch.autograd.grad(value, z)[0], [[0.0, 0.0]], 1e-15)


@pytest.mark.parametrize(
    ("t", "weight", "total"),
    [
        (0, 1.0, 3.200607),
        (50, 0.55, 3.025046),
        (99, 0.109, 2.852997),
        (100, 0.1, 2.849485),
        (300, 0.1, 2.849485),
    ],
)
def test_fedssc_weight_falls(t, weight, total):
    ours = simulations.method("fedssc").weight(SimpleNamespace(round=t))
    near(ours, weight)
    own, context, batch = compared(torch.tensor(Z["previous"]).double())
    method = simulations.method("fedssc")
    pulls = 5 * model_contrast(own["z"], batch.x, context, 0.5), method.with_shared(own["z"], batch.y, context.server)
    near(1.2 + pulls[0] + ours * pulls[1], total)
    assert simulations.method("fedssc", end=1.0).weight(SimpleNamespace(round=t)) == 1.0


def test_fedssc_without_the_shared_contrast_sends_what_moon_does():
    simulation = simulations.ragged(participation=0.6)
    assert (
        traffic("fedssc", simulation, mu_glob=0.0)
        == traffic("moon", simulation)
        != traffic("fedssc", simulation, minimum=1)
    )


@pytest.mark.parametrize(("name", "weight"), [("moon", "mu"), ("fedssc", "mu_moon")])
def test_models_compared_with_are_in_evaluation_mode(name, weight):
    """Batch norm takes the batch's statistics in what is trained, and its own in the other two."""
    simulation = simulations.ragged(norm="batch", model_dropout=0.5, dtype="float64")
    network, batch = simulation.model, simulation.data.batch(simulation.data.train[4])
    theta, server, previous = (
        {k: t.double() + (0.1 + t.abs() if k in network.statistics else 0) for k, t in network.initial(seed).items()}
        for seed in range(3)
    )
    shared = {"prototypes": torch.zeros(10, 8).double(), "known": torch.zeros(10, dtype=torch.bool)}
    given = shared | {"theta": server, "weight": 1.0, "labels": 1.0}
    method = simulations.method(name, **{weight: 3.0, "temperature": 0.4})
    value = method.loss(theta, batch, at(network.learning(5), given, previous=previous))
    z = network.learning(5).features(theta, batch.x)
    near_, far = (nn.functional.cosine_similarity(z, network.features(t, batch.x)) / 0.4 for t in (server, previous))
    contrast = -(near_.exp() / (near_.exp() + far.exp())).log().mean()
    plain = nn.functional.cross_entropy(network.learning(5).head(theta, z), batch.y)
    near(value, plain + 3.0 * contrast, 1e-9)
    assert not torch.allclose(z, network.features(theta, batch.x))


def drawing(seed=0, clients=4):
    return SimpleNamespace(
        counts=torch.zeros(clients, 3).double(), size=clients, random=lambda name: np.random.default_rng(seed)
    )


def test_fedssc_draws_among_those_that_have_enough():
    offered = torch.tensor([[1, 1, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]]).bool()
    seen = []
    for seed in range(60):
        one, two, all_ = (simulations.method("fedssc", shared=k).drawn(drawing(seed), offered) for k in (1, 2, None))
        assert one.sum(dim=0).tolist() == [1, 1, 0] and two.sum(dim=0).tolist() == [2, 2, 0]
        assert (one <= two).all() and (two <= offered).all() and torch.equal(all_, offered)
        seen.append(one[:, 0].nonzero().item())
    assert set(seen) == {0, 1, 2} and min(map(seen.count, range(3))) >= 8
    means = torch.tensor([[[1.0, 0.0]], [[3.0, 4.0]]])
    near(aggregate(means, torch.ones(2, 1).double(), torch.zeros(1, 2), ~TWO[:1])[0], [[2.0, 2.0]])


def test_fedssc_limits():
    method = simulations.method("fedssc", temperature=1e9)
    own, context, batch = compared(torch.tensor(Z["previous"]).double())
    near(model_contrast(own["z"], batch.x, context, 1e9), math.log(2), 1e-6)
    near(method.with_shared(own["z"], batch.y, context.server), math.log(3), 1e-6)
    equal = Tree(GIVEN | {"prototypes": torch.ones_like(SHARED)})
    near(simulations.method("fedssc").with_shared(own["z"], batch.y, equal), math.log(3), 1e-12)
    two = Tree(GIVEN | {"known": torch.tensor([True, True, False])})
    near(method.with_shared(own["z"], batch.y, two), math.log(2), 1e-6)


def test_fedssc_shares_only_means_of_ten_images_or_more():
    images = [simulations.draw([0] * 10 + [1] * 9), simulations.draw([0] * 3 + [2] * 12)]
    simulation = simulations.simulation(images, rounds=1, local_epochs=0)
    state, fed = final("fedssc", simulation), everyone(simulation, 1)
    assert state.server.known.nonzero().squeeze(1).tolist() == [0, 2]
    (z0, y0), (z1, y1) = fed.representations(fed.replicate(fed.initial()))
    near(state.server.prototypes[0], z0[y0 == 0].mean(dim=0))  # the only client with ten
    near(state.server.prototypes[2], z1[y1 == 2].mean(dim=0))


# Representations of all images, and what travels


@pytest.mark.parametrize("executor", [Loop(), Stacked()])
@pytest.mark.parametrize("norm", ["none", "batch"])
def test_all_representations(executor, norm):
    simulation = simulations.ragged(
        executor=executor, dtype="float64", augmentation="crop-flip", norm=norm, model_dropout=0.5
    )
    fed = everyone(simulation, 2)
    theta = fed.replicate(fed.initial())
    theta = {name: t + torch.arange(5).double().reshape(-1, *[1] * (t.dim() - 1)) / 10 for name, t in theta.items()}
    for i, (index, (z, y)) in enumerate(zip(simulation.data.train, fed.representations(theta), strict=True)):
        images = simulation.data.batch(index)
        near(z, simulation.model.features({name: t[i] for name, t in theta.items()}, images.x), 1e-9)
        assert torch.equal(y, images.y)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("fedpcl", {}),
        ("fpl", {}),
        ("fedccl", {}),
        ("fedccl", {"local_weight": 0.0}),
        ("fedccl", {"global_weight": 0.0}),
        ("fedssc", {"minimum": 3}),
        ("fedproc", {}),
    ],
)
def test_bytes_are_those_of_the_vectors_that_there_are(monkeypatch, name, settings):
    """M vectors at the server before the last round, M_i that a client sends in it."""
    signals, actual = FedCCL.signals, []
    monkeypatch.setattr(FedCCL, "signals", lambda *a: actual.append(signals(*a)) or actual[-1])
    simulation, states = simulations.ragged(clients=4, participation=0.5), []
    tell = lambda progress, _: states.append(progress.state.server)  # noqa: E731
    rows = federate(simulations.method(name, **settings), simulation, tell=tell).progress.record.rows
    before, theta = states[-2], sum(t.numel() for t in simulation.model.initial(0).values())
    ((_, _, ids, up), (_, _, _, down)) = (row for row in rows if row[0] == 3 and row[1].startswith("bytes"))
    counts, none, k = simulation.data.counts[ids], torch.zeros(1), simulation.model.width
    m, c = before.get("held", before.get("has", none)).sum(), before.get("known", none).sum()
    given = m * settings.get("local_weight", 1.0) + c * settings.get("global_weight", 1.0)
    near(down, [4.0 * float(given * k + (0 if name == "fedpcl" else theta))] * len(ids), 0)
    sent = (counts >= settings.get("minimum", 1)).sum(dim=1)
    if name == "fedccl":
        sent = actual[-1][1].flatten(1).sum(dim=1)
        assert (sent > (counts > 0).sum(dim=1)).any()
    near(up, 4.0 * (sent * k + (0 if name == "fedpcl" else theta)), 0)


def test_a_contrast_counts_what_has_a_positive_and_something_to_compare():
    logits = torch.tensor([[0.5, 1.0, -2.0]] * 4)
    allowed = torch.tensor([[1, 1, 1], [1, 1, 0], [1, 0, 0], [0, 0, 0]]).bool()
    positive = torch.tensor([[1, 0, 0]] * 4).bool()
    weights = logits[0].exp()
    _, counted = against(logits, positive, allowed)
    assert counted.tolist() == [True, True, True, False]
    values, counted = against(logits, positive, allowed, exclude=True)
    assert counted.tolist() == [True, True, False, False]
    near(values, [math.log((weights[1] + weights[2]) / weights[0]), math.log(weights[1] / weights[0]), 0, 0], 1e-6)
