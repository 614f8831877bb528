"""``fedgrid import-partition``, used as a user would, and the same file in a study; what `domains` leaves out."""

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedgrid.api.partitions import read_partition
from fedgrid.cli.main import main
from fedgrid.data.folder import Folder
from fedgrid.grid.plan import left_out
from fedgrid.grid.plan.product import planned_study
from fedgrid.grid.study.sections import Section
from fedgrid.grid.study.yaml_file import read
from fedgrid.jobs.partition import prepare

CLIENTS, SPLITS = ("south", "north", "north"), ("test", "train", "train", "train")
ROWS = ["client,split,index", *(f"{CLIENTS[i % 3]},{SPLITS[i % 4]},{i}" for i in range(60))]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("clients.csv").write_text("\n".join(ROWS) + "\n")
    return tmp_path


def test_the_command_says_what_it_found_and_what_to_write(capsys):
    assert main(["import-partition", "clients.csv", "--data", "digits", "--name", "regions"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("clients.csv: CSV of row numbers, SHA-256 ")
    assert "clients    2" in text and "45 train, 0 validation, 15 test (each client its own)" in text
    assert "note: 1,737 images of the data set are held by no client" in text
    assert "0 is 'north', 1 is 'south'" in text
    assert '\n  heterogeneity: [{partition: "file:partitions/regions.parquet"}]   # in a study in this folder' in text
    assert main(["inspect", "partitions/regions.parquet"]) == 0
    assert capsys.readouterr().out.startswith("imported from clients.csv (CSV of row numbers, SHA-256 ")


def test_a_study_that_names_the_file_has_exactly_that_partition(capsys):
    assert main(["import-partition", "clients.csv", "--data", "digits"]) == 0
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
def test_a_foreign_file_elsewhere_is_answered_with_the_command(words, capsys):
    assert main(words) == 2
    sentence = capsys.readouterr().err
    assert "import it (CSV): fedgrid import-partition clients.csv --data DATA" in sentence and sentence.count("\n") == 1


def test_another_partition_of_that_name_is_kept(capsys):
    assert main(["import-partition", "clients.csv", "--data", "digits"]) == 0
    Path("clients.csv").write_text("\n".join(ROWS[:-1]) + "\n")
    assert main(["import-partition", "clients.csv", "--data", "digits"]) == 2
    assert "partitions/clients.parquet already exists and differs" in capsys.readouterr().err


def test_pictures_by_the_names_of_their_files(capsys):
    for number in range(8):
        file = Path(f"pictures/train/{'ab'[number % 2]}/{number}.png")
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((6, 6, 3), number, np.uint8)).save(file)
    rows = ["0,train,train/a/0.png", "0,test,./train/b/3.png", "1,train,train/a/6.png", "1,test,train/b/7.png"]
    Path("named.csv").write_text("\n".join(["client,split,file", *rows]) + "\n")
    assert main(["import-partition", "named.csv", "--data", "./pictures"]) == 0
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
    assert main(["import-partition", "named.csv", "--data", "./pictures", "--name", "other"]) == 2
    sentence = capsys.readouterr().err
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
