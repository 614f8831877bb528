"""FINCH on points whose clusters are known, on blobs, and against the authors' package where it is installed."""

import itertools
import warnings
from importlib.metadata import version

import numpy as np
import pytest

from fedgrid.methods.common import finch
from fedgrid.methods.common.finch import cluster_means, partitions

FIVE = np.array([[1, 0], [1.992389, 0.174311], [0.978148, 0.207912], [0.520945, 2.954423], [0.034899, 0.999391]])
EIGHT = (0, 4, 20, 25, 100, 106, 130, 133)


def around(*degrees):
    angles = np.radians(degrees)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def sets(labels):
    """A partition as a set of sets, whatever its clusters are called."""
    return {frozenset(np.flatnonzero(labels == cluster).tolist()) for cluster in set(labels.tolist())}


def blobs(sizes, random, spread=0.05, width=8):
    """Gaussian blobs around unit vectors that are perpendicular."""
    return np.concatenate([np.eye(width)[i] + random.normal(0, spread, (n, width)) for i, n in enumerate(sizes)])


def turned(blob):
    """The same blob 90° further on, an exact rotation that swaps pairs of coordinates."""
    return np.stack([-blob[:, 1::2], blob[:, ::2]], axis=2).reshape(blob.shape)


def test_five_points():
    actual = partitions(FIVE)
    assert [sets(labels) for labels in actual] == [{frozenset({0, 1, 2}), frozenset({3, 4})}]
    means = cluster_means(FIVE, actual[-1])
    np.testing.assert_allclose(means, [[1.323512, 0.127408], [0.277922, 1.976907]], atol=1e-6)
    np.testing.assert_allclose(FIVE.mean(axis=0), [0.905276, 0.867207], atol=1e-6)
    assert len(sets(partitions(FIVE[:3])[-1])) == 1


def test_eight_points_in_two_steps():
    points = around(*EIGHT)
    fine = {frozenset({i, i + 1}) for i in (0, 2, 4, 6)}
    coarse = {frozenset(range(4)), frozenset(range(4, 8))}
    assert [sets(labels) for labels in partitions(points)] == [fine, coarse]
    assert [sets(labels) for labels in partitions(points, early_exit=True)] == [fine]
    lengths = finch._lengths(finch._links(points), points)
    assert abs(lengths.max() - 0.010956) < 1e-6  # mutual neighbours 6° apart, counted twice


def test_the_literal_rule_always_ends_in_one_cluster():
    random = np.random.default_rng(0)
    for _ in range(100):
        points = random.normal(size=(random.integers(1, 60), 5))
        assert len(sets(partitions(points, keep_one=True)[-1])) == 1


@pytest.mark.parametrize("early_exit", [False, True])
def test_what_holds_of_every_input(early_exit):
    random = np.random.default_rng(1)
    for _ in range(200):
        n = int(random.integers(1, 80))
        points = random.normal(size=(n, int(random.integers(2, 9))))
        actual = partitions(points, early_exit)
        numbers = [len(sets(labels)) for labels in actual]
        assert all(set(labels.tolist()) == set(range(number)) for labels, number in zip(actual, numbers, strict=True))
        if n >= 2:
            assert min(map(len, sets(actual[0]))) >= 2 and numbers[0] <= n / 2
        if n <= 3:
            assert numbers == [1]
        assert numbers[-1] >= 2 or len(numbers) == 1
        for fine, coarse in itertools.pairwise(actual):
            assert all(any(small <= large for large in sets(coarse)) for small in sets(fine))  # nested
            few, many = len(sets(coarse)), len(sets(fine))
            assert few < many if early_exit else few <= many / 2


def test_lengths_of_points_do_not_matter_to_the_finest_partition():
    random = np.random.default_rng(2)
    points = random.normal(size=(40, 4))
    scaled = points * random.uniform(0.1, 10, (40, 1))
    assert sets(partitions(points)[0]) == sets(partitions(scaled)[0])
    far = random.permutation(40)
    assert sets(partitions(points[far])[-1]) == {
        frozenset(int(np.flatnonzero(far == i)[0]) for i in some) for some in sets(partitions(points)[-1])
    }


