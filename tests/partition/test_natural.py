"""Natural clients: whose images they are stays as it is in the data."""

import json

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from studies import prepared, study_of, trained

from benchmarks.numerics.copies import write_rows
from fedgrid.cli.main import main
from fedgrid.data.common.images import DatasetInfo
from fedgrid.data.common.store import Labels
from fedgrid.errors import UserError
from fedgrid.files import read_metadata, read_table, write_table
from fedgrid.jobs.partition import untested_sentence
from fedgrid.partition.common.rows import EVERYONE, digest_of
from fedgrid.partition.file import File
from fedgrid.partition.natural import Natural
from fedgrid.suite.partition import DOMAINS, POOL, info_of

WRITERS = ("ann", "bob", "cem", "dee")
SMALL = Labels(
    np.array([0, 1, 0, 1, 0, 1, 0, 1, 0, 1]),
    7,
    2,
    kept={"writer": np.array([0, 0, 1, 0, 1, 0, 2, 1, 0, 3])},
    kept_names={"writer": WRITERS},
)
"In the training part ann has four images, bob two and cem one; in the test part ann and bob have one, and dee has one."


def writers_of(pool, frame):
    return np.array(pool.kept_names["writer"])[pool.kept["writer"][frame["index"]]]


def split(pool=SMALL, seed=0, **changes):
    """The rows of each client by the client's name, and what the partition says of itself."""
    kind = Natural(**changes)
    frame, about = kind.split(pool, seed).to_pandas(), kind.about(pool, seed)
    names = {client: " ".join(values) for client, values in enumerate(about["names"])} | {EVERYONE: "all"}
    rows = frame.groupby([frame["client"].map(names), "split"], observed=True)["index"].agg(list)
    return rows.to_dict(), about


def test_the_published_split_by_hand():
    rows, about = split(test="published")
    assert rows == {
        ("ann", "train"): [0, 1, 3, 5],
        ("ann", "test"): [8],
        ("bob", "train"): [2, 4],
        ("bob", "test"): [7],
        ("cem", "train"): [6],
    }
    assert (about["clients"], about["test"], about["untested"]) == (3, "own", 1)
    assert untested_sentence(about) == "1 of 3 clients have no test images: they train and are not scored"
    assert not untested_sentence(split()[1])


def test_the_official_test_part_is_everyones():
    rows, _ = split(test="official", clients=2, min_samples=2)
    assert rows == {("ann", "train"): [0, 1, 3, 5], ("bob", "train"): [2, 4], ("all", "test"): [7, 8, 9]}


def test_own_test_images_are_of_both_parts():
    rows, about = split(train_share=0.5)
    held = {name: sorted(rows[name, "train"] + rows.get((name, "test"), [])) for name in WRITERS}
    assert held == {"ann": [0, 1, 3, 5, 8], "bob": [2, 4, 7], "cem": [6], "dee": [9]}
    assert about["clients"] == 4 and {len(rows[name, "train"]) for name in ("cem", "dee")} == {1}
    assert ("cem", "test") not in rows, "it trains on its only image"


def test_several_values_a_client():
    rows, about = split(values_per_client=3)
    assert sorted(map(len, about["names"])) == [1, 3] and len(about["names"][1]) == 1
    assert sorted(index for indices in rows.values() for index in indices) == [*range(10)]


def test_clients_are_numbered_as_they_are_drawn():
    names = [split(seed=seed)[1]["names"] for seed in range(6)]
    assert all(sorted(of_seed) == [[writer] for writer in WRITERS] for of_seed in names)
    assert names[0] == split(seed=0)[1]["names"] and len(set(map(str, names))) > 2
    fewer = split(clients=2)[1]["names"]
    assert fewer == names[0][:2], "fewer clients are the first ones of all"
    assert split(fraction=0.5, min_samples=3)[1]["names"] == split(min_samples=3)[1]["names"]


def test_domains_may_be_clients():
    frame = Natural(by="domain").split(POOL, 0).to_pandas()
    assert frame.groupby("client")["domain"].nunique().tolist() == [1, 1, 1]
    assert sorted(map(str, Natural(by="domain").about(POOL, 0)["names"])) == ["['blue']", "['green']", "['red']"]


