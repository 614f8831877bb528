"""Cells of other people in one store: what is taken, what stays, what is a conflict, and what tables say of it."""

import hashlib
import io
import json
import os
import shutil
import zipfile
from pathlib import Path

import pytest
from archives import contents, is_untouched, packed
from commands import complaint, output
from earlier import train_all
from studies import FOUR_CELLS, prepared

from fedgrid.analysis.pages.table_set import tables
from fedgrid.analysis.scores.collect import collect
from fedgrid.api.study_file import read_study
from fedgrid.cli.main import main
from fedgrid.files import read_json, read_table, write_json, write_table
from fedgrid.grid.plan import manifest
from fedgrid.grid.plan.cell_origin import origin_file, read_origin
from fedgrid.grid.plan.manifest_model import read_manifest

STUDY = Path("config/study.yaml")
ARTIFACTS = "artifacts: [predictions]\n"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A project with the four cells of a study, trained."""
    folder = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        STUDY.parent.mkdir()
        STUDY.write_text(FOUR_CELLS + ARTIFACTS)
        train_all(prepared(read_study(STUDY)))
    return folder


@pytest.fixture
def people(trained, tmp_path, monkeypatch):
    """Projects of several people, by name, each with some of the cells by position; one's own is the working folder."""

    def made(**cells):
        for name, positions in cells.items():
            monkeypatch.chdir(shutil.copytree(trained, tmp_path / name))
            for number, cell in enumerate(read_study(STUDY).cells):
                for file in cell.files if number not in positions else ():
                    file.unlink()
        monkeypatch.chdir(tmp_path / "mine")
        return read_study(STUDY)

    return made


@pytest.fixture
def bundled(people, tmp_path, monkeypatch, capsys):
    """As `people`, each but the first one's with an archive of the cells beside the projects."""
    pytest.importorskip("rocrate")

    def made(**cells):
        people(**cells)
        for name, positions in cells.items():
            monkeypatch.chdir(tmp_path / name)
            keys = [read_study(STUDY).cells[number].key for number in positions]
            (tmp_path / f"{name}.txt").write_text("".join(f"{key}\n" for key in keys))
            if name != "mine":
                output(capsys, "bundle", "--cells", f"../{name}.txt", "--out", f"../{name}.zip")
        monkeypatch.chdir(tmp_path / "mine")
        return read_study(STUDY)

    return made


def another_number(file, metric="accuracy_trained", round_=2, by=0.25, **metadata):
    """Changes a number of the first client in the results of a cell, and seals them anew."""
    table, about = read_table(file)
    rows = table.to_pylist()
    for row in rows:
        if (row["round"], row["client"], row["metric"]) == (round_, 0, metric):
            row["value"] += by
    write_table(file, type(table).from_pylist(rows, table.schema), about | metadata)


def merged(capsys, *arguments):
    """The exit code of a merge, and what it prints."""
    capsys.readouterr()
    code = main(["merge", *map(str, arguments)])
    return code, capsys.readouterr().out


def caption(study, folder):
    """The caption of the table of accuracies of the cells in the store."""
    file = manifest.file(study, study.experiments[0])
    manifest.write(study, file)
    return dict(tables(collect(read_manifest(file), folder / "results.parquet")))["accuracy"][1].caption


def state(folder):
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file() and file.name != ".lock"}


def test_overlapping_archives_complete_a_study(bundled, tmp_path, capsys):
    study = bundled(mine=[0], anna=[0, 1], ben=[1, 2, 3])
    code, text = merged(capsys, "../anna.zip", "../ben.zip")
    assert (code, text) == (
        0,
        "../anna.zip: 2 cells, 1 new, 1 there already\n../ben.zip: 3 cells, 2 new, 1 there already\n"
        "results: 3 cells added\n",
    )
    assert all(cell.done for cell in study.cells) and "s: 4 cells, 4 cached, 0 to run" in output(capsys, "plan")
    anna, ben = ((tmp_path / f"{name}.zip").read_bytes() for name in ("anna", "ben"))
    assert read_origin(study.cells[0].file) is None
    origin = read_origin(study.cells[1].file)
    assert [one.source for one in origin.merges] == ["anna.zip"]
    assert origin.merges[0].archive == hashlib.sha256(anna).hexdigest()
    digest = hashlib.sha256(ben).hexdigest()[:8]
    sentence = f"Cells of 3 sources: 1 computed here, 2 of ben.zip (sha256 {digest}) and 1 of anna.zip (sha256 "
    assert sentence in caption(study, tmp_path)


