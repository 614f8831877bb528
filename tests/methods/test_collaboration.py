"""Graphs, clusters, hypernetworks and memories: worked examples, other libraries' answers, and limits.

The worked examples were computed in float64 without fedgrid's code.
"""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from nearness import DOUBLE, all_near, doubles
from nearness import near_printed as near
from plane import Plane, at
from scipy.linalg import subspace_angles
from sklearn.cluster import AgglomerativeClustering
from sklearn.decomposition import PCA
from sklearn.metrics.pairwise import cosine_similarity
from sklearn.neighbors import KNeighborsClassifier
from trajectories import after_each_round, numbers

from fedgrid.engine.federation.participation import everyone
from fedgrid.engine.local.loop import Loop
from fedgrid.engine.local.stacked import Stacked
from fedgrid.engine.rounds import federate
from fedgrid.methods.cfl import two_groups
from fedgrid.methods.common.quadratic import minimum_on_simplex
from fedgrid.methods.common.simplex import minimum, project
from fedgrid.methods.common.subspaces import (
    common_rank,
    cosines,
    directions,
    feature_moments,
    gram,
    greedy_angles,
    overlap,
    principal_angles,
)
from fedgrid.models.cnn import CNN
from fedgrid.suite import simulations
from fedgrid.suite.simulations import final, used
from fedgrid.tree import leaves, row, tree_map


def scores(name, simulation, metric="accuracy_received", **settings):
    rows = federate(simulations.method(name, **settings), simulation).progress.record.rows
    return [values for _, actual, _, values in rows if actual == metric]


def flat(stack):
    return torch.cat([t.flatten(1) for t in leaves(stack)], dim=1).double().numpy()


# The simplex


@pytest.mark.parametrize(
    ("point", "expected"),
    [
        ((0.5, 0.8, -0.2), (0.35, 0.65, 0.0)),
        ((0.2, 0.3, 0.4), (0.233333, 0.333333, 0.433333)),
        ((2.0, 0.0, -1.0), (1.0, 0.0, 0.0)),
        ((1 / 3, 1 / 3, 1 / 3), (1 / 3, 1 / 3, 1 / 3)),
        ((7.0,), (1.0,)),
        ((1e17, 1e17, 0.0), (0.5, 0.5, 0.0)),
    ],
)
def test_projections_by_hand(point, expected):
    near(project(torch.tensor(point)), expected)


def test_projection_is_that_of_a_solver():
    cvxpy = pytest.importorskip("cvxpy")
    random = np.random.default_rng(0)
    points = random.normal(scale=2.0, size=(12, 7))
    ours = project(torch.from_numpy(points))
    for point, w in zip(points, ours, strict=True):
        x = cvxpy.Variable(7, nonneg=True)
        cvxpy.Problem(cvxpy.Minimize(cvxpy.sum_squares(x - point)), [cvxpy.sum(x) == 1]).solve(solver="CLARABEL")
        near(w, x.value, 1e-5)
    near(ours.sum(dim=1), np.ones(12), 1e-12)
    near(project(torch.from_numpy(points + 3.7)), ours, 1e-12)
    near(project(torch.from_numpy(points).reshape(3, 4, 7)), ours.reshape(3, 4, 7), 0)


def test_closed_form_is_the_programme_that_it_solves():
    """wᵀ(a·I)w + qᵀw, whose slope on the simplex enters a quadratic form as ½(q1ᵀ + 1qᵀ)."""
    random, a = np.random.default_rng(1), 0.7
    for q in torch.from_numpy(random.normal(size=(5, 6))):
        whole = a * torch.eye(6).double() + (q[:, None] + q[None, :]) / 2
        shifted = whole + 10 * torch.ones(6, 6)  # adds a constant on the simplex, and makes the form definite
        near(minimum(a, q), minimum_on_simplex(shifted), 1e-6)


# Angles


def test_cosines_are_scikit_learns():
    random = np.random.default_rng(2)
    stack = {
        "a": torch.from_numpy(random.normal(size=(4, 3, 5))),
        "b": torch.from_numpy(random.normal(size=(4, 70000))),
    }
    near(cosines(stack), cosine_similarity(flat(stack)), 1e-12)
    near(gram(stack) / 1e5, flat(stack) @ flat(stack).T / 1e5, 1e-12)
    stack = tree_map(lambda t: t * torch.tensor([1.0, 0.0, 1.0, 1.0]).reshape(-1, *[1] * (t.dim() - 1)), stack)
    assert not cosines(stack)[1].any()


