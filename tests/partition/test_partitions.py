"""Properties of every partition: nothing lost, nothing doubled, what was asked for, the same for the same seed."""

import json
import math
import subprocess
import sys

import numpy as np
import pytest
from dealing import COMMON, counts_of
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import chi2
from studies import plan_of, prepared, study_of
from tiers import every_third

from fedgrid.data.common.images import DatasetInfo
from fedgrid.data.common.store import Labels
from fedgrid.errors import UserError
from fedgrid.loading import load, names
from fedgrid.partition.common.rows import EVERYONE, digest_of
from fedgrid.partition.common.sizes import apportioned, levelled
from fedgrid.suite.partition import DOMAINS, info_of

KINDS = [name for name in names("partition") if name != "natural" and not load("partition", name).from_file]
"Kinds that deal images out anew; natural clients have their images already, and tests of their own."


def pool(labels, classes, train=None, domains=None):
    names_ = DOMAINS[: domains.max() + 1] if domains is not None else ()
    return Labels(np.asarray(labels), len(labels) if train is None else train, classes, domains, names_)


@st.composite
def pools(draw):
    classes, images = draw(st.integers(1, 12)), draw(st.integers(60, 600))
    random = np.random.default_rng(draw(st.integers(0, 99)))
    labels, domains = random.integers(0, classes, images), random.integers(0, len(DOMAINS), images)
    return pool(labels, classes, draw(st.integers(40, images)), domains)


def own_settings(kind, classes):
    least = st.integers(0, 3)
    return {
        "dirichlet": {
            "beta": st.sampled_from([1e-4, 0.1, 1.0, 100.0]),
            "min_samples": least,
            "balance": st.booleans(),
            "by": st.sampled_from(["class", "client"]),
        },
        "pathological": {
            "classes": st.integers(1, classes),
            "deal": st.sampled_from(["classes", "consecutive", "shards"]),
            "balance": st.booleans(),
        },
        "disparity": {
            "clients": st.just(2),
            "classes": st.integers(1, classes),
            "disparity": st.sampled_from([0.0, 0.25, 0.5, 1.0]),
            "parts": st.sampled_from(["equal", "different", "mixed"]),
            "larger": st.sampled_from([0.5, 0.8]),
        },
        "homogeneous": {},
        "quantity": {"beta": st.sampled_from([1e-4, 0.5, 100.0]), "min_samples": least},
        "domains": {
            "clients": st.sampled_from([None, 3, 6]),
            "beta": st.sampled_from([None, 1e-3, 0.5]),
            "per_class": st.sampled_from([None, 2]),
            "min_samples": least,
        },
    }[kind]


def drawn(data, kind, classes):
    return load("partition", kind)(**data.draw(st.fixed_dictionaries(COMMON | own_settings(kind, classes))))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=200, deadline=None)
@given(data=st.data(), everything=pools(), seed=st.integers(0, 5))
def test_properties(kind, data, everything, seed):
    partition = drawn(data, kind, everything.classes)
    try:
        table = partition.split(everything, seed)
    except UserError:  # impossible requests are tested by themselves
        assume(False)
    frame = table.to_pandas()
    assert (everything.labels[frame["index"]] == frame["label"]).all()
    assert (np.array(DOMAINS)[everything.domains[frame["index"]]] == frame["domain"]).all()
    assert frame["index"].is_unique  # so training, validation and test images are disjoint as well
    shared, own = frame[frame["client"] == EVERYONE], frame[frame["client"] != EVERYONE]
    dealt = len(everything.labels) if partition.test == "own" else everything.train
    assert (own["index"] < dealt).all()
    assert partition.validated(seed) or not (own["split"] == "validation").any()
    if partition.test != "own":
        assert shared["index"].between(everything.train, len(everything.labels) - 1).all()
        assert shared["index"].is_monotonic_increasing
        assert len(shared) == math.ceil(partition.fraction * (len(everything.labels) - everything.train))
        assert (shared["split"] == "test").all() and not (own["split"] == "test").any()
    else:
        assert not len(shared)
    check_numbers(partition, own, dealt, everything)
    assert table.equals(partition.split(everything, seed))


