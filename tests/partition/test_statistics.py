"""What is measured on a partition, against answers by hand; published partitions, against damage."""

import hashlib
import json
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon, pdist
from toys import partition_rows

from fedgrid.errors import UserError
from fedgrid.files import write_table
from fedgrid.loading import load
from fedgrid.partition.common.publish import checked, digest_of, publish
from fedgrid.partition.common.rows import EVERYONE
from fedgrid.partition.common.statistics import domains_of_clients, statistics


def rows(*given):
    """A table of (client, split, label) or (client, split, label, domain)."""
    return partition_rows([(*row, None)[:4] for row in given])


def trained(counts):
    """A table of training rows with `counts` [clients][classes]."""
    return rows(*((i, "train", c) for i, row in enumerate(counts) for c, n in enumerate(row) for _ in range(n)))


def facts(table, clients=2, classes=2, **other):
    known = {
        "clients": clients,
        "words": "Dirichlet β=0.1, 2 clients",
        "data": "digits",
        "data_checksum": "ab" * 32,
        "classes": [f"class {c}" for c in range(classes)],
        "domains": [],
        "test": "own",
        "digest": digest_of(table),
        "spec": {},
    }
    return known | other


SMALL = rows((0, "train", 0), (0, "validation", 0), (0, "test", 1), (1, "train", 1))


def test_distances_of_many_clients_take_the_memory_of_one_number_a_pair():
    clients, table = 600, trained(np.eye(10, dtype=int)[np.arange(600) % 10])
    tracemalloc.start()
    statistics(table, clients, 10)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.5 * 8 * clients * (clients - 1) / 2


@pytest.fixture
def small(tmp_path):
    write_table(tmp_path / "small.parquet", SMALL, facts(SMALL))
    return tmp_path / "small.parquet"


def test_disjoint_clients_by_hand():
    actual = statistics(trained([[4, 0], [0, 4]]), 2, 2)
    assert actual["jensen_shannon"] == {"mean": 1, "min": 1, "max": 1}
    assert actual["earth_mover"] == {"mean": 1, "max": 1, "pairwise_mean": 2}
    assert actual["size"] == {"min": 4, "median": 4, "max": 4, "variation": 0}


def test_unequal_clients_by_hand():
    # (3/4, 1/4) and (0, 1), together (3/8, 5/8)
    actual = statistics(trained([[3, 1], [0, 4]]), 2, 2)
    assert actual["earth_mover"] == {"mean": 0.75, "max": 0.75, "pairwise_mean": 1.5}
    # (2/3, 1/3) and (0, 1), together (1/2, 1/2): the large client counts more in what is pooled, not in the mean
    actual = statistics(trained([[4, 2], [0, 2]]), 2, 2)
    assert actual["earth_mover"]["mean"] == pytest.approx((1 / 3 + 1) / 2)
    assert actual["size"] == {"min": 2, "median": 4, "max": 6, "variation": 0.5}


def test_equal_clients_are_at_distance_zero():
    actual = statistics(trained([[1, 2], [2, 4], [10, 20]]), 3, 2)
    assert actual["jensen_shannon"]["max"] == actual["earth_mover"]["pairwise_mean"] == 0
    assert actual["earth_mover"]["max"] == pytest.approx(0, abs=1e-15)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.integers(0, 9), min_size=4, max_size=4), min_size=2, max_size=6))
def test_distances_are_those_of_scipy(counts):
    if not any(map(any, counts)):
        counts[0][0] = 1
    actual = statistics(trained(counts), len(counts), 4)
    held = [row for row in counts if any(row)]
    pairs = [jensenshannon(a, b, base=2) for i, a in enumerate(held) for b in held[i + 1 :]]
    if not pairs:
        assert actual["jensen_shannon"] == {"mean": None, "min": None, "max": None}
        return
    expected = {"mean": np.mean(pairs), "min": np.min(pairs), "max": np.max(pairs)}
    # the square root of a rounding error of 1e-16 is 1e-8
    assert actual["jensen_shannon"] == pytest.approx(expected, abs=1e-7, nan_ok=False)