def test_the_partition_of_every_version():
    assert digest_of(Natural(clients=8, min_samples=20).split(POOL, 3)) == (
        "75f9ccb61b95594a21ed64fe83178a171e34f9786aeb3754490bae84eb707531"
    )


@st.composite
def pools(draw):
    images, writers = draw(st.integers(30, 300)), draw(st.integers(1, 25))
    random = np.random.default_rng(draw(st.integers(0, 99)))
    kept = np.concatenate([np.arange(min(writers, images)), random.integers(0, writers, max(images - writers, 0))])
    names = tuple(f"{number:02}" for number in range(kept.max() + 1))
    labels, train = random.integers(0, 4, images), draw(st.integers(20, images))
    return Labels(labels, train, 4, kept={"writer": random.permutation(kept)}, kept_names={"writer": names})


@settings(max_examples=200, deadline=None)
@given(
    everything=pools(),
    seed=st.integers(0, 5),
    chosen=st.fixed_dictionaries(
        {
            "clients": st.sampled_from([None, 1, 4]),
            "values_per_client": st.sampled_from([1, 1, 3]),
            "min_samples": st.sampled_from([0, 1, 5]),
            "test": st.sampled_from(["own", "published", "official", "weighted"]),
            "validation": st.sampled_from([0.0, 0.2]),
            "fraction": st.sampled_from([1.0, 0.5]),
            "keep_fraction": st.sampled_from([1.0, 0.3]),
            "scarce": st.sampled_from([None, 1]),
        }
    ),
)
def test_properties(everything, seed, chosen):
    kind = Natural(**chosen)
    try:
        table, about = kind.split(everything, seed), kind.about(everything, seed)
    except UserError:  # impossible requests are tested by themselves
        assume(False)
    frame = table.to_pandas()
    own, shared = frame[frame["client"] != EVERYONE], frame[frame["client"] == EVERYONE]
    assert frame["index"].is_unique and own["client"].is_monotonic_increasing
    names, writers = about["names"], writers_of(everything, own)
    assert len(names) == about["clients"] and sum(map(len, names)) == len({value for of in names for value in of})
    assert all(writer in names[client] for writer, client in zip(writers, own["client"], strict=True))
    assert shared.empty == (kind.tested(seed) == "own" or everything.train == len(everything.labels))
    if kind.test != "own":
        assert ((own["index"] >= everything.train) == (own["split"] == "test")).all()
    if kind.test == "published":
        tested = own.loc[own["split"] == "test", "client"].nunique()
        assert about["untested"] == about["clients"] - tested
    drawn = np.isin(writers_of(everything, {"index": np.arange(len(everything.labels))}), np.concatenate(names))
    dealt = len(drawn) if kind.test in ("own", "published") else everything.train
    if kind.fraction == kind.keep_fraction == 1:
        assert sorted(own["index"]) == np.flatnonzero(drawn[:dealt]).tolist(), "no image of a client is left out"
    assert table.equals(kind.split(everything, seed))


def test_numbers_that_are_expected():
    for test in ("own", "published", "official"):
        kind = Natural(clients=5, test=test, validation=0.2)
        actual = kind.split(POOL, 0).to_pandas()
        shared = int((actual["client"] == EVERYONE).sum())
        counts = [int((actual["split"] == name).sum()) for name in ("train", "validation", "test")]
        counts[2] += 4 * shared
        expected = kind.expected(info_of(POOL), 0)
        assert expected.clients == 5 and np.allclose(expected[1:4], counts, rtol=0.15), test


INFO = DatasetInfo({"train": 70, "test": 30}, (2, 2, 1), ("a", "b"), kept={"writer": 4})


@pytest.mark.parametrize(
    "changes, info, words",
    [
        ({}, {"kept": {}}, "keep one with the data, as in {name: table, path: …, keep: writer_id}"),
        ({"by": "hospital"}, {"kept": {}}, "keep: hospital}"),
        ({}, {"kept": {}, "domains": ("x", "y")}, "or use `by: domain`"),
        ({"by": "writr"}, {}, "no column 'writr'; did you mean 'writer'?"),
        ({"by": "domain"}, {}, "'domain' needs a data set with domains"),
        ({}, {"kept": {"writer": 4, "city": 2}}, "keep several columns, city, writer; choose one"),
        ({"clients": 5}, {}, "the data have 4 values of 'writer', not 5"),
        ({"clients": 2, "values_per_client": 3}, {}, "the data have 4 values of 'writer', not 6, 3 for each client"),
        ({"test": "published"}, {"images": {"train": 70, "test": 0}}, "needs a published test part"),
        ({"scarce": 3, "values_per_client": 2}, {}, "there are only 2 clients, not 3"),
        ({}, {"modalities": ("visual", "textual")}, "not of two modalities"),
    ],
)
def test_what_the_form_of_the_data_rules_out(changes, info, words):
    with pytest.raises(UserError) as refusal:
        Natural(**changes).check_feasible(DatasetInfo(**(vars(INFO) | info)), [0])
    assert words in str(refusal.value) and "\n" not in str(refusal.value)


