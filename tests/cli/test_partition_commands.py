"""``fedgrid inspect | export-partition | import-partition``, the same file in a study, and what `domains` omits."""

import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from fedgrid.api.partitions import read_partition
from fedgrid.data.folder import Folder
from fedgrid.files import write_table
from fedgrid.grid.plan import left_out
from fedgrid.grid.plan.product import planned_study
from fedgrid.grid.study.sections import Section
from fedgrid.grid.study.yaml_file import read
from fedgrid.jobs.partition import prepare
from fedgrid.partition.common.publish import digest_of
from fedgrid.partition.common.statistics import statistics

CLIENTS, SPLITS = ("south", "north", "north"), ("test", "train", "train", "train")
ROWS = ["client,split,index", *(f"{CLIENTS[i % 3]},{SPLITS[i % 4]},{i}" for i in range(60))]


@pytest.fixture(autouse=True)
def clients(folder):
    Path("clients.csv").write_text("\n".join(ROWS) + "\n")


def test_the_command_says_what_it_found_and_what_to_write(output):
    text = output("import-partition", "clients.csv", "--data", "digits", "--name", "regions")
    assert text.startswith("clients.csv: CSV of row numbers, SHA-256 ")
    assert "clients    2" in text and "45 train, 0 validation, 15 test (each client its own)" in text
    assert "note: 1,737 images of the data set are held by no client" in text
    assert "0 is 'north', 1 is 'south'" in text
    assert '\n  heterogeneity: [{partition: "file:partitions/regions.parquet"}]   # in a study in this folder' in text
    inspected = output("inspect", "partitions/regions.parquet")
    assert inspected.startswith("imported from clients.csv (CSV of row numbers, SHA-256 ")


def test_a_study_that_names_the_file_has_exactly_that_partition(output):
    output("import-partition", "clients.csv", "--data", "digits")
    text = """
name: toy
data: digits
heterogeneity: [{partition: {import: clients.csv}}, {partition: "file:partitions/clients.parquet"}]
methods: [local]
"""
    Path("study.yaml").write_text(text)
    first, second = planned_study(read(Path("study.yaml"))).cells
    for cell in (first, second):
        prepare(cell.partition, planned_study(read(Path("study.yaml"))))
    files = "partitions/clients.parquet", first.partition.file, second.partition.file
    written, named, published = map(read_partition, files)
    assert written.rows.equals(named.rows) and written.rows.equals(published.rows)
    assert written.metadata["digest"] == named.metadata["digest"]
    origin = "imported from clients.csv (CSV of row numbers, SHA-256 "
    assert origin in first.partition.sentence and origin in second.partition.sentence
    assert first.heterogeneity == "imported-clients" and first.partition.description == "imported from clients.csv"


def test_the_key_is_that_of_the_content_and_not_of_the_name():
    def key(name):
        entry = {"partition": "imported", "path": name}
        about = {"name": "t", "data": "digits", "heterogeneity": [entry], "methods": ["local"]}
        return planned_study(Section(about)).cells[0].key

    first = key("clients.csv")
    os.rename("clients.csv", "regions.csv")
    assert key("regions.csv") == first
    Path("regions.csv").write_text("\n".join(ROWS[:-1]) + "\n")
    assert key("regions.csv") != first


@pytest.mark.parametrize("words", [["run", "local", "--partition", "file:clients.csv"], ["inspect", "clients.csv"]])
def test_a_foreign_file_elsewhere_is_answered_with_the_command(words, complaint):
    assert "import it (CSV): fedgrid import-partition clients.csv --data DATA" in complaint(*words)


def test_another_partition_of_that_name_is_kept(output, complaint):
    command = ["import-partition", "clients.csv", "--data", "digits"]
    output(*command)
    Path("clients.csv").write_text("\n".join(ROWS[:-1]) + "\n")
    assert "partitions/clients.parquet already exists and differs" in complaint(*command)


def test_pictures_by_the_names_of_their_files(output, complaint):
    for number in range(8):
        file = Path(f"pictures/train/{'ab'[number % 2]}/{number}.png")
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((6, 6, 3), number, np.uint8)).save(file)
    rows = ["0,train,train/a/0.png", "0,test,./train/b/3.png", "1,train,train/a/6.png", "1,test,train/b/7.png"]
    Path("named.csv").write_text("\n".join(["client,split,file", *rows]) + "\n")
    output("import-partition", "named.csv", "--data", "./pictures")
    actual = read_partition("partitions/named.parquet")
    names = [p.file.relative_to("pictures").as_posix() for p in Folder(path="pictures").pictures()]
    by_client = {(row["client"], row["split"]): names[row["index"]] for row in actual.rows.to_dict("records")}
    assert by_client == {
        (0, "train"): "train/a/0.png",
        (0, "test"): "train/b/3.png",
        (1, "train"): "train/a/6.png",
        (1, "test"): "train/b/7.png",
    }
    Path("named.csv").write_text("client,split,file\n0,train,a/0.png\n0,test,a/1.png\n")
    sentence = complaint("import-partition", "named.csv", "--data", "./pictures", "--name", "other")
    assert sentence.startswith("fedgrid: named.csv: none of its files is in the data set")
    assert "names are relative to its folder, as in 'train/a/0.png'" in sentence


