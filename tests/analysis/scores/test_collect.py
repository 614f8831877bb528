import json
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fedgrid.analysis.scores.cells import FinishedCell
from fedgrid.analysis.scores.collect import collect
from fedgrid.analysis.scores.results import load
from fedgrid.errors import Damaged, UserError
from fedgrid.files import read_metadata, read_table, write_json, write_table
from fedgrid.grid.plan.manifest_model import read_manifest


def test_rows_carry_their_cells_names_in_manifest_order(toy):
    results = toy.load()
    assert [cell.key for cell in results.cells] == [cell["key"] for cell in toy.cells]
    one = results.rows.query("label == 'ditto' and heterogeneity == 'dir' and seed == 1 and round == 2 and client == 1")
    assert one.set_index("metric")["value"].to_dict() == {
        "accuracy_received": 0.915,
        "bytes_up": 1024.0,
        "bytes_down": 3072.0,
    }


def test_schema(toy):
    schema = pq.read_schema(toy.results())
    words = pa.dictionary(pa.int32(), pa.string())
    assert [schema.field(name).type for name in ("label", "data", "heterogeneity", "metric")] == [words] * 4
    assert [schema.field(name).type for name in ("seed", "round", "client")] == [pa.int32()] * 3


def test_metadata_join_manifest_and_cell(toy):
    cell = load(toy.results()).cells[-1]
    assert isinstance(cell, FinishedCell)
    assert (cell.label, cell.seed, cell.status) == ("ditto", 2, "diverged")
    assert cell.costs.seconds.total == 4.0
    assert cell.partition.name == "seed=2.parquet"


def test_results_name_the_manifest_that_they_were_made_from(toy):
    assert read_metadata(toy.results())["manifest"] == "manifest.json"


def test_same_inputs_give_same_bytes_and_no_leftovers(toy):
    path = toy.results()
    first = path.read_bytes()
    assert toy.results().read_bytes() == first
    assert not list(path.parent.glob(".*"))


def test_wrong_key_is_refused_and_leaves_the_old_file(toy):
    path = toy.results()
    before = path.read_bytes()
    toy.cells[3]["key"] = "f" * 16
    with pytest.raises(UserError, match="manifest expects ffffffffffffffff"):
        toy.results()
    assert path.read_bytes() == before


def images_of(toy, number, checksum):
    """Has a cell say of which images it is."""
    path = Path(toy.cells[number]["path"])
    rows, metadata = read_table(path)
    write_table(path, rows, metadata | {"images": checksum})


def test_cells_of_different_images_are_not_mixed(toy):
    for cell in toy.cells:
        cell["images_file"] = str(toy.folder / "data" / "train.parquet")
    for number, checksum in enumerate(("first", "first", "other")):
        images_of(toy, number, checksum)
    paths = [cell["path"] for cell in toy.cells]
    with pytest.raises(UserError, match=f"{paths[2]} was trained on another copy of the data set than other cells"):
        toy.results()
    write_table(toy.folder / "data" / "train.parquet", pa.table({"label": [0]}), {"checksum": "other"})
    with pytest.raises(UserError, match=f"{paths[0]} and 1 more were trained on another copy .* that of "):
        toy.results()
    for number in range(2):
        images_of(toy, number, "other")
    toy.results()


def test_missing_cell_file_is_one_sentence(toy):
    Path(toy.cells[0]["path"]).unlink()
    with pytest.raises(UserError, match=r"^[^\n]*does not exist$"):
        collect(toy.manifest, toy.folder / "out.parquet")
    assert not (toy.folder / "out.parquet").exists()


def test_what_is_collected_is_what_is_read_back(toy):
    collected, read = toy.load(), load(toy.folder / "results.parquet")
    pd.testing.assert_frame_equal(collected.rows, read.rows)
    assert (collected.study, collected.cells, collected.published) == (read.study, read.cells, read.published)


@pytest.mark.parametrize("text", ["{", json.dumps({"study": {}, "cells": [1]})])
def test_bad_manifest(tmp_path, text):
    (tmp_path / "m.json").write_text(text)
    with pytest.raises(Damaged):
        read_manifest(tmp_path / "m.json")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cells": None}, "cells: expected a list, got None"),
        ({"study": {"name": "toy"}}, "study: the key 'title' is missing"),
        ({"rows": []}, "value: unknown key 'rows'; known: .*"),
    ],
)
def test_a_file_that_is_no_manifest(toy, change, message):
    write_json(toy.folder / "m.json", toy.content | change)
    with pytest.raises(UserError, match=rf"m\.json: not a manifest of this version of fedgrid \({message}\)"):
        read_manifest(toy.folder / "m.json")


def test_a_cell_that_does_not_say_what_it_cost(toy):
    path = Path(toy.cells[0]["path"])
    rows, metadata = read_table(path)
    write_table(path, rows, {name: value for name, value in metadata.items() if name != "costs"})
    with pytest.raises(
        UserError, match=f"{path}: not results of this version of fedgrid .value: the key 'costs' is missing"
    ):
        toy.results()


def test_results_of_another_form_are_refused(toy):
    rows, head = read_table(toy.results())
    write_table(toy.folder / "other.parquet", rows, head | {"study": head["study"] | {"seeds": "012"}})
    with pytest.raises(UserError, match=r"of another version of fedgrid \(study.seeds: expected a list, got '012'\)"):
        load(toy.folder / "other.parquet")


def test_an_experiment_may_have_no_cells(make_study):
    results = make_study().load()
    assert (results.cells, len(results.rows), results.columns) == ([], 0, [])


def test_published_numbers_and_reasons_of_absence_are_kept(toy):
    toy.without("local", "hom", 0, "CIFAR is not at hand")
    toy.prints("Local", "55.00")
    results = toy.load()
    assert results.published[0]["value"] == "55.00"
    assert (results.cells[-1].status, results.cells[-1].reason) == ("unavailable", "CIFAR is not at hand")
    assert len(results.finished) == len(results.cells) - 1


def test_what_only_newer_cells_say(toy):
    toy.cell("local", "hom", 0, {2: [0.5, 0.5]}, domains=["a", "b"])
    cells = toy.load().finished
    assert (cells[0].domains, cells[-1].domains, cells[-1].sizes) == (None, ["a", "b"], None)


def test_a_foreign_parquet_file_is_refused(tmp_path):
    pq.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
    with pytest.raises(UserError, match="damaged"):
        read_metadata(tmp_path / "a.parquet")