def test_splits_shared_rows_and_domains_are_distinguished():
    table = rows(
        (0, "train", 2, "photo"), (0, "validation", 2, "art"), (2, "train", 0, "art"), (2, "test", 1, "art"),
        (-1, "test", 0, "photo"), (-1, "test", 1, "art"),
    )  # fmt: skip
    actual = statistics(table, 4, 3)
    assert actual["images"] == {"train": 2, "validation": 1, "test": 3}
    assert actual["shared_test"] == 2
    assert actual["sizes"] == {"train": [1, 0, 1, 0], "validation": [1, 0, 0, 0], "test": [0, 0, 1, 0]}
    assert actual["counts"] == [[0, 0, 2], [0, 0, 0], [1, 0, 0], [0, 0, 0]]
    assert actual["domains"] == {"photo": [1, 0, 0, 0], "art": [1, 0, 1, 0]}
    assert actual["classes_held"] == [1, 0, 1, 0]
    assert actual["jensen_shannon"]["mean"] == 1  # of the two clients that have images
    assert actual["size"]["min"] == 0 and actual["size"]["median"] == 0.5
    assert json.loads(json.dumps(actual)) == actual


def test_all_pairs_of_a_thousand_clients():
    counts = np.random.default_rng(0).integers(0, 9, (1000, 10))
    actual, shares = statistics(trained(counts), 1000, 10), counts / counts.sum(axis=1, keepdims=True)
    expected = pdist(shares, "jensenshannon") / np.log(2) ** 0.5
    assert actual["jensen_shannon"] == pytest.approx(
        {"mean": expected.mean(), "min": expected.min(), "max": expected.max()}
    )
    assert actual["earth_mover"]["pairwise_mean"] == pytest.approx(pdist(shares, "cityblock").mean())


def test_the_digest_is_that_of_the_rows_and_nothing_else():
    def little(number):
        return number.to_bytes(8, "little", signed=True)

    table = rows((-1, "test", 3), (5, "validation", 0))
    by_hand = little(-1) + b"test".ljust(10, b"\0") + little(0) + little(3)
    by_hand += little(5) + b"validation" + little(1) + little(0)
    assert digest_of(table) == hashlib.sha256(by_hand).hexdigest()
    plain = table.set_column(1, "split", table["split"].cast(pa.string()))
    assert digest_of(plain) == digest_of(pa.concat_tables([plain[:1], plain[1:]])) == digest_of(table)
    assert digest_of(table.take([1, 0])) != digest_of(table)


def test_a_whole_partition_is_read(small):
    table, metadata = checked(small)
    assert digest_of(table) == metadata["digest"] and metadata["words"] == "Dirichlet β=0.1, 2 clients"


@pytest.mark.parametrize("name", ["client", "split", "index", "label"])
def test_changed_rows_are_detected(small, name):
    number = SMALL.column_names.index(name)
    changed = SMALL.set_column(number, SMALL.schema.field(name), SMALL[name].take([3, 2, 1, 0]))
    write_table(small, changed, facts(SMALL))
    with pytest.raises(UserError, match="rows do not match"):
        checked(small)


@pytest.mark.parametrize(
    ("table", "other", "message"),
    [
        (SMALL.drop_columns("index"), {}, "column 'index' is missing"),
        (SMALL, {"digest": None}, "lack 'digest'"),
        (SMALL, {"clients": "two"}, "lack 'clients'"),
        (SMALL, {"clients": 1}, "'client' goes beyond"),
        (SMALL, {"classes": ["one"]}, "'label' goes beyond"),
        (SMALL.set_column(1, "split", pa.array(["train", "val", "test", "test"])), {}, "unknown split 'val'"),
        (SMALL.set_column(3, "label", pa.array([0, 1, None, 1])), {}, "'label' must be whole numbers"),
    ],
)
def test_what_is_no_partition_is_refused(small, table, other, message):
    write_table(small, table, facts(SMALL) | other)
    with pytest.raises(UserError, match=message):
        checked(small)