def two_domains(first, second):
    """Pictures of one class, so many of each domain."""
    for domain, number in (("day", first), ("night", second)):
        for i in range(number):
            file = Path(f"pictures/{domain}/cat/{i}.png")
            file.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(np.full((6, 6, 3), i, np.uint8)).save(file)


def test_the_plan_says_how_many_images_balancing_the_domains_leaves_out():
    two_domains(30, 12)
    about = {"name": "t", "data": "./pictures", "heterogeneity": [{"partition": "domains", "label": "d"}]}
    study = planned_study(Section(about | {"methods": ["local"]}))
    (line,) = left_out.left_out_sentences(study)
    assert "how many is known once 'pictures' is in the store" in line
    prepare(study.cells[0].partition, study)
    (line,) = left_out.left_out_sentences(study)
    assert line == "pictures, d: balancing the domains leaves out 18 of 42 images; each client holds 12 (seed 0)"
    study.cells[0].partition.file.unlink()
    assert [*left_out.left_out_sentences(study)] == [line]


def test_nothing_is_said_where_balancing_leaves_out_nothing():
    two_domains(12, 12)
    about = {"name": "t", "data": "./pictures", "heterogeneity": [{"partition": "domains"}], "methods": ["local"]}
    study = planned_study(Section(about))
    prepare(study.cells[0].partition, study)
    assert not [*left_out.left_out_sentences(study)]


def write(file, counts, shared=0):
    """A partition with `counts` [clients, classes] training images, half as many for testing or `shared` ones."""
    counts = np.asarray(counts)
    place = np.stack(np.indices(counts.shape), axis=-1).reshape(-1, 2)
    train = np.repeat(place, counts.ravel(), axis=0)
    test = np.repeat(place, counts.ravel() // 2, axis=0) if not shared else np.array([[-1, 0]] * shared)
    rows = np.concatenate([train, test])
    columns = {
        "client": pa.array(rows[:, 0], pa.int32()),
        "split": pa.array(["train"] * len(train) + ["test"] * len(test)).dictionary_encode(),
        "index": pa.array(np.arange(len(rows)), pa.int64()),
        "label": pa.array(rows[:, 1], pa.int32()),
        "domain": pa.nulls(len(rows), pa.string()).dictionary_encode(),
    }
    table = pa.table(columns)
    facts = {"words": "Dirichlet β=0.1", "data": "digits", "data_checksum": "0123456789abcdef" * 4}
    facts |= {
        "clients": len(counts),
        "classes": [f"c{c}" for c in range(counts.shape[1])],
        "domains": [],
        "digest": digest_of(table),
    }
    write_table(file, table, facts | {"test": "official" if shared else "own", "spec": {}})
    return table


def test_inspect_says_what_a_partition_is(folder, output):
    counts = np.zeros((20, 10), int)
    counts[np.arange(20), np.arange(20) % 10] = 10
    counts[3] = [0, 40, 2, 3, 5, 0, 0, 0, 0, 0]
    counts[4] = 0
    write(folder / "p.parquet", counts)
    lines = output("inspect", folder / "p.parquet").splitlines()
    assert len(lines) <= 40 and max(map(len, lines)) <= 120
    text = "\n".join(lines)
    assert lines[0] == "Dirichlet β=0.1"
    assert "digits, checksum 0123456789abcdef\n" in text
    assert "20, 1 without training images" in text
    assert "0 to 50 training and validation images, median 10" in text
    assert "0 to 4 of 10 with a client" in text
    table = [line.split() for line in lines]
    assert ["3", "50", "0", "24", "4", "c1:", "40,", "c4:", "5,", "c3:", "3,", "…"] in table
    assert ["4", "0", "0", "0", "0"] in table
    assert ["19", "10", "0", "5", "1", "c9:", "10"] in table


def test_inspect_of_many_clients_is_short(folder, output):
    write(folder / "p.parquet", np.ones((300, 2), int), shared=7)
    lines = output("inspect", folder / "p.parquet").splitlines()
    assert len(lines) <= 40
    listed = [line.split()[0] for line in lines if line.split() and line.split()[0].isdigit()]
    assert listed == [str(n) for n in (*range(10), *range(290, 300))]
    assert any("280 more" in line for line in lines)
    assert any("7 test (official, one test set for all clients)" in line for line in lines)


def test_inspect_json_is_the_statistics(folder, output):
    table = write(folder / "p.parquet", [[3, 1], [0, 4]])
    actual = json.loads(output("inspect", folder / "p.parquet", "--json"))
    assert actual == statistics(table, 2, 2)


def test_a_single_client_has_no_distances(folder, output):
    write(folder / "p.parquet", [[3, 1]])
    assert "distances" not in output("inspect", folder / "p.parquet")


def test_what_is_exported_can_be_inspected(folder, output):
    write(folder / "p.parquet", [[3, 1], [0, 4]])
    copy = output("export-partition", folder / "p.parquet", folder / "out").strip()
    assert output("inspect", copy) == output("inspect", folder / "p.parquet")


@pytest.mark.parametrize("words", [["inspect", "none.parquet"], ["export-partition", "none.parquet", "out"]])
def test_a_partition_that_is_not_there_is_one_sentence(complaint, untouched, words):
    with untouched():
        assert complaint(*words) == "fedgrid: none.parquet does not exist\n"