def check_numbers(partition, own, dealt, everything):
    """How many images each client has, as the policy says."""
    clients = partition.count(len(DOMAINS))
    client, split = own["client"].to_numpy(), own["split"].to_numpy()
    sizes = np.bincount(client, minlength=clients)
    scarce = range(clients - (partition.scarce or clients), clients) if partition.keep_fraction < 1 else range(0)
    if not scarce and type(partition).__name__ not in ("Disparity", "Domains"):
        assert sizes.sum() == partition.used(dealt)
    if not scarce and hasattr(partition, "min_samples"):
        assert sizes.min() >= partition.min_samples
    train, validation = (np.bincount(client[split == name], minlength=clients) for name in ("train", "validation"))
    wanted = partition.train_share * sizes if partition.test == "own" else sizes
    assert ((abs(train + validation - wanted) <= 0.5) | (sizes < 2)).all()
    assert ((abs(validation - partition.validation * (train + validation)) <= 0.5) | (train == 1)).all()
    if type(partition).__name__ == "Domains":
        assert (own["domain"] == np.array(DOMAINS)[client % len(DOMAINS)]).all()
    if type(partition).__name__ == "Pathological" and partition.deal != "shards" and not scarce:
        assert (own.groupby("client")["label"].nunique() == partition.classes).all()
    if type(partition).__name__ == "Homogeneous" and not scarce:
        assert sizes.max() - sizes.min() <= 1


@pytest.mark.parametrize("kind", every_third(KINDS))
@settings(max_examples=200, deadline=None)
@given(data=st.data(), everything=pools(), seed=st.integers(0, 5))
def test_numbers_of_images_are_expected_as_they_are_dealt_out(kind, data, everything, seed):
    """But for rounding: of every client's number, which need not be an even share."""
    partition = drawn(data, kind, everything.classes)
    expected = partition.expected(info_of(everything), seed)
    try:
        frame = partition.split(everything, seed).to_pandas()
    except UserError:
        assume(False)
    clients = expected.clients
    assert clients == partition.count(len(everything.domain_names))
    shared, own = frame[frame["client"] == EVERYONE], frame[frame["client"] != EVERYONE]
    train, validation, test = ((own["split"] == name).sum() for name in ("train", "validation", "test"))
    if partition.test != "own":
        assert expected.test == clients * len(shared)
    if kind == "domains":  # how large the domains are stands in the labels: there may be fewer images
        most = expected.train + expected.validation + clients * (1 + partition.min_samples)
        assert partition.keep_fraction < 1 or train + validation <= most
        return
    if kind == "disparity":  # so does how large its classes are; a balanced data set is tested by itself
        return
    if kind == "homogeneous":
        assert expected[1:3] == (train, validation)
    elif partition.keep_fraction == 1 or not partition.scarce:
        off = abs(expected.train - train), abs(expected.validation - validation)
        assert max(off) <= 2 * clients  # what a client keeps is rounded, and its parts are
    if partition.test == "own" and (kind == "homogeneous" or partition.keep_fraction == 1):
        assert abs(expected.test - test) <= (0 if kind == "homogeneous" else clients)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("test", ["own", "official", "weighted"])
def test_what_is_expected_of_a_few_scarce_clients_is_so_on_average(kind, test):
    settings_ = settings_of(kind) | {"test": test, "validation": 0.2, "keep_fraction": 0.1}
    settings_["scarce"] = 1 if kind == "disparity" else 3
    partition, everything = load("partition", kind)(**settings_), balanced()
    splits = [partition.split(everything, seed)["split"].to_pylist() for seed in range(30)]
    expected = partition.expected(info_of(everything), 0)
    for name in ("train", "validation"):
        mean = sum(split.count(name) for split in splits) / len(splits)
        assert getattr(expected, name) == pytest.approx(mean, rel=0.1)


