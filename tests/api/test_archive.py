"""A study as one archive: what is in it, and what becomes of it in another store."""

import errno
import hashlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from urllib.parse import unquote

import pytest
from commands import complaint, output

import fedgrid
from fedgrid.api.archive import checking, provenance
from fedgrid.api.archive.contents import STATES, project_members
from fedgrid.api.study_file import read_study
from fedgrid.cli.main import main
from fedgrid.grid.plan.keys import modules_of_cell
from fedgrid.loading import names
from fedgrid.run.lock import StoreLock

pytest.importorskip("rocrate")


@pytest.fixture(scope="module")
def archive(run_once, tmp_path_factory):
    """The archive of the project's study."""
    file = tmp_path_factory.mktemp("archive") / "digits.zip"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(run_once)
        assert main(["bundle", "--out", str(file), "--license", "CC-BY-4.0"]) == 0
    return file


def files_below(folder):
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_the_same_results_give_the_same_bytes(archive, project, tmp_path):
    again = tmp_path / "again.zip"
    assert main(["bundle", "--out", str(again), "--license", "CC-BY-4.0"]) == 0
    assert again.read_bytes() == archive.read_bytes()
    with zipfile.ZipFile(archive) as file:
        names = file.namelist()
        assert names == sorted(names) and {info.date_time for info in file.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_a_reader_without_fedgrid_finds_the_page_and_checks_the_files(archive, project, tmp_path):
    shutil.unpack_archive(archive, tmp_path)
    assert (tmp_path / "index.html").read_bytes() == Path("results/digits/report.html").read_bytes()
    assert "Handwritten digits" in (tmp_path / "README.md").read_text()
    command = ["sha256sum", "--quiet", "--check", "checksums.sha256"]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True).returncode == 0
    listed = {line.split("  ", 1)[1] for line in (tmp_path / "checksums.sha256").read_text().splitlines()}
    assert listed | {"checksums.sha256"} == set(files_below(tmp_path))
    cells = fedgrid.study().cells
    assert {str(file) for file in cells.file} <= listed and "project/config/study.yaml" in listed
    assert "results/digits/tables/accuracy.csv" in listed and "results/digits/figures/curves-digits.pdf" in listed


def test_rocrate_reads_the_description(archive, tmp_path):
    from rocrate.rocrate import ROCrate

    shutil.unpack_archive(archive, tmp_path)
    crate = ROCrate(str(tmp_path))
    described = {unquote(entity.id): entity for entity in crate.data_entities if entity.id != "./"}
    assert set(described) == set(files_below(tmp_path)) - {"ro-crate-metadata.json", "checksums.sha256"}
    assert crate.mainEntity.id == "index.html" and crate.root_dataset["license"] == "CC-BY-4.0"
    file = described["results/digits/results.parquet"]
    assert int(file["contentSize"]) == (tmp_path / "results/digits/results.parquet").stat().st_size
    assert file["sha256"] in (tmp_path / "checksums.sha256").read_text()
    (action,) = crate.get_by_type("CreateAction")
    assert action["instrument"].get("version") == fedgrid.__version__


def test_elsewhere_a_run_finds_nothing_to_train(archive, here, capsys):
    text = output(capsys, "open", archive)
    assert text.endswith("written  config/study.yaml\nNext: fedgrid go config/study.yaml\n")
    assert set(fedgrid.study().cells.state) == {"done"}
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "fedgrid.cli.main", "go", "--dry-run"]
    run = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert run.returncode == 0 and "Nothing to be done" in run.stdout + run.stderr, run.stdout + run.stderr
    again = output(capsys, "open", archive)
    assert "written" not in again and "there already" in again


def test_results_may_lie_on_another_file_system(archive, here, capsys, monkeypatch):
    replace = os.replace

    def refuse(source, target):
        if Path(source).parent.name.startswith(".open."):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        replace(source, target)

    monkeypatch.setattr(os, "replace", refuse)
    output(capsys, "open", archive)
    assert "0 missing" in output(capsys, "status")