def test_what_only_the_labels_rule_out():
    with pytest.raises(
        UserError, match="'writer' with at least 4 images in the training part: 1 in the data, 2 needed"
    ):
        Natural(clients=2, min_samples=4, test="official").split(SMALL, 0)
    with pytest.raises(UserError, match="values of 'writer' with at least 9 images: 0 in the data, 1 needed"):
        Natural(min_samples=9).split(SMALL, 0)
    others = Labels(SMALL.labels, 7, 2, kept={"writer": np.repeat([0, 3], [7, 3])}, kept_names=SMALL.kept_names)
    with pytest.raises(UserError, match="none of the 1 clients has images in the published test part"):
        Natural(test="published").split(others, 0)


def test_a_published_partition_has_the_names(tmp_path):
    about = Natural(clients=2).about(POOL, 0)
    table = Natural(clients=2).split(POOL, 0)
    classes = [*map(str, range(POOL.classes))]
    facts = {"data": "toy", "data_checksum": "", "classes": classes, "domains": [*DOMAINS], "spec": {}}
    facts |= about | {"digest": digest_of(table)}
    write_table(tmp_path / "toy.parquet", table, facts)
    published = File(path=str(tmp_path / "toy.parquet"))
    assert published.about(POOL, 0)["names"] == about["names"] and published.split(POOL, 0).equals(table)
    for wrong in (3, [["a"]], [["a"], "b"], [["a"], [1]]):
        write_table(tmp_path / "toy.parquet", table, facts | {"names": wrong})
        with pytest.raises(UserError, match="names of the metadata are not a list of texts for each client"):
            published.split(POOL, 0)


STUDY = """
name: s
data: {name: table, path: hand, keep: writer_id}
heterogeneity: [{partition: natural, clients: 3, min_samples: 2, test: published}]
seeds: [0]
model: {name: mlp, hidden: 8, features: 4}
training: {rounds: 1}
methods: [fedavg]
"""


def write_hand(folder):
    """Twenty images of two classes by three writers, and ten for testing, of which one writer has none."""
    facts = {"encoding": "raw", "height": "2", "width": "2", "channels": "1", "classes": json.dumps(["no", "yes"])}
    for part, images, writers in (("train", 20, 3), ("test", 10, 2)):
        labels = np.arange(images) % 2
        rows = [np.full(4, 255 * label, np.uint8).tobytes() for label in labels]
        names = [f"w{number // 2 % writers}" for number in range(images)]
        write_rows(folder / f"{part}.parquet", rows, labels, facts, {"writer_id": names})


def test_from_a_table_to_a_result(working_folder, capsys):
    write_hand(working_folder / "hand")
    study = prepared(study_of(STUDY))
    (cell,) = study.cells
    trained(cell, study)
    results, _ = read_table(cell.file)
    frame = results.to_pandas()
    names = read_metadata(cell.partition.file)["names"]
    scored = frame.loc[frame["metric"] == "accuracy_trained", "client"]
    assert {tuple(names[client]) for client in scored} == {("w0",), ("w1",)}, "w2 has no test images"
    trains = frame[(frame["metric"] == "train_samples") & (frame["value"] > 0)]
    assert len(trains) == 3
    assert sorted(names) == [["w0"], ["w1"], ["w2"]]
    capsys.readouterr()
    main(["inspect", str(cell.partition.file)])
    lines = capsys.readouterr().out.splitlines()
    assert [line.rpartition(" · ")[2] for line in lines[-3:]] == [name for [name] in names]
    main(["inspect", str(cell.partition.file), "--json"])
    assert json.loads(capsys.readouterr().out)["names"] == names