EXACT = {f"at most {n} of a class": ("domains", {"per_class": n}) for n in (None, 20)}
EXACT |= {p: ("disparity", {"parts": p, "test": "own", "validation": 0.2}) for p in ("equal", "different", "mixed")}


@pytest.mark.parametrize(("kind", "given_"), EXACT.values(), ids=EXACT)
def test_of_balanced_data_as_many_images_are_dealt_out_as_expected(kind, given_):
    partition = load("partition", kind)(**given_)
    split = partition.split(balanced(), 0)["split"].to_pylist()
    assert partition.expected(info_of(balanced()), 0)[1:4] == tuple(map(split.count, ("train", "validation", "test")))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 12), min_size=1, max_size=9), st.data())
def test_levelling_is_what_moving_one_by_one_would_do(sizes, data):
    least = data.draw(st.integers(0, sum(sizes) // len(sizes)))
    slow = np.array(sizes)
    while slow.min() < least:
        slow[slow.argmax()] -= 1
        slow[slow.argmin()] += 1
    fast = levelled(np.array(sizes), least)
    assert sorted(fast) == sorted(slow)
    assert ((fast >= np.array(sizes)) | (fast >= least)).all()


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=9).filter(lambda shares: sum(shares) > 0), st.integers(0, 999))
def test_apportioned_numbers_add_up_and_are_off_by_less_than_one(shares, total):
    numbers = apportioned(np.array(shares), total)
    assert numbers.sum() == total and numbers.min() >= 0
    assert (abs(numbers - np.array(shares) / sum(shares) * total) < 1 + 1e-6).all()