@pytest.mark.parametrize("folder", [".methods", "methods*", "Workflow"])
def test_a_file_of_the_study_that_nobody_may_unpack_stays_in_the_archive(folder, working_folder):
    Path(folder).mkdir()
    Path(folder, "mine.py").write_text(Path(fedgrid.__file__).with_name("methods").joinpath("local.py").read_text())
    Path("study.yaml").write_text(
        "name: s\ndata: digits\nheterogeneity: [{partition: homogeneous, clients: 4}]\nseeds: [0]\n"
        f"methods: {{mine: {{method: {folder}/mine.py}}}}\n"
    )
    names = [member.name for member in project_members(Path("study.yaml"), read_study(Path("study.yaml")))]
    assert "project/study.yaml" in names and any(
        name.startswith("outside/") and name.endswith("mine.py") for name in names
    )


def test_what_is_there_stays(archive, here, capsys):
    Path("config").mkdir()
    Path("config/study.yaml").write_text("name: mine\n")
    Path("results/digits").mkdir(parents=True)
    Path("results/digits/report.html").write_text("mine")
    text = output(capsys, "open", archive)
    assert "kept     config/study.yaml, which differs from the archive's" in text
    assert "2 files kept, though another one is in the archive" in text
    assert Path("config/study.yaml").read_text() == "name: mine\n"
    assert Path("results/digits/report.html").read_text() == "mine"
    assert Path("results/digits/results.parquet").is_file()


def test_other_code_is_named_and_what_a_run_does(archive, here, capsys, monkeypatch):
    monkeypatch.setattr(provenance, "modules", lambda *_: {"fedgrid.engine.rounds": "another"})
    text = output(capsys, "open", archive)
    assert "the code here differs from that of 16 of 16 cells (" in text and "): a run trains these again\n" in text


def test_code_of_every_method_is_the_same_here_as_its_key_says():
    """Whatever identities the ledger has for what the method imports."""
    codes = {name: modules_of_cell(f"fedgrid.methods.{name}", None, "fedgrid.models.cnn") for name in names("methods")}
    cells = {name: provenance.CellCode(f"{name}.parquet", name) for name in codes}
    archived = provenance.Provenance(1, fedgrid.__version__, "study.yaml", "full", "results", cells, codes, {})
    assert archived.differing() == {}
    codes["fedprox"] |= {"fedgrid.methods.fedavg": "another"}
    assert archived.differing() == {"fedgrid.methods.fedavg": 1}


def test_another_folder_of_results_is_named(archive, here, capsys):
    text = output(capsys, "open", archive, "--results", "mine")
    assert "the study's results are in results: set 'results: mine' in it" in text
    assert Path("mine/digits/report.html").is_file() and not Path("results").exists()


def test_a_store_in_use_is_left_alone(archive, here, capsys):
    store = Path("results/store")
    store.mkdir(parents=True)
    lock = StoreLock(store)
    lock.acquire()
    assert "is in use by another run" in complaint(capsys, "open", archive)
    lock.release()
    assert [file.name for file in Path("results").rglob("*") if file.is_file()] == [".lock"]


def test_files_of_the_study_come_along(project, tmp_path, here, capsys, monkeypatch):
    """A method of the user's own, the rows of another file, and one that lies outside of the working folder."""
    monkeypatch.chdir(project)
    for folder in ("methods", "../outside"):
        Path(folder).mkdir(exist_ok=True)
        assert main(["new-method", "mine", "--folder", folder]) == 0
    Path("../outside/mine.py").rename("../outside/theirs.py")
    Path("config/rows.yaml").write_text("local:\n")
    methods = "methods:\n- include: rows.yaml\n- ../methods/mine.py\n- ../../outside/theirs.py\n"
    text = Path("config/study.yaml").read_text().partition("methods:")[0].replace("name: digits", "name: own")
    Path("config/own.yaml").write_text(text + methods)
    file = Path("config/own.yaml")
    names = {member.name for member in project_members(file, read_study(file))}
    inside = {"project/config/own.yaml", "project/config/rows.yaml", "project/methods/mine.py"}
    assert names == inside | {"outside/outside-theirs.py"}
    capsys.readouterr()


def test_an_unfinished_study_is_refused(project, capsys):
    Path("config/unfinished.yaml").write_text(Path("config/study.yaml").read_text().replace("name: digits", "name: u"))
    sentence = "results/u: tables are not made; run fedgrid go, then the same command again"
    assert sentence in complaint(capsys, "bundle", "config/unfinished.yaml")


