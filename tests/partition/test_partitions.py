"""Properties of every partition: nothing lost, nothing doubled, what was asked for, the same for the same seed."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fedgrid.errors import UserError
from fedgrid.loading import load, names


@st.composite
def problems(draw):
    classes = draw(st.integers(1, 12))
    labels = np.random.default_rng(draw(st.integers(0, 99))).integers(0, classes, draw(st.integers(60, 600)))
    kind = draw(st.sampled_from(names("partition")))
    common = {"clients": draw(st.integers(1, 30)), "fraction": draw(st.sampled_from([1.0, 0.5]))}
    own = {
        "dirichlet": {
            "beta": draw(st.sampled_from([0.001, 0.1, 1.0, 100.0])),
            "min_samples": draw(st.integers(0, 3)),
            "balance": draw(st.booleans()),
        },
        "pathological": {"classes": draw(st.integers(1, classes))},
    }[kind]
    return load("partition", kind)(**common, **own), labels, classes


@settings(max_examples=150, deadline=None)
@given(problems(), st.integers(0, 5))
def test_properties(problem, seed):
    partition, labels, classes = problem
    try:
        table = partition.split(labels, classes, seed)
    except UserError:  # impossible requests are tested by themselves
        assume(False)
    frame = table.to_pandas()
    assert len(frame) == partition.used(len(labels))
    assert frame["index"].is_unique
    assert (labels[frame["index"]] == frame["label"]).all()
    assert frame["client"].between(0, partition.clients - 1).all()
    train = frame[frame["split"] == "train"].groupby("client").size()
    sizes = frame.groupby("client").size()
    assert (
        abs(train.reindex(sizes.index, fill_value=0) - partition.train_share * sizes) <= 0.5
    ).all() or sizes.min() < 2
    if type(partition).__name__ == "Dirichlet":
        assert sizes.reindex(range(partition.clients), fill_value=0).min() >= partition.min_samples
    else:
        assert (frame.groupby("client")["label"].nunique() == partition.classes).all()
    assert table.equals(partition.split(labels, classes, seed))


def digits_like():
    return np.arange(3000) % 10


@pytest.mark.parametrize("kind", names("partition"))
def test_seeds_differ_and_global_generators_are_neither_read_nor_moved(kind):
    partition = load("partition", kind)(clients=8)
    np.random.seed(1)
    before = np.random.get_state()[1].copy()
    first = partition.split(digits_like(), 10, 0)
    assert (np.random.get_state()[1] == before).all()
    np.random.seed(2)
    assert first.equals(partition.split(digits_like(), 10, 0))
    assert not first.equals(partition.split(digits_like(), 10, 1))


@pytest.mark.parametrize("kind", names("partition"))
def test_another_process_gives_the_same(kind):
    code = (
        "import numpy as np; from fedgrid.loading import load;"
        f"print(load('partition', '{kind}')(clients=8).split(np.arange(3000) % 10, 10, 3)['index'].to_pylist())"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    here = load("partition", kind)(clients=8).split(digits_like(), 10, 3)["index"].to_pylist()
    assert said.strip() == str(here)


def test_large_beta_approaches_the_class_shares_and_small_beta_one_client():
    def largest_share(beta):
        partition = load("partition", "dirichlet")(clients=10, beta=beta, balance=False, min_samples=0)
        frame = partition.split(digits_like(), 10, 0).to_pandas()
        counts = frame.groupby(["label", "client"]).size().unstack(fill_value=0)
        return (counts.max(axis=1) / counts.sum(axis=1)).mean()

    assert largest_share(1e5) < 0.12
    assert largest_share(1e-4) > 0.99


def test_balance_keeps_sizes_comparable():
    def spread(balance):
        frame = load("partition", "dirichlet")(clients=10, balance=balance).split(digits_like(), 10, 0).to_pandas()
        return frame.groupby("client").size().std()

    assert spread(True) < spread(False)


@pytest.mark.parametrize(
    "kind, given, words",
    [
        ("dirichlet", {"clients": 4000}, "4000 clients"),
        ("dirichlet", {"clients": 100, "min_samples": 40}, "need 4000"),
        ("pathological", {"classes": 11}, "only 10"),
        ("pathological", {"clients": 2, "classes": 2}, "4 of 10"),
        ("pathological", {"clients": 1000, "classes": 10}, "which has only 300"),
    ],
)
def test_impossible_requests_fail_at_once(kind, given, words):
    with pytest.raises(UserError, match=words):
        load("partition", kind)(**given).split(digits_like(), 10, 0)


def test_a_client_with_one_image_trains_on_it():
    frame = load("partition", "dirichlet")(clients=5, min_samples=1).split(np.zeros(5, int), 1, 0).to_pandas()
    assert (frame["split"] == "train").all() and len(frame) == 5