def subspace(seed, r, k):
    return torch.from_numpy(np.linalg.qr(np.random.default_rng(seed).normal(size=(k, r)))[0].T)


@pytest.mark.parametrize(("r", "k"), [(1, 3), (3, 8), (3, 4), (4, 4), (5, 84)])
def test_principal_angles_are_scipys(r, k):
    bases = torch.stack([subspace(seed, r, k) for seed in range(5)])
    ours = principal_angles(bases)
    for i in range(5):
        for j in range(5):
            near(ours[i, j], np.sort(subspace_angles(bases[i].numpy().T, bases[j].numpy().T)), 1e-7)


def test_small_angles_keep_their_digits():
    tilt = 1e-9
    ours = doubles([1, 0, 0, 0], [0, 1, 0, 0])
    theirs = doubles([np.cos(tilt), 0, np.sin(tilt), 0], [0, 0, 0, 1])
    angles = principal_angles(torch.stack([ours, theirs]))
    near(angles[0, 1], [tilt, np.pi / 2], 1e-15)
    near(angles[0, 0], [0.0, 0.0], 1e-15)


def test_principal_angles_need_no_basis():
    bases = torch.stack([subspace(seed, 3, 6) for seed in range(4)])
    turned = torch.stack([subspace(seed + 9, 3, 3) @ basis for seed, basis in enumerate(bases)])
    near(principal_angles(turned), principal_angles(bases), 1e-9)
    assert (greedy_angles(turned) - greedy_angles(bases)).abs().max() > 0.1
    moved = bases @ subspace(99, 6, 6)
    near(principal_angles(moved), principal_angles(bases), 1e-9)


def test_rows_of_zeros_are_no_directions():
    """Subspaces of coordinate axes, some turned by 60°, whose cosines are 0 in many places; ranks 1 to 3 in 3 rows."""
    random, turn = np.random.default_rng(4), np.eye(8)
    turn[2:4, 2:4] = [[0.5, np.sqrt(0.75)], [-np.sqrt(0.75), 0.5]]
    ranks = random.integers(1, 4, size=40)
    bases = np.zeros((40, 3, 8))
    for i, rank in enumerate(ranks):
        bases[i, :rank] = (turn if i % 2 else np.eye(8))[random.permutation(6)[:rank]]
    actual = overlap(torch.from_numpy(bases), principal_angles(torch.from_numpy(bases)))
    for i in range(40):
        for j in range(i):
            angles = subspace_angles(bases[i, : ranks[i]].T, bases[j, : ranks[j]].T)
            near(actual[i, j], np.cos(angles.mean()), 1e-7)


DEGREES = np.pi / 180
PLANE = [[1, 0, 0], [0, 1, 0]]
TURNED = [[np.cos(30 * DEGREES), np.sin(30 * DEGREES), 0], [-np.sin(30 * DEGREES), np.cos(30 * DEGREES), 0]]
TILTED = [[np.cos(20 * DEGREES), 0, np.sin(20 * DEGREES)], [0, 1, 0]]
FLIPPED = [[-1, 0, 0], [0, 0, 1]]


@pytest.mark.parametrize(
    ("angles", "other", "degrees", "expected"),
    [
        (principal_angles, PLANE, (0, 0), 1.0),
        (principal_angles, TURNED, (0, 0), 1.0),
        (greedy_angles, TURNED, (30, 30), 0.866025),
        (principal_angles, TILTED, (0, 20), 0.984808),
        (principal_angles, FLIPPED, (0, 90), 0.707107),
        (greedy_angles, FLIPPED, (90, 90), 0.0),
    ],
)
def test_overlap_of_two_planes(angles, other, degrees, expected):
    bases = doubles(PLANE, other)
    actual = angles(bases)
    near(actual[0, 1] / DEGREES, degrees)
    near(overlap(bases, actual)[0, 1], expected)
    near(overlap(bases, actual).diagonal(), [1.0, 1.0])