def test_a_table_of_one_person_says_nothing_of_sources(people, tmp_path, capsys):
    study = people(mine=[0, 1, 2, 3], anna=[0, 1, 2, 3])
    before = caption(study, tmp_path)
    assert "sources" not in before
    shutil.rmtree("results/store/cells")
    assert merged(capsys, "../anna/results")[0] == 0
    assert caption(study, tmp_path) == before


def test_a_store_is_merged_into_an_empty_one(people, tmp_path, capsys):
    study = people(mine=[], anna=[0, 1, 2, 3])
    shutil.rmtree("results")
    code, text = merged(capsys, "../anna/results")
    assert (code, text) == (0, "../anna/results: 4 cells, 4 new, 0 there already\nresults: 4 cells added\n")
    assert "4 cached, 0 to run" in output(capsys, "plan")
    assert read_origin(study.cells[0].file).source == "anna"
    assert {file.name for file in Path("results/store").iterdir()} == {"cells", "partitions", "originals", ".lock"}
    again = merged(capsys, tmp_path / "anna/results/store")
    assert again == (0, f"{tmp_path}/anna/results/store: 4 cells, 0 new, 4 there already\nresults: 0 cells added\n")


def test_a_dry_run_writes_nothing(people, capsys):
    people(mine=[0], anna=[1], ben=[1, 2])
    before = state(Path())
    code, text = merged(capsys, "../anna/results", "../ben/results", "--dry-run")
    assert code == 0 and "../ben/results: 2 cells, 1 new, 1 there already\nresults: 2 cells to add\n" in text
    assert state(Path()) == before


def test_a_conflict_is_named_and_the_store_is_as_it_was(people, tmp_path, monkeypatch, capsys):
    study = people(mine=[0, 1], anna=[0, 1, 2, 3])
    theirs = Path("../anna", study.cells[0].file)
    another_number(theirs, hardware=read_table(theirs)[1]["hardware"] | {"cpu": "A processor\x1b[31m of Anna's"})
    mine = study.cells[0].file.read_bytes()
    code, text = merged(capsys, "../anna/results")
    lines = text.splitlines()
    assert code == 1 and lines[0] == "../anna/results: 4 cells, 2 new, 1 there already, 1 conflict"
    assert lines[1] == (
        f"kept     local, digits, dirichlet-beta0.5-clients4, seed 0 ({study.cells[0].key}): 1 number differs; "
        "accuracies by up to 25.00 points (accuracy_trained of client 0 in round 2)"
    )
    assert lines[2].startswith("         here:  ") and ", torch " in lines[2]
    assert lines[3].startswith("         there: A processor?[31m of Anna's, cpu, torch ")
    assert lines[4:] == [
        "results: 2 cells added",
        "1 conflict is unresolved: --prefer SOURCE takes a source's results, "
        "--prefer results keeps those that are there",
    ]
    assert study.cells[0].file.read_bytes() == mine and study.cells[2].done
    code, text = merged(capsys, "../anna/results", "--prefer", "results")
    assert code == 0 and "1 conflict\nkept  " in text and study.cells[0].file.read_bytes() == mine
    caption(study, tmp_path)
    code, text = merged(capsys, "../anna/results", "--prefer", "../anna/results")
    assert code == 0 and "1 conflict\ntaken " in text and "results: 0 cells added, 1 replaced\n" in text
    assert study.cells[0].file.read_bytes() == theirs.read_bytes()
    assert read_origin(study.cells[0].file).source == "anna"
    assert not list(study.folder.glob(manifest.NAME))  # its table is out of date


def test_two_archives_may_be_in_conflict(bundled, tmp_path, monkeypatch, capsys):
    study = bundled(mine=[], anna=[0, 1], ben=[0, 2])
    monkeypatch.chdir(tmp_path / "ben")
    another_number(study.cells[0].file)
    output(capsys, "bundle", "--cells", "../ben.txt", "--out", "../ben.zip")
    monkeypatch.chdir(tmp_path / "mine")
    code, text = merged(capsys, "../anna.zip", "../ben.zip")
    assert code == 1 and "../ben.zip: 2 cells, 1 new, 0 there already, 1 conflict\nkept " in text
    assert [read_origin(cell.file).merges[0].source for cell in study.cells[:3]] == ["anna.zip", "anna.zip", "ben.zip"]