def test_damaged_bytes_are_detected(small):
    whole = small.read_bytes()
    for cut in (0, 10, len(whole) // 2, len(whole) - 1):
        small.write_bytes(whole[:cut])
        with pytest.raises(UserError):
            checked(small)
    for place in range(0, len(whole), 3):
        small.write_bytes(whole[:place] + bytes([whole[place] ^ 255]) + whole[place + 1 :])
        try:
            table, _ = checked(small)
        except UserError:
            continue
        assert table["label"].to_pylist() == [0, 0, 1, 1]  # words and the like are not covered by the digest


def test_publishing(small, tmp_path):
    folder = tmp_path / "out"
    copy = publish(small, folder)
    assert copy.name == f"digits-dirichlet-beta-0.1-2-clients-{digest_of(SMALL)[:8]}.parquet"
    assert copy.read_bytes() == small.read_bytes()
    message = json.loads(copy.with_suffix(".json").read_text(encoding="utf-8"))
    assert message == facts(SMALL) | {"statistics": statistics(SMALL, 2, 2)}
    sums = dict(line.split("  ")[::-1] for line in (folder / "SHA256SUMS").read_text().splitlines())
    assert sums == {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in (copy, copy.with_suffix(".json"))
    }
    assert copy.name in (folder / "README.md").read_text(encoding="utf-8")
    assert publish(copy, folder) == publish(small, folder) == copy  # again changes nothing


def test_a_second_partition_joins_the_first(small, tmp_path):
    first = publish(small, tmp_path / "out")
    other = SMALL.take([3, 0, 1, 2])
    write_table(small, other, facts(other))
    second = publish(small, tmp_path / "out")
    assert first != second
    for file in (first, second):
        checked(file)
        assert file.name in (tmp_path / "out" / "SHA256SUMS").read_text()
        assert file.name in (tmp_path / "out" / "README.md").read_text(encoding="utf-8")


def test_seeds_are_distinguished_by_name(small, tmp_path):
    names = []
    for seed in (0, 1):
        write_table(small, SMALL, facts(SMALL) | {"spec": {"seed": seed}})
        names.append(publish(small, tmp_path / "out").name)
    assert names == [f"digits-dirichlet-beta-0.1-2-clients-s{seed}.parquet" for seed in (0, 1)]


def test_nothing_different_is_overwritten(small, tmp_path):
    copy = publish(small, tmp_path / "out")
    write_table(small, SMALL, facts(SMALL) | {"spec": {"beta": 7}})
    with pytest.raises(UserError, match="already exists and differs"):
        publish(small, tmp_path / "out")
    checked(copy)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "README.md").write_text("my notes")
    with pytest.raises(UserError, match="export to another folder"):
        publish(small, tmp_path / "mine")
    assert [file.name for file in (tmp_path / "mine").iterdir()] == ["README.md"]


def test_a_wrong_checksum_is_detected(small, tmp_path):
    copy = publish(small, tmp_path / "out")
    write_table(copy, SMALL, facts(SMALL) | {"words": "something else"})
    with pytest.raises(UserError, match="SHA256SUMS"):
        checked(copy)


def test_a_published_partition_says_whether_it_holds_validation_images(small, tmp_path):
    table = SMALL.filter(pa.array([True, False, True, True]))  # its dictionary of splits still names all three
    write_table(tmp_path / "without.parquet", table, facts(table))
    for file, held in (("small", True), ("without", False)):
        assert load("partition", "file")(path=str(tmp_path / f"{file}.parquet")).validated(0) is held


def test_a_client_has_the_domain_of_all_its_images():
    table = rows(
        (0, "train", 0, "red"),
        (0, "test", 1, "red"),
        (1, "train", 0, "red"),
        (1, "test", 0, "blue"),
        (2, "validation", 1, "blue"),
        (4, "train", 1, "blue"),
        (4, "train", 1, None),
        (EVERYONE, "test", 0, "blue"),
    )
    assert domains_of_clients(table, 6) == ["red", None, "blue", None, None, None]
    assert domains_of_clients(SMALL, 3) == [None, None, None]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["red", "green", None])), min_size=1, max_size=30))
def test_domains_do_not_depend_on_how_a_table_is_cut_into_pieces(pairs):
    table = rows(*((client, "train", 0, domain) for client, domain in pairs))
    held = [{domain for client, domain in pairs if client == number} for number in range(4)]
    expected = [next(iter(actual)) if len(actual) == 1 else None for actual in held]
    assert domains_of_clients(table, 4) == expected
    pieces = [rows((client, "train", 0, domain)) for client, domain in pairs]  # each with a dictionary of its own
    assert domains_of_clients(pa.concat_tables(pieces), 4) == expected
