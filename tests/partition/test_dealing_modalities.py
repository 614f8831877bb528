"""Partitions of data of two modalities: each is dealt out by itself, to as many clients."""

import numpy as np
import pytest
from dealing import COMMON, counts_of
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from studies import prepared, study_of

from fedgrid.data.common.images import MODALITIES
from fedgrid.data.common.store import Labels
from fedgrid.errors import UserError
from fedgrid.files import read_metadata, read_table
from fedgrid.loading import load
from fedgrid.partition.common.rows import EVERYONE, digest_of
from fedgrid.partition.common.statistics import domains_of_clients, statistics
from fedgrid.suite.partition import info_of

KINDS = {
    "homogeneous": {},
    "dirichlet": {"beta": 0.1, "min_samples": 2},
    "pathological": {"classes": 3, "deal": "consecutive"},
    "quantity": {"beta": 0.5, "min_samples": 2},
}


def pool(pictures, classes, train, order):
    """As many captions as pictures, of which `train` are training ones, in a random order of the samples."""
    labels, modality = np.tile(np.arange(pictures) % classes, 2), np.repeat([0, 1], pictures)
    picture = np.tile(np.arange(pictures), 2)
    mixed = np.random.default_rng(order).permutation(2 * pictures)
    mixed = mixed[np.argsort(picture[mixed] >= train, kind="stable")]
    return Labels(labels[mixed], 2 * train, classes, modality=modality[mixed], modalities=MODALITIES)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60, deadline=None)