def balanced(images=3000, classes=10, domains=3):
    number = np.arange(images)
    return pool(number % classes, classes, images // 2, number // classes % domains)


def settings_of(kind):
    return {"clients": {"disparity": 2, "domains": 6}.get(kind, 8)}


GOLDEN = {
    "disparity": "208e25d32f50be2aba49703931162a1bfd19476138646ff705caf6c150e551d8",
    "dirichlet": "58c01e7c78d76be8b0c5b9bc62d5a68c16de6017be18891e8c0763b9f9dc7f70",
    "domains": "b97a8502922876ee1998a166bf43c34b8156daa82183e6bbd525504926fc4ed3",
    "homogeneous": "979dbc0887919cc4d11e50789b1b883beb05c62d91f8f4ad8d372d4633aeacbb",
    "pathological": "82b4aa310789748c2ef1f3c059e5289e6390b86573baebd0bf54cd52f7bffeca",
    "quantity": "e60b7c1196609d4a11dfcebb1eb662a05d38fdae076b4dc74148ee4533ea8523",
}
"Digests of one partition of each kind: results of years ago stay comparable only if these stay."


@pytest.fixture(scope="module")
def elsewhere():
    """Digests of the same partitions, by kind, as another process makes them."""
    code = (
        "import numpy as np; from fedgrid.loading import load; from fedgrid.data.common.store import Labels\n"
        "from fedgrid.partition.common.rows import digest_of\n"
        "n = np.arange(3000); pool = Labels(n % 10, 1500, 10, n // 10 % 3, ('red', 'green', 'blue'))\n"
        f"for kind, settings in {[(kind, settings_of(kind)) for kind in KINDS]}:\n"
        "    print(kind, digest_of(load('partition', kind)(**settings).split(pool, 3)))"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    return dict(line.split() for line in output.splitlines())


@pytest.mark.parametrize("kind", KINDS)
def test_another_process_gives_the_same_and_so_does_every_version(kind, elsewhere):
    assert elsewhere[kind] == digest_of(load("partition", kind)(**settings_of(kind)).split(balanced(), 3))
    assert elsewhere[kind] == GOLDEN.get(kind)


@pytest.mark.parametrize("by", ["class", "client"])
def test_large_beta_approaches_the_class_shares(by):
    random = np.random.default_rng(0)
    labels = random.choice(10, size=20_000, p=np.arange(1, 11) / 55)
    partition = load("partition", "dirichlet")(clients=10, beta=1e6, by=by, balance=by == "client", min_samples=0)
    counts = counts_of(partition.split(pool(labels, 10), 0), 10, 10)
    if by == "client":  # each client draws equal shares of the classes; all images are dealt out all the same
        assert counts.sum(axis=1).max() - counts.sum(axis=1).min() <= 10
    expected = counts.sum(axis=1, keepdims=True) * counts.sum(axis=0) / counts.sum()
    statistic = ((counts - expected) ** 2 / expected).sum()
    assert statistic < chi2.ppf(0.999, df=81)


def test_small_beta_leaves_one_dominant_client_a_class():
    partition = load("partition", "dirichlet")(clients=10, beta=1e-4, balance=False, min_samples=0)
    counts = counts_of(partition.split(balanced(), 0), 10, 10)
    assert (counts.max(axis=0) / counts.sum(axis=0)).mean() > 0.99


def test_small_beta_leaves_one_dominant_class_a_client():
    partition = load("partition", "dirichlet")(clients=60, beta=1e-4, by="client", balance=False, min_samples=0)
    counts = counts_of(partition.split(balanced(), 0), 60, 10)  # so many clients draw every class at least once
    assert (counts.max(axis=1) / counts.sum(axis=1)).mean() > 0.99


@settings(max_examples=100, deadline=None)
@given(st.data(), st.integers(1, 12), st.booleans(), st.integers(0, 5))
def test_consecutive_classes_are_dealt_out_in_their_order(data, classes, balance, seed):
    k = data.draw(st.integers(1, classes))
    clients = data.draw(st.integers(-(-classes // k), 30))
    partition = load("partition", "pathological")(clients=clients, classes=k, deal="consecutive", balance=balance)
    counts = counts_of(partition.split(balanced(classes=classes), seed), clients, classes)
    for client in range(clients):
        assert set(np.flatnonzero(counts[client])) == {(client * k + j) % classes for j in range(k)}
    assert counts.sum(axis=0).tolist() == np.bincount(balanced(classes=classes).labels).tolist()
    holders = (counts > 0).sum(axis=0)
    assert holders.tolist() == [clients * k // classes + (c < clients * k % classes) for c in range(classes)]
    if balance:  # the holders of a class have equal parts of it
        assert all(part.max() - part.min() <= 1 for part in (column[column > 0] for column in counts.T))


def test_pairs_of_classes_as_in_the_code_of_fedsac():
    counts = counts_of(load("partition", "pathological")(clients=7, deal="consecutive").split(balanced(), 0), 7, 10)
    pairs = [np.flatnonzero(row).tolist() for row in counts]
    assert pairs == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [0, 1], [2, 3]]
    assert counts.max(axis=0).tolist() == [150] * 4 + [300] * 6


def held_by_two(disparity, seed=0, **given_):
    """The index of every image that each of the two clients trains on, and its numbers of images by class [2, 10]."""
    partition = load("partition", "disparity")(clients=2, disparity=disparity, test="official", **given_)
    table = partition.split(pool(np.arange(6000) % 10, 10, 5000), seed)
    frame = table.to_pandas()
    return [set(frame.loc[frame["client"] == i, "index"]) for i in (0, 1)], counts_of(table, 2, 10)


@pytest.mark.parametrize(
    "parts, first, second", [("equal", 1000, 1000), ("different", 1600, 400), ("mixed", 1000, 1000)]
)
def test_disparity_changes_what_is_shared_and_not_how_much_is_held(parts, first, second):
    (start, _), _ = held_by_two(0, parts=parts)
    for alone, disparity in enumerate((0, 0.25, 0.5, 0.75, 1)):
        (mine, _), counts = held_by_two(disparity, parts=parts)
        assert mine == start  # the first client stays as it is
        assert counts.sum(axis=1).tolist() == [first, second]
        held = counts > 0
        assert held.sum(axis=1).tolist() == [4, 4] and (held[0] & held[1]).sum() == 4 - alone


def test_mixed_sizes_take_turns():
    _, counts = held_by_two(0, parts="mixed", larger=0.9)
    assert sorted(counts[0]) == [0] * 6 + [50, 50, 450, 450]
    assert (counts.sum(axis=0)[counts[0] > 0] == 500).all()


def test_a_disparity_may_have_two_digits():
    _, counts = held_by_two(0.33, classes=3)
    assert (counts > 0).all(axis=0).sum() == 2


def test_balance_keeps_sizes_comparable():
    def spread(balance):
        frame = load("partition", "dirichlet")(clients=10, balance=balance).split(balanced(), 0).to_pandas()
        return frame.groupby("client").size().std()

    assert spread(True) < spread(False)


def test_scarce_clients_keep_their_share_and_their_classes():
    whole = load("partition", "dirichlet")(clients=8, beta=0.5)
    scarce = load("partition", "dirichlet")(clients=8, beta=0.5, keep_fraction=0.1, scarce=3)
    before, after = (counts_of(p.split(balanced(), 0), 8, 10) for p in (whole, scarce))
    assert (after[:5] == before[:5]).all()
    assert (abs(after[5:].sum(axis=1) - 0.1 * before[5:].sum(axis=1)) <= 0.5).all()
    assert (abs(after[5:] - 0.1 * before[5:]) <= 1).all()


def test_domains_balanced_are_alike_in_all_but_the_domain():
    random = np.random.default_rng(0)
    domains = random.choice(3, 3000, p=[0.6, 0.3, 0.1])
    everything = pool(random.integers(0, 10, 3000), 10, domains=domains)
    counts = counts_of(load("partition", "domains")().split(everything, 0), 3, 10)
    assert (counts == counts[0]).all() and counts.sum() > 0
    least = [np.bincount(everything.labels[domains == d], minlength=10) for d in range(3)]
    assert (counts[0] == np.min(least, axis=0)).all()
    uneven = counts_of(load("partition", "domains")(beta=0.5).split(everything, 0), 3, 10)
    assert uneven.sum(axis=1).std() > 0 and not (uneven == uneven[0]).all()


@pytest.mark.parametrize(
    "kind, given_, words",
    [
        ("dirichlet", {"clients": 4000}, "4000 clients"),
        ("dirichlet", {"clients": 100, "min_samples": 40}, "need 4000 images, there are 3000; at most 30 each, or 75"),
        ("dirichlet", {"clients": 4, "keep_fraction": 0.1, "scarce": 5}, "only 4 clients, not 5"),
        ("quantity", {"clients": 100, "min_samples": 40}, "need 4000"),
        ("pathological", {"classes": 11}, "only 10"),
        ("pathological", {"clients": 2, "classes": 2}, "4 of 10"),
        ("pathological", {"classes": 11, "deal": "consecutive"}, "only 10"),
        ("pathological", {"clients": 3, "classes": 3, "deal": "consecutive"}, "9 of 10"),
        ("pathological", {"clients": 1000, "classes": 10, "deal": "consecutive"}, "which has only 300"),
        ("pathological", {"clients": 1000, "classes": 10}, "which has only 300"),
        ("pathological", {"clients": 1000, "classes": 10, "deal": "shards"}, "at least 10000 images"),
        ("disparity", {"clients": 2, "disparity": 0.3}, "0.3 of 4 classes is not a whole number; take 0.25 or 0.5"),
        ("disparity", {"clients": 2, "classes": 6, "disparity": 1}, "need 12 classes, but the data set has only 10"),
        ("disparity", {"clients": 2, "classes": 3, "disparity": 0, "parts": "mixed"}, "3 is odd"),
        ("domains", {"clients": 4}, "not a multiple of the data set's 3 domains"),
        ("domains", {"min_samples": 1001}, "only 1000 images of domain"),
    ],
)
def test_impossible_requests_fail_at_once(kind, given_, words):
    with pytest.raises(UserError, match=words):
        load("partition", kind)(**given_).split(balanced(), 0)


@pytest.mark.parametrize(
    "kind, given_, words",
    [
        ("dirichlet", {"test": "official"}, "needs a published test part"),
        ("domains", {}, "needs a data set with domains"),
        ("dirichlet", {"clients": 200}, "need 2000 images, there are 1797"),
        ("file", {}, "needs a path"),
    ],
)
def test_impossible_plans_fail_before_anything_is_built(kind, given_, words):
    info = DatasetInfo({"train": 1797, "test": 0}, (8, 8, 1), tuple("0123456789"))
    with pytest.raises(UserError, match=words):
        load("partition", kind)(**given_).check_feasible(info, [0])


@settings(max_examples=100, deadline=None)
@given(everything=pools(), seed=st.integers(0, 5), fraction=st.floats(0.001, 1, exclude_min=True))
def test_a_fraction_of_the_shared_test_images_is_the_same_for_every_kind(everything, seed, fraction):
    given_ = {"clients": 1, "test": "official", "fraction": fraction}
    partitions = load("partition", "homogeneous")(**given_), load("partition", "quantity")(min_samples=0, **given_)
    rows = [partition.split(everything, seed).to_pandas() for partition in partitions]
    first, other = (frame[frame["client"] == EVERYONE].reset_index(drop=True) for frame in rows)
    assert first.equals(other)
    assert bool(len(first)) == (everything.train < len(everything.labels))


def test_a_fraction_of_the_shared_test_images_is_drawn_at_random():
    def shared(seed):
        frame = load("partition", "homogeneous")(clients=2, test="official", fraction=0.2).split(balanced(), seed)
        frame = frame.to_pandas()
        return frame[frame["client"] == EVERYONE]["index"].to_numpy()

    assert len(shared(0)) == 300 and not (shared(0) == shared(1)).all()
    halves = np.mean([(shared(seed) < 2250).mean() for seed in range(20)])  # of 6,000 draws
    assert abs(halves - 0.5) < 4 * 0.5 / math.sqrt(6000)


@pytest.mark.parametrize("kind", KINDS)
def test_training_images_do_not_depend_on_how_many_test_images_there_are(kind):
    partition = load("partition", kind)(**settings_of(kind), test="official", fraction=0.3)
    longer = pool(np.arange(3300) % 10, 10, 1500, np.arange(3300) // 10 % 3)
    first, other = (partition.split(one, 0).to_pandas() for one in (balanced(), longer))
    assert first[first["client"] != EVERYONE].equals(other[other["client"] != EVERYONE])
    assert (first["client"] == EVERYONE).sum() == 450 and (other["client"] == EVERYONE).sum() == 540


def test_the_sentence_says_what_share_is_tested():
    def output(**given_):
        return load("partition", "dirichlet")(clients=4, **given_).sentence()

    assert output(fraction=0.1) == "Dirichlet β=0.1, 4 clients, 0.1 of the images"
    assert output(test="official") == "Dirichlet β=0.1, 4 clients, official test images"
    both = "Dirichlet β=0.1, 4 clients, 0.1 of the images, 0.1 of the official test images"
    assert output(fraction=0.1, test="official") == both
    assert output(fraction=0.1, test="weighted") == f"{both} weighted by class"


def test_a_client_with_one_image_trains_on_it():
    everything = pool(np.zeros(5, int), 1)
    frame = load("partition", "dirichlet")(clients=5, min_samples=1).split(everything, 0).to_pandas()
    assert (frame["split"] == "train").all() and len(frame) == 5


def test_a_partition_as_a_command_is_written_again_byte_for_byte(tmp_path):
    study = study_of(results=str(tmp_path), heterogeneity=[{"partition": "dirichlet", "clients": 20}], seeds=[0])
    (planned,) = prepared(study).partitions.values()
    files = planned.file, planned.file.with_suffix(".json")
    first = [file.read_bytes() for file in files]
    for file in files:
        file.unlink()
    command = [sys.executable, "-m", "fedgrid.jobs.partition", str(plan_of(study)), planned.key, str(planned.seed)]
    subprocess.run(command, check=True)
    assert [file.read_bytes() for file in files] == first
    beside = json.loads(first[1])
    assert beside["clients"] == 20 and beside["statistics"]["images"]["train"] > 1300