def test_greedy_angles_take_the_largest_entry_that_is_left():
    """As FedSaC's code does: the second choice is not the second largest entry."""
    cosine = np.array([[0.6, 0.5, 0.1], [0.55, -0.2, 0.3], [0.0, 0.2, -0.4]])
    wide = np.zeros((2, 3, 6))
    wide[0, :, :3] = np.eye(3)
    wide[1, :, :3] = cosine.T
    wide[1, :, 3:] = np.linalg.cholesky(np.eye(3) - cosine.T @ cosine)
    near(torch.from_numpy(wide[1] @ wide[1].T), np.eye(3), 1e-12)  # directions, whose cosines are those above
    near(greedy_angles(torch.from_numpy(wide))[0, 1].cos(), [0.6, 0.3, 0.2])
    values = np.linalg.svd(cosine)[1]
    near(principal_angles(torch.from_numpy(wide))[0, 1].cos(), values, 1e-12)
    assert np.abs(values - [0.6, 0.3, 0.2]).max() > 0.1


def moments(points):
    x = torch.as_tensor(points, dtype=torch.float64)
    return x.sum(dim=0, keepdim=True), (x.T @ x).unsqueeze(0), doubles(len(x))


def test_directions_of_four_points():
    points = [[5, 5], [6, 5], [5, 6.2], [6, 6.2]]
    near(directions(*moments(points), 1, centred=False)[0], [[0.700071, 0.714073]])
    near(directions(*moments(points), 1, centred=True)[0], [[0.0, 1.0]])
    sums, squares, count = moments(points)
    near(torch.linalg.eigvalsh(squares)[0].flip(0).sqrt(), [15.737349, 1.102651])
    near(torch.linalg.eigvalsh(squares - sums.T @ sums / count)[0].flip(0).sqrt(), [1.2, 1.0])


def test_directions_are_those_of_other_libraries():
    random = np.random.default_rng(3)
    points = random.normal(size=(40, 9)) * np.arange(1, 10) + 5
    ours = directions(*moments(points), 3, centred=False)[0].numpy()
    theirs = np.linalg.svd(points)[2][:3]
    np.testing.assert_allclose(np.abs(ours @ theirs.T), np.eye(3), atol=1e-8)
    ours = directions(*moments(points), 3, centred=True)[0].numpy()
    theirs = PCA(3, svd_solver="full").fit(points).components_
    np.testing.assert_allclose(np.abs(ours @ theirs.T), np.eye(3), atol=1e-8)
    assert all(v[np.abs(v).argmax()] > 0 for v in ours)


def test_clients_with_few_directions():
    none, one, both = [[3, 4]], [[3, 4], [6, 8]], [[1, 0], [0, 2]]
    actual = [moments(points) for points in (none, one, both)]
    stacked = [torch.cat([m[i] for m in actual]) for i in range(3)]
    bases = directions(*stacked, 3, centred=True)
    assert bases.shape == (3, 2, 2)
    assert bases.any(dim=2).tolist() == [[False, False], [True, False], [True, False]]
    bases = directions(*stacked, 3, centred=False)
    assert bases.any(dim=2).tolist() == [[True, False], [True, False], [True, True]]
    assert common_rank(bases).tolist() == [[1, 1, 1], [1, 1, 1], [1, 1, 2]]
    near(overlap(bases, principal_angles(bases)), np.ones((3, 3)))  # a line in the plane has one angle with it
    bases[0] = 0
    for angles in (principal_angles, greedy_angles):
        actual = overlap(bases, angles(bases))
        assert actual[0].tolist() == [1, 0, 0] and actual[:, 0].tolist() == [1, 0, 0]
    opposite = doubles([[1, 0], [0, 0]], [[-1, 0], [0, 0]])
    near(greedy_angles(opposite)[:, :, 0], [[0, np.pi], [np.pi, 0]])


# pFedGraph and FedSaC

P = doubles(0.5, 0.3, 0.2)
S = doubles([1, 0.6, -0.1], [0.6, 1, 0.2], [-0.1, 0.2, 1])
C = doubles([1, 0.8, 0.3], [0.8, 1, 0.4], [0.3, 0.4, 1])
CLOSE = doubles([1, 0.93, 0.2], [0.93, 1, 0.1], [0.2, 0.1, 1])