def test_the_preferred_source_wins_over_the_others(people, capsys):
    study = people(mine=[0], anna=[0, 1], ben=[0, 1])
    for cell in study.cells[:2]:
        another_number(Path("../ben", cell.file), metric="loss_trained")
    code, text = merged(capsys, "../anna/results", "../ben/results", "--prefer", "../ben/results")
    assert code == 0 and "0 cells added, 1 replaced" not in text
    assert "../anna/results: 2 cells, 0 new, 0 there already, 2 conflicts\n" in text
    assert "1 number differs, and no accuracy; the first is loss_trained of client 0 in round 2" in text
    assert [read_origin(cell.file).source for cell in study.cells[:2]] == ["ben", "ben"]
    assert "name one of the sources, or results" in complaint(
        capsys, "merge", "../anna/results", "--prefer", "../clara"
    )


def test_cells_of_another_partition_are_left_out(people, capsys):
    study = people(mine=[0], anna=[2, 3])
    file = Path("../anna", study.cells[2].partition.file)
    table, about = read_table(file)
    write_table(file, table, about | {"data_checksum": "0" * 64})
    code, text = merged(capsys, "../anna/results", "--prefer", "../anna/results")
    assert code == 1 and "2 cells, 1 new, 0 there already, 1 conflict\nleft out fedavg" in text
    assert "trained on another partition than the store's of this key" in text
    assert text.endswith("1 cell cannot be used here: partition or images are not those of results\n")
    assert not study.cells[2].done and study.cells[3].done


def test_artifacts_come_along_and_complete_a_cell_of_the_same_numbers(people, capsys):
    study = people(mine=[0], anna=[0, 1])
    (artifact,) = study.cells[0].files[1:]
    artifact.unlink()
    assert merged(capsys, "../anna/results")[0] == 0
    assert all(cell.done for cell in study.cells[:2]) and read_origin(study.cells[0].file) is None


def test_the_first_source_is_kept_over_several_hands(bundled, tmp_path, monkeypatch, capsys):
    """What Ben has from Anna is Anna's, and results that are computed later under the same name are not."""
    study = bundled(mine=[], ben=[2], anna=[1])
    monkeypatch.chdir(tmp_path / "ben")
    merged(capsys, "../anna.zip")
    keys = "".join(f"{study.cells[number].key}\n" for number in (1, 2))
    Path("both.txt").write_text(keys)
    output(capsys, "bundle", "--cells", "both.txt", "--out", "../both.zip")
    monkeypatch.chdir(tmp_path / "mine")
    merged(capsys, "../both.zip")
    origin = read_origin(study.cells[1].file)
    assert [one.source for one in origin.merges] == ["anna.zip", "both.zip"] and origin.source.startswith("anna.zip")
    another_number(study.cells[1].file)
    assert read_origin(study.cells[1].file) is None


def test_an_origin_that_was_edited_is_refused(people, tmp_path, capsys):
    study = people(mine=[0], anna=[1])
    merged(capsys, "../anna/results")
    file = origin_file(study.cells[1].file)
    values = read_json(file)
    values["merges"][0]["source"] = "x\u202e"
    write_json(file, values)
    shutil.copytree("results", "../ben/results")
    sentence = "not an origin that fedgrid merge wrote"
    assert sentence in complaint(capsys, "merge", "../ben/results", "--into", "new")
    with pytest.raises(Exception, match=sentence):
        caption(study, tmp_path)


def linked(folder):
    file = next(folder.glob("store/cells/**/*.parquet"))
    shutil.move(file, folder / "elsewhere.parquet")
    file.symlink_to(folder / "elsewhere.parquet")


def linked_folder(folder):
    shutil.move(folder / "store/cells/local", folder / "elsewhere")
    (folder / "store/cells/local").symlink_to(folder / "elsewhere")


def pipe(folder):
    file = next(folder.glob("store/cells/**/*.parquet"))
    file.unlink()
    os.mkfifo(file)