@pytest.mark.parametrize("sizes", [(2, 2), (2, 3), (3, 3)])
def test_small_blobs_are_separated(sizes):
    for seed in range(50):
        points = blobs(sizes, np.random.default_rng(seed))
        expected = {frozenset(range(sizes[0])), frozenset(range(sizes[0], sum(sizes)))}
        assert sets(partitions(points)[-1]) == expected


@pytest.mark.parametrize("size", [5, 20, 50])
def test_rotated_blobs_are_separated(size):
    for seed in range(50):
        blob = blobs([size], np.random.default_rng(seed))
        points = np.concatenate([blob, turned(blob)])
        assert sets(partitions(points)[-1]) == {frozenset(range(size)), frozenset(range(size, 2 * size))}


def test_the_finest_partition_of_blobs_is_pure():
    for seed in range(50):
        points = blobs((5, 30), np.random.default_rng(seed))
        assert all(len({i < 5 for i in some}) == 1 for some in sets(partitions(points)[0]))


def test_early_exit_does_not_mix_blobs():
    for seed in range(50):
        points = blobs((5, 5), np.random.default_rng(seed))
        assert all(len({i < 5 for i in some}) == 1 for some in sets(partitions(points, early_exit=True)[-1]))


def test_degenerate_points():
    assert len(partitions(np.zeros((0, 3)))[-1]) == 0
    assert [labels.tolist() for labels in partitions(np.ones((1, 3)))] == [[0]]
    for equal in (np.ones((9, 3)), np.zeros((9, 3))):
        assert [labels.tolist() for labels in partitions(equal)] == [[0] * 9]
    random = np.random.default_rng(6)
    for _ in range(20):  # equal but for rounding
        parallel = np.outer(random.uniform(0.1, 10, 64), random.normal(size=33))
        assert [labels.tolist() for labels in partitions(parallel)] == [[0] * 64]
    dead = np.concatenate([around(0, 1, 90, 91), np.zeros((1, 2))])  # at distance 1 from all: the first is nearest
    assert sets(partitions(dead)[0]) == {frozenset({0, 1, 4}), frozenset({2, 3})}
    twins = np.repeat(np.random.default_rng(3).normal(size=(6, 4)), 5, axis=0)
    for some in sets(partitions(twins)[0]):
        assert all({5 * (i // 5) + j for j in range(5)} <= some for i in some)


def test_equals_are_broken_in_favour_of_the_first():
    points = around(0, 30, 330, 180, 210)
    assert finch._links(points).col.tolist() == [1, 0, 0, 4, 3]


def test_blocks_of_rows_make_no_difference(monkeypatch):
    points = np.random.default_rng(4).normal(size=(50, 3))
    whole = partitions(points)
    for rows in (1, 7, 49, 50):
        monkeypatch.setattr(finch, "ROWS", rows)
        assert all((a == b).all() for a, b in zip(whole, partitions(points), strict=True))


@pytest.mark.full
@pytest.mark.parametrize("early_exit", [False, True])
def test_the_authors_package_finds_the_same(early_exit):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        package = pytest.importorskip("finch", reason="the authors' package, finch-clust, is not installed")
    if early_exit and version("finch-clust") > "0.2.1":
        pytest.skip("early exit is that of finch-clust 0.2.1, which later releases have changed")
    random = np.random.default_rng(5)
    for _ in range(300):
        points = random.normal(size=(int(random.integers(2, 60)), int(random.integers(2, 20))))
        if random.random() < 0.5:
            points = np.abs(points)
        theirs, _, _ = package.FINCH(points, distance="cosine", ensure_early_exit=early_exit, verbose=False)
        ours = partitions(points, early_exit)
        assert [sets(labels) for labels in ours] == [sets(column) for column in theirs.T]