@pytest.mark.parametrize(
    ("alpha", "beta", "expected"),
    [
        (0.9, 1.4, [[0.695, 0.305, 0], [0.47, 0.46, 0.07], [0.293333, 0.258333, 0.448333]]),
        (0.0, 1.4, [[0.74, 0.26, 0], [0.46, 0.54, 0], [0.173333, 0.183333, 0.643333]]),
        (0.9, 0.0, [[0.365, 0.255, 0.38], [0.47, 0.18, 0.35], [0.62, 0.375, 0.005]]),
        (0.5, 1.6, [[0.735, 0.265, 0], [0.465, 0.535, 0], [0.193333, 0.208333, 0.598333]]),
        (0.0, 0.0, [[0.5, 0.3, 0.2]] * 3),
    ],
)
def test_fedsac_weights_of_three_clients(alpha, beta, expected):
    near(simulations.method("fedsac", beta=beta).mixing(P, S, alpha * C), expected)


def test_fedsac_weights_beyond_the_threshold():
    method = simulations.method("fedsac")
    assert method.threshold == 0.9
    snapped = CLOSE.masked_fill(CLOSE > 0.9, 1.0)
    expected = [[0.551667, 0.441667, 0.006667], [0.645, 0.355, 0], [0.456667, 0.141667, 0.401667]]
    near(method.mixing(P, snapped, 0.9 * C), expected)
    near(method.mixing(P, CLOSE, 0.9 * C)[:2], [[0.568, 0.409, 0.023], [0.6205, 0.3795, 0]])


@pytest.mark.parametrize(
    ("alpha", "expected"),
    [
        (0.8, [[0.725, 0.275, 0], [0.475, 0.525, 0], [0.208333, 0.195833, 0.595833]]),
        (10.0, [[0.525, 0.305, 0.17], [0.5, 0.32, 0.18], [0.476667, 0.291667, 0.231667]]),
        (0.1, np.eye(3)),
    ],
)
def test_pfedgraph_weights_of_three_clients(alpha, expected):
    near(simulations.method("pfedgraph", alpha=alpha).mixing(P, S), expected)


@pytest.mark.parametrize("kind", ["pfedgraph", "fedsac"])
def test_clients_that_are_all_alike_share_by_size(kind):
    """Where similarity and overlap are the same with everyone."""
    constant = doubles([0.4], [-0.3], [0.9]).expand(3, 3)
    given = (constant, 0.9 * constant.flip(0)) if kind == "fedsac" else (constant,)
    near(simulations.method(kind).mixing(P, *given), P.expand(3, 3), 1e-12)


def round_of(number, rounds):
    """A round of a study, as far as FedSaC's weight of complementarity looks at it."""
    return SimpleNamespace(round=number, training=SimpleNamespace(rounds=rounds))


@pytest.mark.parametrize(("rounds", "on"), [(30, 21), (50, 35), (100, 70), (1, 1), (10, 7)])
def test_complementarity_counts_in_the_first_seven_tenths(rounds, on):
    method = simulations.method("fedsac")
    assert [method.weight(round_of(t, rounds)) for t in range(rounds)] == [0.9] * on + [0.0] * (rounds - on)


@pytest.mark.parametrize(("rounds", "on"), [(30, 22), (50, 36), (100, 71)])
def test_complementarity_as_the_code_counts_rounds(rounds, on):
    """t/T ≤ 0.7, one round longer."""
    method = simulations.method("fedsac", until=0.7 + 1 / rounds, alpha=0.5)
    assert [method.weight(round_of(t, rounds)) for t in range(rounds)] == [0.5] * on + [0.0] * (rounds - on)


def test_layers_that_are_compared():
    """A convolution is no linear layer; statistics of batch norm are compared nowhere."""
    fed = everyone(simulations.ragged(norm="batch"), 0)
    method, theta = simulations.method("pfedgraph"), fed.initial()
    assert set(method.of_layers(fed, theta)) == set(theta) - set(fed.model.statistics)
    assert set(simulations.method("pfedgraph", layers="head").of_layers(fed, theta)) == {"head.weight", "head.bias"}
    network = CNN().network((28, 28, 1), 10)
    shapes = network.initial(0)

    class OfCNN:
        model = network

        def initial(self):
            return shapes

        def parameters(self, theta):
            return theta

    linear = set(simulations.method("pfedgraph", layers="linear").of_layers(OfCNN(), shapes))
    convolutions = {name.rpartition(".")[0] for name, t in shapes.items() if t.dim() == 4}
    assert linear == {name for name in shapes if name.rpartition(".")[0] not in convolutions}
    assert linear and linear != set(shapes)


