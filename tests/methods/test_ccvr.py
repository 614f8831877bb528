"""CCVR: moments and a fit by hand, what is drawn, the round in which it happens, and what travels."""

import numpy as np
import pytest
import torch
from nearness import all_near, near

from fedgrid.engine.federation.participation import everyone, participants
from fedgrid.engine.local.optimizers import Optimizer
from fedgrid.methods.ccvr import covariance, pooled
from fedgrid.suite import simulations
from fedgrid.suite.simulations import final

DOUBLE = {"dtype": "float64"}


def doubles(values):
    return torch.tensor(values, dtype=torch.float64)


def features(simulation, theta, index):
    """z [m, k] and labels [m] of some images under one model."""
    batch = simulation.data.batch(torch.as_tensor(index, dtype=torch.long))
    return simulation.model.evaluating().features(theta, batch.x).numpy(), batch.y.numpy()


def last_of(simulation):
    """The images of the last round's participants."""
    clients = participants(simulation, simulation.training.rounds - 1).tolist()
    return torch.cat([simulation.data.train[i] for i in clients]).tolist()


def fitted(simulation, monkeypatch, **settings):
    """What the server fits the head to: the head that it starts from, z [m, k], labels [m], and the further options."""
    calls = []

    def noted(network, head, z, labels, **options):
        calls.append((head, z, labels, options))
        return head

    monkeypatch.setattr("fedgrid.methods.ccvr.learned", noted)
    final("ccvr", simulation, **settings)
    (call,) = calls
    return call


# Moments


def test_pooled_moments_of_two_clients_by_hand():
    """Features {0, 2} and {2, 4}: both variances are 2, and that of all four is 8/3."""
    within = 1 * covariance(doubles([[0], [2]])) + 1 * covariance(doubles([[2], [4]]))
    mean, sigma = pooled(doubles([[2], [2]]), doubles([[[1]], [[3]]]), within.unsqueeze(0))
    near(covariance(doubles([[0], [2]])), [[2]])
    near(mean, [[2]])
    near(sigma, [[[8 / 3]]])


def test_pooled_moments_are_those_of_the_paper():
    """Its three sums, in loops; the first client lacks class 0, and class 2 has one image, class 3 none."""
    rng, counts = np.random.default_rng(1), [[0, 3, 1, 0], [4, 2, 0, 0], [1, 1, 0, 0]]
    points = [[rng.normal(size=(m, 2)) + 5 for m in row] for row in counts]
    means = [[z.mean(axis=0) if len(z) else np.zeros(2) for z in row] for row in points]
    own = [[np.cov(z.T) if len(z) > 1 else np.zeros((2, 2)) for z in row] for row in points]
    within = [sum(max(0, row[c] - 1) * own[i][c] for i, row in enumerate(counts)) for c in range(4)]
    mean, sigma = pooled(doubles(counts), doubles(np.array(means)), doubles(np.array(within)))
    for c in (0, 1):
        total = sum(row[c] for row in counts)
        mu = sum(row[c] * means[i][c] for i, row in enumerate(counts)) / total
        expected = -total / (total - 1) * np.outer(mu, mu)
        for i, row in enumerate(counts):
            expected += max(0, row[c] - 1) / (total - 1) * own[i][c]
            expected += row[c] / (total - 1) * np.outer(means[i][c], means[i][c])
        near(mean[c], mu)
        near(sigma[c], expected, 1e-10)
    near(mean[2], means[0][2])
    assert not sigma[2:].any() and not mean[3].any()


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
    z = method.drawn(everyone(simulations.ragged(), 2), doubles(mu), doubles(sigma)).numpy()
    assert z.shape == (2, 40_000, 3)
    for c in range(2):
        np.testing.assert_allclose(z[c].mean(axis=0), mu[c], atol=0.06)
        np.testing.assert_allclose(np.cov(z[c].T), sigma[c], atol=0.2)
    assert abs(np.corrcoef(z[0, :, 0], z[1, :, 0])[0, 1]) < 0.02


def test_drawn_features_stay_where_their_class_has_no_spread():
    """N(μ, Σ) of the direction (1, 1), and of a single image; a negative eigenvalue that is rounding counts as 0."""
    method, fed = simulations.method("ccvr", samples=50), everyone(simulations.ragged(), 2)
    sigma = doubles([[[4, 4], [4, 4 - 1e-15]], [[0, 0], [0, 0]]])
    line, point = method.drawn(fed, doubles([[1, 0], [2, 3]]), sigma)
    near(line[:, 0] - 1, line[:, 1], 1e-6)
    assert line[:, 0].std() > 1
    near(point, doubles([[2, 3]] * 50), 0)


def test_every_class_is_drawn_equally_often(monkeypatch):
    """Of the last round's participants; what is drawn lies around the means of their features under the new model."""
    simulation = simulations.ragged(participation=0.4, **DOUBLE)
    head, z, labels, _ = fitted(simulation, monkeypatch, samples=2000)
    theta = final("fedavg", simulation).server.theta
    own, of_images = features(simulation, theta, last_of(simulation))
    present = sorted(set(of_images.tolist()))
    assert 1 < len(present) < 10
    assert labels.tolist() == [c for c in present for _ in range(2000)]
    all_near(head, theta.part("head"), 0)
    for c in present:
        spread = own[of_images == c].std(axis=0).max()
        np.testing.assert_allclose(
            z[labels == c].mean(dim=0), own[of_images == c].mean(axis=0), atol=0.15 * spread + 1e-9
        )