@pytest.mark.full
def test_models_that_hold_data_of_clients_are_named_before(working_folder, monkeypatch, capsys):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    monkeypatch.setenv("MPLBACKEND", "agg")
    Path("config").mkdir()
    Path("config/study.yaml").write_text(
        "name: n\ndata: digits\nheterogeneity: [{partition: dirichlet, beta: 0.5, clients: 4}]\nseeds: [0]\n"
        "model: {name: mlp, hidden: 8, features: 8}\ntraining: {rounds: 1}\nmethods: [fedavg, knn_per]\n"
        "artifacts: [models, state]\n"
    )
    fedgrid.study().run(cores=2)
    capsys.readouterr()
    assert main(["bundle"]) == 0
    error = capsys.readouterr().err
    assert error.splitlines() == [
        f"fedgrid: the archive has {files}; --without-models leaves them out"
        for files in (f"2 files of {STATES}", "1 file of kNN-Per's models, with features and labels of training images")
    ]
    with zipfile.ZipFile("n.zip") as file:
        assert sum(name.endswith((".models.safetensors", ".state.pt")) for name in file.namelist()) == 4
    assert main(["bundle", "--without-models"]) == 0
    assert capsys.readouterr().err == ""
    with zipfile.ZipFile("n.zip") as file:
        assert not any(name.endswith((".models.safetensors", ".state.pt")) for name in file.namelist())


def test_a_damaged_cell_is_not_archived(archive, here, capsys):
    output(capsys, "open", archive)
    file = fedgrid.study().cells.file[0]
    content = bytearray(file.read_bytes())
    content[len(content) // 3] ^= 1
    file.write_bytes(content)
    error = complaint(capsys, "bundle")
    assert str(file) in error and "damaged" in error and not Path("digits.zip").exists()


def rewritten(archive, target, change):
    """The archive with changed members: `change` gets a list of [ZipInfo, content] to edit, checksums are made anew."""
    with zipfile.ZipFile(archive) as file:
        members = [[info, file.read(info)] for info in file.infolist()]
    change(members)
    with zipfile.ZipFile(target, "w") as file:
        for info, content in members:
            file.writestr(info, content)
    return target


def test_a_result_that_is_not_what_its_name_says_is_refused(archive, here, capsys):
    """Whoever writes other checksums as well is found out by the seals within the files."""

    def swap(members):
        cells = [member for member in members if "/cells/" in member[0].filename]
        cells[0][1], cells[1][1] = cells[1][1], cells[0][1]
        by_name = {info.filename: content for info, content in members}
        sums = next(member for member in members if member[0].filename == "checksums.sha256")
        sums[1] = "".join(
            f"{hashlib.sha256(content).hexdigest()}  {name}\n"
            for name, content in by_name.items()
            if name != "checksums.sha256"
        ).encode()

    error = complaint(capsys, "open", rewritten(archive, here / "b.zip", swap))
    assert "refused, 'results/store/cells/" in error and "its content does not belong to its name" in error
    assert not list(Path("results").rglob("*.parquet"))


def test_the_limits_are_real(archive, here, capsys, monkeypatch):
    monkeypatch.setattr(checking, "MOST_FILES", 10)
    assert "at most 10 are allowed" in complaint(capsys, "open", archive)
    monkeypatch.undo()
    os.chdir(here)
    monkeypatch.setattr("fedgrid.api.archive.opening.room_in", lambda folder: 1000)
    assert "and there is room for 0 MB" in complaint(capsys, "open", archive)
    assert list(here.iterdir()) == []


def test_provenance_names_code_and_commit(archive):
    with zipfile.ZipFile(archive) as file:
        said = json.loads(file.read("provenance.json"))
        environment = json.loads(file.read("environment.json"))
    assert len(said["cells"]) == 16 and said["study"] == "config/study.yaml"
    assert {cell["code"] for cell in said["cells"].values()} == set(said["modules"])
    assert all("fedgrid.engine.rounds" in modules for modules in said["modules"].values())
    assert environment["cells"][0]["cells"] == 16 and "torch" in environment["archived_with"]