def test_directions_travel_from_the_second_time_on():
    simulation = simulations.ragged(participation=0.6, rounds=4)
    rows = federate(simulations.method("pfedgraph", pull="directions"), simulation).progress.record.rows
    size, served, seen = 4.0 * sum(t.numel() for t in simulation.model.initial(0).values()), set(), set()
    for ids, down in ((ids, sent) for _, what, ids, sent in rows if what == "bytes_down"):
        assert list(down) == [size * (1 + (i in served)) for i in ids]
        seen |= set(down)
        served |= set(ids)
    assert seen == {size, 2 * size}
    assert {value for sent in scores("pfedgraph", simulation, "bytes_down") for value in sent} == {size}


def test_clients_that_have_not_moved_share_by_size():
    simulation = simulations.ragged(local_epochs=0)
    state = final("pfedgraph", simulation)
    near(state.server.graph, everyone(simulation, 0).weights.expand(5, 5))


def test_twins_collaborate_in_pfedgraph_and_strangers_in_complementarity():
    """Two clients with the same images and one with others."""
    twin, other = simulations.draw([0, 1, 2, 0, 1, 2]), simulations.draw([7, 8, 9, 7, 8, 9])
    simulation = simulations.simulation([twin, other, twin], rounds=4)
    graph = final("pfedgraph", simulation).server.graph
    assert graph[0, 2] > 0.3 and graph[0, 1] == 0
    graph = final("fedsac", simulation, beta=0.0, until=1.0).server.graph
    assert graph[0, 1] > graph[0, 0] and graph[0, 1] > graph[0, 2]


# kNN-Per


def memory(**settings):
    theta = {
        "head.weight": torch.zeros(3, 2),
        "head.bias": torch.tensor([1.2, 0.2, 1.1]),
        "memory": torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0], [3.0, 3.0], [9.0, 9.0]]),
        "labels": torch.tensor([0, 1, 1, 2, 2]),
        "stored": torch.tensor(4),
    }
    return simulations.method("knn_per", **({"neighbours": 3} | settings)), theta


QUERY = torch.tensor([[0.5, 0.5]])


def test_votes_of_three_neighbours():
    method, theta = memory()
    near(method.neighbourly(theta, QUERY, 3), [[0.422319, 0.577681, 0.0]])
    near(memory(votes="softmax")[0].neighbourly(theta, QUERY, 3), [[0.380114, 0.412632, 0.207253]])
    near(memory(neighbours=50, scale=1e12)[0].neighbourly(theta, QUERY, 3), [[0.25, 0.5, 0.25]])
    near(memory(scale=1e-4)[0].neighbourly(theta, QUERY + 30, 3), [[0.0, 0.0, 1.0]])  # exp(−d) alone would be 0
    near(method.neighbourly(theta | {"stored": torch.tensor(0)}, QUERY, 3), [[0.0, 0.0, 0.0]])


@pytest.mark.parametrize(
    ("lam", "expected", "predicted"),
    [
        (0.0, (0.440002, 0.161868, 0.398130), 0),
        (0.25, (0.435581, 0.265821, 0.298598), 0),
        (0.5, (0.431160, 0.369774, 0.199065), 0),
        (0.75, (0.426740, 0.473728, 0.099533), 1),
        (1.0, (0.422319, 0.577681, 0.0), 1),
    ],
)
def test_mixture_with_the_neighbours(lam, expected, predicted):
    method, theta = memory()
    actual = method.predict(theta | {"lam": torch.tensor(lam)}, QUERY, at(Plane(3)))
    near(actual.softmax(dim=1), [expected])
    assert actual.argmax() == predicted


def test_mixture_of_logits_decides_otherwise():
    method, theta = memory(mixing="logits")
    actual = method.predict(theta | {"lam": torch.tensor(0.75)}, QUERY, at(Plane(3)))
    near(actual, [[0.616739, 0.483261, 0.275]])


def test_an_empty_memory_leaves_the_model():
    method, theta = memory()
    theta |= {"stored": torch.tensor(0), "lam": torch.tensor(0.75)}
    actual = method.predict(theta, QUERY, at(Plane(3)))
    near(actual.softmax(dim=1), [[0.440002, 0.161868, 0.398130]])