@given(
    st.fixed_dictionaries(COMMON | {"clients": st.sampled_from([2, 4, 8])}),
    st.integers(120, 300),
    st.integers(2, 6),
    st.integers(0, 5),
)
def test_properties(kind, chosen, pictures, classes, seed):
    everything = pool(pictures, classes, pictures * 2 // 3, seed)
    partition = load("partition", kind)(**chosen, **KINDS[kind])
    try:
        partition.check_feasible(info_of(everything), [seed])
    except UserError:  # impossible requests are tested by themselves
        assume(False)
    table = partition.split(everything, seed)
    frame = table.to_pandas()
    assert frame["index"].is_unique
    assert (everything.labels[frame["index"]] == frame["label"]).all()
    modality = everything.modality[frame["index"].to_numpy()]
    assert (np.array(MODALITIES)[modality] == frame["domain"]).all()
    own = (frame["client"] != EVERYONE).to_numpy()
    half = partition.clients // 2
    assert (modality[own] == frame["client"][own] // half).all()  # the first half are visual clients
    assert domains_of_clients(table, partition.clients) == ["visual"] * half + ["textual"] * half
    shared = frame[~own]
    assert (shared["split"] == "test").all() and (shared["index"] >= everything.train).all()
    tested = pictures - pictures * 2 // 3
    if partition.test != "own":
        assert np.bincount(modality[~own]).tolist() == [partition.used(tested)] * 2
    check_expected(partition, everything, frame, seed)
    assert table.equals(partition.split(everything, seed))


def check_expected(partition, everything, frame, seed):
    actual, clients = partition.expected(info_of(everything), seed), partition.clients
    own = frame[frame["client"] != EVERYONE]
    assert actual.clients == clients
    if partition.keep_fraction == 1 or not partition.scarce:
        assert abs(actual.train - (own["split"] == "train").sum()) <= 2 * clients
    if partition.test != "own":
        assert actual.test == clients * (frame["client"] == EVERYONE).sum() / 2


def test_modalities_are_dealt_out_independently():
    everything = pool(400, 8, 400, 0)
    actual = counts_of(load("partition", "dirichlet")(clients=8, beta=0.1).split(everything, 0), 8, 8)
    assert actual[:4].sum() == actual[4:].sum() == 400
    assert not (actual[:4] == actual[4:]).all()


def test_each_modality_has_all_consecutive_classes():
    everything = pool(400, 8, 400, 0)
    partition = load("partition", "pathological")(clients=8, classes=2, deal="consecutive")
    held = [np.flatnonzero(row).tolist() for row in counts_of(partition.split(everything, 0), 8, 8)]
    assert held == [[0, 1], [2, 3], [4, 5], [6, 7]] * 2


def test_the_same_pictures_are_tested_in_both_modalities():
    labels, modality = np.tile(np.arange(60) % 3, 4), np.tile(np.repeat([0, 1], 60), 2)
    everything = Labels(labels, 120, 3, modality=modality, modalities=MODALITIES)
    table = load("partition", "homogeneous")(clients=4, test="official", fraction=0.3).split(everything, 0)
    frame = table.to_pandas()
    index = frame[frame["client"] == EVERYONE]["index"].to_numpy()
    assert (index[:18] + 60 == index[18:]).all()


@pytest.mark.parametrize(
    "kind, given_, words",
    [
        ("homogeneous", {"clients": 7}, "^partition.clients: 7 is not a multiple of the data set's 2 modalities, vis"),
        ("dirichlet", {"clients": 8, "min_samples": 51}, "4 clients with at least 51 images each need 204 images"),
        ("pathological", {"clients": 8, "classes": 1}, "4 clients with 1 classes each cover 4 of 8"),
        ("homogeneous", {"clients": 8, "keep_fraction": 0.5, "scarce": 9}, "only 8 clients, not 9"),
        ("domains", {}, "needs a data set with domains"),
    ],
)
def test_impossible_requests_fail_before_anything_is_built_and_then_too(kind, given_, words):
    everything, partition = pool(200, 8, 200, 0), load("partition", kind)(**given_)
    with pytest.raises(UserError, match=words):
        partition.check_feasible(info_of(everything), [0])
    with pytest.raises(UserError, match=words):
        partition.split(everything, 0)


def test_scarce_clients_are_the_last_ones_of_all():
    everything = pool(400, 8, 400, 0)
    whole, scarce = (
        load("partition", "homogeneous")(clients=8, test="official", **given_).split(everything, 0)
        for given_ in ({}, {"keep_fraction": 0.1, "scarce": 5})
    )
    sizes = [counts_of(table, 8, 8).sum(axis=1) for table in (whole, scarce)]
    assert sizes[1].tolist() == [100] * 3 + [10] * 5 and sizes[0].tolist() == [100] * 8


def test_statistics_say_which_clients_have_which_modality():
    table = load("partition", "homogeneous")(clients=4, test="official").split(pool(80, 4, 40, 0), 0)
    assert statistics(table, 4, 4)["domains"] == {"visual": [20, 20, 0, 0], "textual": [0, 0, 20, 20]}


STUDY = """
name: s
data: {name: attributes, train_images: 40, test_images: 10, class_count: 4}
heterogeneity: [{partition: dirichlet, clients: 4, min_samples: 2, test: weighted}]
methods: [local]
"""


def test_a_published_partition_deals_out_the_same(tmp_path, two_modalities):
    built = prepared(study_of(STUDY, results=str(tmp_path)))
    (first,) = built.partitions.values()
    again = prepared(study_of(STUDY, results=str(tmp_path), heterogeneity=[{"partition": f"file:{first.file}"}]))
    (other,) = again.partitions.values()
    rows = [read_table(planned.file)[0] for planned in (first, other)]
    assert first.key != other.key and digest_of(rows[0]) == digest_of(rows[1])
    assert read_metadata(other.file)["domains"] == list(MODALITIES)
    kinds = [load("partition", planned.component.name)(**planned.component.settings) for planned in (first, other)]
    known = load("data", "attributes")(train_images=40, test_images=10, class_count=4).info(None)
    expected = [kind.expected(known, 0) for kind in kinds]
    assert [one.test for one in expected] == [40, 40] and expected[1].clients == 4
