"""Authors' files without a published checksum: one key may stand for several copies, and no result mixes them."""

import shutil

import pytest
from studies import FOUR_CELLS, plan_of, prepared, study_of

from benchmarks.numerics.originals import small_noise, write_office
from fedgrid.cli import cells
from fedgrid.cli.main import main, parser
from fedgrid.data.office10 import OfficeTen
from fedgrid.engine.state.saving import Saving
from fedgrid.files import read_json
from fedgrid.grid.plan.cell_metadata import cell_metadata
from fedgrid.grid.plan.product import planned_study
from fedgrid.grid.study.sections import Section
from fedgrid.jobs import dataset, originals
from fedgrid.jobs.cell import train

DATA = "data: {name: office10, side: 8}"


@pytest.fixture
def copies(working_folder, monkeypatch):
    """Folders `first` and `other` for FEDGRID_DATA: in the other one, two classes of a domain are exchanged."""
    monkeypatch.setattr(OfficeTen, "image_counts", {"train": 160, "test": 80})
    write_office(working_folder / "first" / "office10", [6], small_noise)
    shutil.copytree(working_folder / "first", working_folder / "other")
    amazon = working_folder / "other" / "office10" / "Amazon"
    for old, new in (("mug", "x"), ("bike", "mug"), ("x", "bike")):
        (amazon / old).rename(amazon / new)
    return working_folder


def study_with(copies, root, results):
    text = FOUR_CELLS.replace("data: digits", DATA)
    return study_of(text, data_root=str(copies / root), results=str(copies / results), seeds=[0])


def trained(study, cell):
    train(cell, cell.file, study.compute, Saving(cell.checkpoint, cell.key, every=1e9))


def computed(command):
    """The results of a command, computed by this process, in which the data set has fewer images."""
    study = prepared(planned_study(Section(cells._study(parser().parse_args(command)))))
    trained(study, study.cells[0])
    return study.cells[0].file


def test_a_store_says_which_files_it_was_built_from_when_others_are_offered(copies, capsys):
    study = prepared(study_with(copies, "first", "r"))
    (data,) = study.datasets.values()
    noted = read_json(data.first_sight)
    assert len(noted["files"]) == 240 and noted["checksum"] == data.images_checksum
    assert list(originals.notices([data], copies / "first")) == []
    (notice,) = originals.notices([data], copies / "other")
    assert "(12 of 240 differ, such as office10/Amazon/bike/frame_0000.JPG)" in notice
    originals.say_notices(study_with(copies, "other", "r"))
    assert capsys.readouterr().err == f"fedgrid: {notice}\n"


def test_the_same_store_never_builds_other_images_under_one_key(copies, capsys, in_job):
    first = prepared(study_with(copies, "first", "r"))
    (data,) = first.datasets.values()
    for file in data.files.values():
        file.unlink()
    assert dataset.main([str(plan_of(study_with(copies, "other", "r"))), data.key]) == 2
    assert "other images than those that this store began with" in capsys.readouterr().err


def test_a_file_that_had_another_name_while_it_was_downloaded_is_noted_once(copies):
    study = study_with(copies, "first", "r")
    (data,) = study.datasets.values()
    part = copies / "images.part"
    with originals.recorded_files([copies]) as files:
        part.write_text("images")
        part.rename(copies / "images")
        (copies / "images").read_text()
    originals.check_first_sight(data, "0" * 64, files)
    assert [*read_json(data.first_sight)["files"]] == ["images"]


def test_a_cell_says_of_which_images_it_is_and_is_not_reused_on_others(copies, capsys):
    first, other = (prepared(study_with(copies, root, f"r-{root}")) for root in ("first", "other"))
    one, twin = first.cells[0], other.cells[0]
    assert one.key == twin.key and one.partition.data.images_checksum != twin.partition.data.images_checksum
    trained(first, one)
    metadata = cell_metadata(one.file)
    assert metadata.images == one.partition.data.images_checksum
    assert not one.is_of_other_images(metadata) and twin.is_of_other_images(metadata)
    twin.file.parent.mkdir(parents=True)
    shutil.copy(one.file, twin.file)
    command = ["run", "local", "--data", "office10", "--data-set", "side=8", "--data-root", str(copies / "other")]
    command += ["--results", str(copies / "r-run"), "--rounds", "1", "--clients", "4"]
    result = computed(command)
    again = computed([part.replace("other", "first").replace("r-run", "r-again") for part in command])
    shutil.copy(again, result)
    capsys.readouterr()
    assert main(command) == 2
    assert "was trained on other images than those in the store" in capsys.readouterr().err