def test_knn_per_limits():
    simulation = simulations.ragged()
    assert scores("knn_per", simulation, "accuracy_adapted", lam=0.0) == scores("fedavg", simulation)
    assert scores("knn_per", simulation, "accuracy_trained") == scores("fedavg", simulation, "accuracy_trained")
    own = simulations.ragged()
    own.data.test[:] = own.data.train  # the nearest neighbour of a stored image is itself
    actual = scores("knn_per", own, "accuracy_adapted", lam=1.0, neighbours=1)
    assert all(value == 1 for values in actual for value in values)


@pytest.mark.parametrize("executor", [Loop(), Stacked()], ids=["loop", "stacked"])
@pytest.mark.parametrize("settings", [{}, {"norm": "batch"}, {"augmentation": "crop-flip"}], ids=str)
def test_the_memory_is_every_training_image_as_it_is(executor, settings):
    simulation = simulations.ragged(rounds=1, executor=executor, **settings)
    store, state = used("knn_per", simulation), final("knn_per", simulation)
    for i, index in enumerate(simulation.data.train):
        batch = simulation.data.batch(index)
        features = simulation.model.features(state.server.theta, batch.x)
        own = row(store, i)
        assert own["stored"] == len(index)
        distance = torch.cdist(own["memory"][: len(index)], features)
        order = distance.argmin(dim=1)
        assert distance.min(dim=1).values.max() < 1e-5 and sorted(order.tolist()) == list(range(len(index)))
        assert torch.equal(own["labels"][: len(index)], batch.y[order])
    for name, t in state.server.theta.items():
        assert torch.equal(store[name], t.expand_as(store[name])), name


def test_a_small_memory_keeps_some():
    simulation = simulations.ragged(rounds=1)
    store, state = used("knn_per", simulation, capacity=8), final("knn_per", simulation)
    assert store["memory"].shape[1] == 8 and store["stored"].tolist() == [7, 8, 8, 8, 8]
    whole = simulation.model.features(state.server.theta, simulation.data.batch(simulation.data.train[4]).x)
    places = torch.cdist(store["memory"][4], whole).argmin(dim=1).tolist()
    assert len(set(places)) == 8 and places != list(range(8))


def by_scikit_learn(features, labels, queries, k, scale, classes):
    """p_kNN by another library."""
    width = features.shape[1]
    model = KNeighborsClassifier(min(k, len(features)), weights=lambda d: np.exp(-(d**2) / (width * scale)))
    votes = np.zeros((len(queries), classes))
    votes[:, np.unique(labels)] = model.fit(features, labels).predict_proba(queries)
    return votes


def test_lambda_is_the_first_of_the_best():
    """On the client's validation images; without any it is one half, beside clients that have some, too."""
    simulation = simulations.ragged(rounds=2, lr=0.3, **DOUBLE)
    validation = [simulations.draw([i % 10 for i in range(12)], start=60 * i) for i in range(5)]
    validation[3] = []
    lists = [torch.tensor(index, dtype=torch.long) for index in validation]
    object.__setattr__(simulation.data, "validation", lists)
    chosen, state = used("knn_per", simulation, neighbours=4)["lam"], final("knn_per", simulation)
    for i, index in enumerate(simulation.data.train):
        if i == 3:
            assert chosen[i] == 0.5
            continue
        here, asked = simulation.data.batch(index), simulation.data.batch(lists[i])
        z, queries = (simulation.model.features(state.server.theta, batch.x) for batch in (here, asked))
        votes = by_scikit_learn(z.numpy(), here.y.numpy(), queries.numpy(), 4, 1.0, 10)
        model = simulation.model.head(state.server.theta, queries).softmax(dim=1).numpy()
        wanted = asked.y.numpy()
        hits = [((g * votes + (1 - g) * model).argmax(axis=1) == wanted).sum() for g in np.arange(11) / 10]
        assert chosen[i] == pytest.approx(np.argmax(hits) / 10)
    assert chosen.max() > 0 and not (chosen[[0, 1, 2, 4]] == 0.5).all()
    assert used("knn_per", simulation, neighbours=4, lam=0.3)["lam"].tolist() == [0.3] * 5


def test_without_validation_images_lambda_is_one_half():
    simulation = simulations.ragged(rounds=1)
    assert simulation.data.validation is None
    assert used("knn_per", simulation)["lam"].tolist() == [0.5] * 5
    object.__setattr__(simulation.data, "validation", [torch.zeros(0, dtype=torch.long)] * 5)
    assert used("knn_per", simulation)["lam"].tolist() == [0.5] * 5


