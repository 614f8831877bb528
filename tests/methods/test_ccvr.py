"""CCVR: moments, what is drawn, the round in which it happens, and what travels."""

import numpy as np
import pytest
import torch
from nearness import DOUBLE, all_near, doubles, near
from trajectories import numbers, traffic

from fedgrid.engine.federation.participation import everyone, participants
from fedgrid.methods.ccvr import covariance, pooled
from fedgrid.suite import simulations
from fedgrid.suite.simulations import final


def features(simulation, theta, index):
    """z [m, k] and labels [m] of some images under one model."""
    batch = simulation.data.batch(torch.as_tensor(index, dtype=torch.long))
    return simulation.model.evaluating().features(theta, batch.x).numpy(), batch.y.numpy()


def last_of(simulation):
    """The images of the last round's participants."""
    clients = participants(simulation, simulation.training.rounds - 1).tolist()
    return torch.cat([simulation.data.train[i] for i in clients]).tolist()


# Moments


def test_pooled_moments_of_two_clients_by_hand():
    """Features {0, 2} and {2, 4}: both variances are 2, and that of all four is 8/3."""
    within = 1 * covariance(doubles([0], [2])) + 1 * covariance(doubles([2], [4]))
    mean, sigma = pooled(doubles([2], [2]), doubles([[1]], [[3]]), within.unsqueeze(0))
    near(covariance(doubles([0], [2])), [[2]])
    near(mean, [[2]])
    near(sigma, [[[8 / 3]]])


@pytest.mark.parametrize("participation", [1.0, 0.6])
def test_moments_are_those_of_all_features_in_one_place(participation):
    """Of the participants' images, under the averaged model; some clients have one image of a class."""
    simulation = simulations.ragged(participation=participation, **DOUBLE)
    method, theta = simulations.method("ccvr"), final("fedavg", simulation).server.theta
    ids = participants(simulation, 2)
    fed = everyone(simulation, 2).subset(ids)
    assert (fed.counts == 1).any() and (fed.counts > 1).any()
    with torch.no_grad():
        mean, sigma = pooled(fed.counts, *method.moments(fed, theta))
        z, labels = features(simulation, theta, last_of(simulation))
    for c in range(10):
        of_class = z[labels == c]
        near(mean[c], of_class.mean(axis=0) if len(of_class) else np.zeros(8))
        near(sigma[c], np.cov(of_class.T) if len(of_class) > 1 else np.zeros((8, 8)))


# What is drawn


def test_drawn_features_have_the_moments_of_their_class():
    root = np.random.default_rng(3).normal(size=(2, 3, 3))
    sigma = root @ root.transpose(0, 2, 1)
    mu = np.array([[1.0, -2, 3], [0, 10, 0]])
    method = simulations.method("ccvr", samples=40_000)
    z = method.drawn(everyone(simulations.ragged(), 2), torch.from_numpy(mu), torch.from_numpy(sigma)).numpy()
    assert z.shape == (2, 40_000, 3)
    for c in range(2):
        np.testing.assert_allclose(z[c].mean(axis=0), mu[c], atol=0.06)
        np.testing.assert_allclose(np.cov(z[c].T), sigma[c], atol=0.2)
    assert abs(np.corrcoef(z[0, :, 0], z[1, :, 0])[0, 1]) < 0.02


def test_drawn_features_stay_where_their_class_has_no_spread():
    """N(μ, Σ) of the direction (1, 1), and of a single image; a negative eigenvalue that is rounding counts as 0."""
    method, fed = simulations.method("ccvr", samples=50), everyone(simulations.ragged(), 2)
    sigma = doubles([[4, 4], [4, 4 - 1e-15]], [[0, 0], [0, 0]])
    line, point = method.drawn(fed, doubles([1, 0], [2, 3]), sigma)
    near(line[:, 0] - 1, line[:, 1], 1e-6)
    assert line[:, 0].std() > 1
    near(point, [[2, 3]] * 50, 0)


# Rounds


def test_a_class_that_is_rare_is_drawn_as_often_as_others():
    """The head of FedAvg hardly knows class 9, of which one client has two images among forty."""
    train = [simulations.draw([0, 1] * 20), simulations.draw([0, 1] * 19 + [9, 9], start=300)]
    test = [simulations.draw([9] * 20, start=700)] * 2
    simulation = simulations.simulation(train, test, rounds=4, **DOUBLE)
    scores = []
    for epochs in (0, 20):
        theta = final("ccvr", simulation, server_epochs=epochs).server.theta
        z, labels = features(simulation, theta, simulation.data.test[0])
        logits = z @ theta["head.weight"].numpy().T + theta["head.bias"].numpy()
        scores.append((logits.argmax(axis=1) == labels).mean())
    assert scores[1] > scores[0] + 0.5


def test_no_upload_no_calibration():
    simulation = simulations.ragged(dropout=1.0)
    all_near(final("ccvr", simulation).server.theta, everyone(simulation, 0).initial(), 0)


def test_means_and_covariances_travel_in_the_last_round():
    """A covariance of each class with two images or more, a mean of each class; the averaged extractor comes first."""
    simulation = simulations.ragged()
    counts, k = simulation.data.counts, simulation.model.width
    phi, pi = (numbers(everyone(simulation, 0).initial().part(part)) for part in ("extractor", "head"))
    classes, pairs = (counts > 0).sum(dim=1), (counts > 1).sum(dim=1)
    assert (pairs < classes).any()
    both = [[4 * (phi + pi)] * 5] * 2
    last = {"up": (4 * (phi + pi + classes * k + pairs * k * k)).tolist(), "down": [4 * (2 * phi + pi)] * 5}
    assert traffic("ccvr", simulation) == {way: [*both, sent] for way, sent in last.items()}


def test_a_longer_run_cannot_continue_from_a_shorter_one():
    simulation = simulations.ragged()
    assert simulations.run("ccvr", simulation).progress.reads
    assert not simulations.run("ccvr", simulation, server_epochs=0).progress.reads