def test_other_seeds_draw_other_features(monkeypatch):
    (_, first, *_), (_, second, *_) = (
        fitted(simulations.ragged(seed=seed, local_epochs=0), monkeypatch) for seed in (0, 1)
    )
    assert first.shape == second.shape and not torch.equal(first, second)


# Rounds


def test_one_step_of_the_head_by_hand():
    """One image of each class: all that is drawn is its feature, and one batch is one step down the mean slope."""
    simulation = simulations.simulation([simulations.draw([3, 1]), simulations.draw([7])], **DOUBLE)
    settings = {"samples": 20, "server_batch": 99, "server_lr": 0.3}
    ours, theta = final("ccvr", simulation, **settings).server.theta, final("fedavg", simulation).server.theta
    z, labels = features(simulation, theta, last_of(simulation))
    weight, bias = (theta[f"head.{name}"].numpy() for name in ("weight", "bias"))
    for z_image, label in zip(z, labels, strict=True):
        logits = theta["head.weight"].numpy() @ z_image + theta["head.bias"].numpy()
        error = np.exp(logits) / np.exp(logits).sum() - np.eye(10)[label]
        weight, bias = weight - 0.1 * np.outer(error, z_image), bias - 0.1 * error
    near(ours["head.weight"], weight)
    near(ours["head.bias"], bias)
    all_near(ours.part("extractor"), theta.part("extractor"), 0)


def test_each_epoch_of_the_head_has_an_order_of_its_own(monkeypatch):
    """Of all drawn features, which come class by class; rate and batch size are the server's, not the study's."""
    _, z, _, options = fitted(
        simulations.ragged(momentum=0.9), monkeypatch, server_epochs=3, server_lr=0.2, server_batch=7
    )
    orders = [order.tolist() for order in options["epochs"]]
    assert all(sorted(order) == list(range(len(z))) for order in orders)
    assert len({tuple(order) for order in [*orders, range(len(z))]}) == 3 + 1
    assert options["optimizer"] == Optimizer(0.2) and options["size"] == 7


def test_only_the_last_round_calibrates():
    simulation = simulations.ragged(participation=0.6)
    method, fedavg = simulations.method("ccvr"), simulations.method("fedavg")
    with torch.no_grad():
        ours, theirs = (m.setup(everyone(simulation, 0)) for m in (method, fedavg))
        for number in range(3):
            ours, theirs = (
                simulations.one_round(m, simulation, number, s)[1] for m, s in ((method, ours), (fedavg, theirs))
            )
            all_near(ours.trained, theirs.trained, 0)
            if number < 2:
                all_near(ours.server.theta, theirs.server.theta, 0)
    extractor, head = (ours.server.theta.part(name) for name in ("extractor", "head"))
    all_near(extractor, theirs.server.theta.part("extractor"), 0)
    assert all((t - theirs.server.theta[name]).abs().max() > 1e-4 for name, t in head.items())


def test_epochs_go_on_from_each_other():
    """In other orders of the same features: the loss of what is drawn falls."""
    simulation = simulations.ragged(**DOUBLE)
    heads = [final("ccvr", simulation, server_epochs=epochs).server.theta for epochs in (0, 1, 2, 20)]
    losses = []
    for theta in heads:
        z, labels = features(simulation, theta, last_of(simulation))
        logits = torch.as_tensor(z) @ theta["head.weight"].T + theta["head.bias"]
        by_image = torch.nn.functional.cross_entropy(logits, torch.as_tensor(labels), reduction="none").numpy()
        losses.append(np.mean([by_image[labels == c].mean() for c in set(labels.tolist())]))
    assert losses[0] > losses[1] > losses[2] > losses[3]


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
    phi, pi = (
        sum(t.numel() for t in everyone(simulation, 0).initial().part(p).values()) for p in ("extractor", "head")
    )
    classes, pairs = (counts > 0).sum(dim=1), (counts > 1).sum(dim=1)
    assert (pairs < classes).any()
    rows = simulations.run("ccvr", simulation).progress.record.rows
    actual = {(number, metric): list(values) for number, metric, _, values in rows if metric.startswith("bytes_")}
    for number in (1, 2):
        assert actual[number, "bytes_up"] == actual[number, "bytes_down"] == [4 * (phi + pi)] * 5
    assert actual[3, "bytes_up"] == (4 * (phi + pi + classes * k + pairs * k * k)).tolist()
    assert actual[3, "bytes_down"] == [4 * (2 * phi + pi)] * 5


def test_a_longer_run_cannot_continue_from_a_shorter_one():
    simulation = simulations.ragged()
    assert simulations.run("ccvr", simulation).progress.reads
    assert not simulations.run("ccvr", simulation, server_epochs=0).progress.reads