# CFL


EAGER = {"eps1": 1e9, "eps2": 0.0, "t0": 0}


def test_cfl_splits_down_to_single_clients():
    """From then on each is trained alone; a second split must not mix up positions and clients."""
    simulation = simulations.ragged(rounds=6)
    state = final("cfl", simulation, min_size=2, **EAGER)
    assert sorted(state.server.cluster.tolist()) == [0, 1, 2, 3, 4]
    partitions = [
        final("cfl", simulations.ragged(rounds=t), min_size=2, **EAGER).server.cluster.tolist() for t in range(1, 6)
    ]
    for coarse, fine in pairwise(partitions):
        assert len({(a, b) for a, b in zip(fine, coarse, strict=True)}) == len(set(fine))  # nobody merges back
    kept = [final("cfl", simulations.ragged(rounds=t), **EAGER).server.cluster for t in (1, 5)]
    assert all(count <= 2 for count in kept[1].bincount().tolist())  # three or more are cut, two are not


def test_second_splits_follow_the_clients_numbers():
    """Two pairs and a pair of pairs: the cut inside a cluster whose members are not the first ones."""
    groups = [
        simulations.draw([a, b] * 4, start=90 * n)
        for n, (a, b) in enumerate([(0, 1), (8, 9), (0, 1), (4, 5), (8, 9), (4, 5)])
    ]
    state = final("cfl", simulations.simulation(groups, rounds=4, lr=0.2), **EAGER)
    cluster = state.server.cluster.tolist()
    assert cluster[0] == cluster[2] and cluster[1] == cluster[4] and cluster[3] == cluster[5]
    assert len(set(cluster)) == 3


@pytest.mark.parametrize(
    ("given", "split"),
    [
        ({}, True),
        ({"t0": 1}, False),
        ({"eps1": 1e-9}, False),
        ({"eps2": 1e9}, False),
        ({"min_size": 6}, False),
        ({"min_size": 5}, True),
        ({"bounds": "relative", "eps1": 1.0, "eps2": 0.8}, True),
        ({"bounds": "relative", "eps1": 1e-3, "eps2": 0.8}, False),
        ({"bounds": "relative", "eps1": 1.0, "eps2": 1.1}, False),
    ],
)
def test_when_cfl_splits(given, split):
    assert final("cfl", simulations.ragged(rounds=1), **(EAGER | given)).server.cluster.any() == split


def test_bounds_of_cfl_are_norms_of_updates():
    simulation = simulations.ragged(rounds=1, **DOUBLE)
    trained = final("local", simulation).clients.theta
    moved = flat(tree_map(lambda t, start: t - start, trained, simulation.model.initial(0)))
    sizes = np.array([len(index) for index in simulation.data.train])
    mean = np.linalg.norm(sizes / sizes.sum() @ moved)
    longest = np.linalg.norm(moved, axis=1).max()
    for eps1, eps2, split in ((1.001, 0.999, True), (0.999, 0.999, False), (1.001, 1.001, False)):
        state = final("cfl", simulation, bounds="notebook", eps1=eps1 * mean, eps2=eps2 * longest, t0=0)
        assert state.server.cluster.any() == split
    near(final("cfl", simulation, t0=20).server.largest[:2], [longest, -1.0])