def damaged(folder):
    file = next(folder.glob("store/cells/local/**/*.parquet"))
    content = bytearray(file.read_bytes())
    content[len(content) // 3] ^= 1
    file.write_bytes(content)


def renamed(folder):
    file = next(folder.glob("store/cells/local/**/s0-????????????????.parquet"))
    file.rename(file.with_name(f"s0-{'0' * 16}.parquet"))


def moved(folder):
    (folder / "store/cells/local").rename(folder / "store/cells/ditto")


def other_columns(folder):
    file = next(folder.glob("store/cells/local/**/s0-????????????????.parquet"))
    table, about = read_table(file)
    write_table(file, table.drop_columns(["client"]), about)


def without_settings(folder):
    file = next(folder.glob("store/cells/local/**/s0-????????????????.parquet"))
    table, about = read_table(file)
    write_table(file, table, about | {"spec": {}})


def other_rows(folder):
    file = next(folder.glob("store/partitions/**/seed=0.parquet"))
    table, about = read_table(file)
    write_table(file, table.slice(1), about)


HOSTILE = {
    linked: "is a link",
    linked_folder: "is a link",
    pipe: "is not a regular file",
    damaged: "is damaged (",
    renamed: "its content does not belong to its name",
    moved: "its content does not belong to its name",
    other_columns: "not the results of a cell",
    without_settings: "its settings are incomplete",
    other_rows: "is not the partition that it says it is",
}


@pytest.mark.parametrize("harm", HOSTILE, ids=lambda harm: harm.__name__)
def test_a_hostile_store_is_refused_and_nothing_is_written(harm, people, tmp_path, capsys):
    people(mine=[], anna=[0, 1, 2, 3])
    harm(tmp_path / "anna/results")
    error = complaint(capsys, "merge", "../anna/results", "--into", "new")
    assert error.startswith("fedgrid: ../anna/results: refused, ") and HOSTILE[harm] in error and "tmp" not in error
    assert is_untouched(Path("new"))


@pytest.mark.parametrize(
    "name", ["results/store/cells/../../../../evil.parquet", "/evil", "results/store/code/evil.py"]
)
def test_a_hostile_archive_is_refused_and_nothing_is_written(name, people, tmp_path, capsys):
    people(mine=[])
    Path("hostile.zip").write_bytes(packed(contents(), infos=[(zipfile.ZipInfo(name), b"x")]))
    before = state(tmp_path)
    assert "hostile.zip: refused, " in complaint(capsys, "merge", "hostile.zip", "--into", "new")
    assert {file for file in state(tmp_path)} == {*before}


def test_a_cell_that_was_sealed_anew_under_another_key_is_refused(bundled, tmp_path, capsys):
    """Right checksums and a right seal do not help where the content is of another cell."""
    bundled(mine=[], anna=[0])
    with zipfile.ZipFile("../anna.zip") as file:
        members = {info.filename: file.read(info) for info in file.infolist()}
    (name,) = [name for name in members if "/cells/" in name and name.count(".") == 2 and "s0-" in name]
    other = f"{name.rpartition('-')[0]}-{'f' * 16}.parquet"
    members[other] = members.pop(name)
    del members["checksums.sha256"]
    Path("hostile.zip").write_bytes(packed(members))
    assert "its content does not belong to its name" in complaint(capsys, "merge", "hostile.zip", "--into", "new")
    assert is_untouched(Path("new"))


def test_sources_that_are_none_are_refused(people, capsys):
    people(mine=[0])
    Path("empty").mkdir()
    Path("text.zip").write_bytes(io.BytesIO(b"text").read())
    assert "no archive of fedgrid bundle, and no folder of results" in complaint(capsys, "merge", "empty")
    assert "text.zip: refused, it is not a whole archive" in complaint(capsys, "merge", "text.zip")
    assert "nothing does not exist" in complaint(capsys, "merge", "nothing")
    assert "this is the store that cells are merged into" in complaint(capsys, "merge", "results/store")


def test_prune_takes_an_origin_with_its_cell(people, capsys):
    study = people(mine=[0], anna=[1])
    merged(capsys, "../anna/results")
    origin = origin_file(study.cells[1].file)
    assert str(origin) not in output(capsys, "prune")
    STUDY.write_text(FOUR_CELLS.replace("[0, 1]", "[0]"))
    assert f"not needed  {origin}\n" in output(capsys, "prune")
    assert json.loads(origin.read_text())["merges"][0]["source"] == "anna"