@pytest.mark.parametrize("t0", [3, 4])
def test_relative_bounds_of_cfl_are_shares_of_a_median(t0):
    """Of the longest updates of the first rounds, odd or even in number; until then it is FedAvg."""
    simulation = simulations.ragged(rounds=t0 + 1, lr=0.1, lr_schedule="exponential", lr_decay=0.8, **DOUBLE)
    longest = []
    for before, state in pairwise(after_each_round(simulations.method("fedavg"), simulation)):
        start = before.server.theta
        moved = flat(tree_map(torch.sub, state.trained, everyone(simulation, 0).replicate(start)))
        longest.append(np.linalg.norm(moved, axis=1).max())
    mean = np.linalg.norm(everyone(simulation, 0).weights.numpy() @ moved)
    typical, last = np.median(longest[:t0]), longest[-1]
    assert np.abs(np.delete(np.sort(longest[:t0]), t0 // 2 if t0 % 2 else []) / typical - 1).min() > 0.01
    for eps1, eps2, split in ((1.001, 0.999, True), (0.999, 0.999, False), (1.001, 1.001, False)):
        given = {"bounds": "relative", "t0": t0, "eps1": eps1 * mean / typical, "eps2": eps2 * last / typical}
        server = final("cfl", simulation, **given).server
        assert server.cluster.any() == split
        near(server.largest, longest[:t0], 1e-9)


def test_cfl_waits_for_all_members_with_images():
    some = final("cfl", simulations.ragged(rounds=4, participation=0.7), **EAGER)
    assert not some.server.cluster.any()
    clients = [[], *(simulations.draw([i, i + 1, i], start=40 * i) for i in range(5))]
    assert final("cfl", simulations.simulation(clients, rounds=1), **EAGER).server.cluster.any()


def test_complete_linkage_is_scikit_learns():
    random = np.random.default_rng(6)
    for size in (2, 3, 8, 20):
        updates = random.normal(size=(size, 5))
        theirs = AgglomerativeClustering(2, metric="precomputed", linkage="complete").fit(
            1 - cosine_similarity(updates)
        )
        ours = two_groups(torch.from_numpy(updates @ updates.T))
        assert ours.tolist() == (theirs.labels_ != theirs.labels_[0]).tolist()


# FedRoD


def test_fedrod_is_fedavg_where_all_classes_are_alike():
    clients = [simulations.draw(list(range(10)) * 2, start=60 * i) for i in range(3)]
    simulation = simulations.simulation(clients, **DOUBLE)
    all_near(final("fedrod", simulation).server.theta, final("fedavg", simulation).server.theta, 1e-12)
    uneven = simulations.ragged(**DOUBLE)
    ours, theirs = final("fedrod", uneven).server.theta, final("fedavg", uneven).server.theta
    assert (ours["head.bias"] - theirs["head.bias"]).abs().max() > 1e-3


def test_fedrod_predicts_by_the_sum():
    simulation = simulations.ragged()
    method, state = simulations.method("fedrod"), final("fedrod", simulation)
    theta, x = (
        row(method.used(everyone(simulation, 3, state), state), 1),
        simulation.data.batch(simulation.data.test[1]).x,
    )
    generic = {name: theta[name] for name in state.server.theta}
    private = {name.removeprefix("private."): t for name, t in theta.items() if name.startswith("private.")}
    expected = simulation.model(generic, x) + simulation.model(generic | private, x)
    torch.testing.assert_close(method.predict(theta, x, at(simulation.model)), expected)


@pytest.mark.parametrize("gamma", [0.0, 1.0])
def test_fedrod_with_a_private_head_of_zeros_predicts_generically(gamma):
    """At the start, and later where the steps are too small to see."""
    simulation = simulations.ragged(lr=1e-30)
    method, context, x = (
        simulations.method("fedrod", private_start="zero", gamma=gamma),
        at(simulation.model),
        simulation.data.batch(simulation.data.test[1]).x,
    )
    last = final("fedrod", simulation, private_start="zero", gamma=gamma)
    assert last.clients.private["private.head.weight"].any()
    for state in (method.setup(everyone(simulation, 0)), last):
        theta = row(method.used(everyone(simulation, 0, state), state), 1)
        assert torch.equal(method.predict(theta, x, context), simulation.model(method.global_model(state), x))
    method = simulations.method("fedrod")
    state = method.setup(everyone(simulation, 0))  # a copy doubles what is predicted
    theta = row(method.used(everyone(simulation, 0, state), state), 1)
    assert torch.equal(method.predict(theta, x, context), 2 * simulation.model(method.global_model(state), x))


def test_fedrod_may_keep_its_generic_heads():
    simulation, settings = simulations.ragged(participation=0.5, rounds=1), {"share_generic_head": False}
    state = final("fedrod", simulation, **settings)
    assert simulations.method("fedrod", **settings).global_model(state) is None
    assert scores("fedrod", simulation, "bytes_up", **settings)[0][0] == 4 * numbers(state.server.theta)


def test_feature_moments_are_sums_over_images():
    simulation = simulations.ragged()
    fed = everyone(simulation, 0)
    actual = fed.measure(fed.replicate(fed.initial()), feature_moments)
    for i, index in enumerate(simulation.data.train):
        z = simulation.model.features(fed.initial(), simulation.data.batch(index).x).double()
        near(actual.sums[i], z.sum(dim=0), 1e-4)
        near(actual.squares[i], z.T @ z, 1e-4)
