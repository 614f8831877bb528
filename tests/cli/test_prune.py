"""What a study still needs, how far it is, and what no study needs any more."""

import json
import os
import shutil
import socket
import time
from dataclasses import replace

import pytest
from studies import FOUR_CELLS, RUN, plan_of, study_of

from fedgrid.cli.main import main
from fedgrid.grid.plan import manifest
from fedgrid.run.cell_states import DIRECT
from fedgrid.run.direct import DirectJobs
from fedgrid.run.lock import StoreLock

OTHER = FOUR_CELLS.replace("[local, fedavg]", "[fedprox]")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder in which two cells were trained: one of the study, and one of `OTHER`."""
    folder = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(["run", "local", *RUN]) == main(["run", "fedprox", *RUN]) == 0
    shutil.rmtree(folder / "results/store/code")
    return folder


@pytest.fixture
def study(folder, trained):
    """The study, with a copy of the trained cells."""
    shutil.copytree(trained, folder, dirs_exist_ok=True)
    return study_of()


def stored(folder):
    return {file for file in folder.rglob("*") if file.is_file()}


def not_needed(output, *options):
    """The files that `fedgrid prune` lists, and what it says in the end."""
    *lines, total, _ = output("prune", *options).splitlines()
    assert all(line.startswith("not needed  ") for line in lines)
    return [line.removeprefix("not needed  ") for line in lines], total


def of_other():
    """The file of the cell that is not the study's."""
    return str(study_of(OTHER).cells[0].file)


@pytest.mark.parametrize("command", ["plan", "status"])
def test_a_look_at_a_study_that_was_never_run_leaves_no_trace(folder, output, command):
    text = output(command, "--configfile", "study.yaml")
    assert ("4 cells, 0 cached, 4 to run" if command == "plan" else "· 4 missing") in text
    assert [file.name for file in folder.iterdir()] == ["study.yaml"]


def test_plan_counts_the_cells_and_lists_them(study, output, untouched):
    with untouched():
        text = output("plan", "--configfile", "study.yaml", "--cells").splitlines()
    assert " ".join(text[0].split()) == "local 1 cached 1 to run"
    assert " ".join(text[1].split()) == "fedavg 0 cached 2 to run"
    assert text[-2] == "s: 4 cells, 1 cached, 3 to run"
    assert text[-1].startswith("left: about ")
    first, *others = study.cells
    assert text[2:-2] == [
        f"cached  {first.description}  {first.file}",
        *(f"to run  {cell.description}  {cell.file}" for cell in others),
    ]


def test_status_says_how_every_cell_is_doing(study, output, untouched):
    _, running, failed, killed = study.cells
    running.status.parent.mkdir(exist_ok=True)
    noted = {"rounds": 2, "round": 1, "time": time.time(), "host": socket.gethostname()}
    running.status.write_text(json.dumps(noted | {"state": "running", "pid": os.getpid()}))
    failed.status.write_text(json.dumps(noted | {"state": "failed", "reason": "MemoryError: too big", "pid": 1}))
    killed.status.write_text(json.dumps(noted | {"state": "running", "pid": 2**22 + 1}))
    with untouched():
        text = output("status", "--configfile", "study.yaml")
    assert "local   ✓▶" in text and "fedavg  ✗✗" in text
    assert "✓ 1 done, ! 0 diverged, ▶ 1 running, ○ 0 queued, ✗ 2 failed, · 0 missing" in text
    assert "MemoryError: too big" in text and "was killed in round 1 of 2" in text


def test_prune_finds_what_the_latest_run_does_not_need(study, output, folder, untouched, monkeypatch):
    plan_of(study)
    with untouched():
        files, total = not_needed(output)
        assert files == [of_other()]
        assert total.startswith("1 of 7 files") and total.endswith("delete them with fedgrid prune --delete")
        monkeypatch.chdir("/")  # where it is called from does not matter
        files, _ = not_needed(output, "--results", folder / "results")
        assert files == [str(folder / of_other())]
    monkeypatch.chdir(folder)
    before = stored(folder)
    assert output("prune", "--delete").startswith(f"deleted  {of_other()}\n")
    assert before - stored(folder) == {folder / of_other()}
    assert not_needed(output) == ([], "0 of 6 files, 0.0 MB")


def test_prune_beside_a_single_cell_leaves_what_it_needs(folder, output, monkeypatch):
    """A cell that is computed by hand belongs to no study; while it is, nothing that it needs is pruned."""
    seen = []
    train = DirectJobs.train

    def trained(jobs, cell, *rest):
        seen.extend(cell.needs)
        seen.append(not_needed(output))
        return train(jobs, cell, *rest)

    monkeypatch.setattr(DirectJobs, "train", trained)
    assert main(["run", "fedprox", *RUN]) == 0
    *needs, (listed, _) = seen
    assert needs and not set(map(str, needs)) & set(listed)
    assert set(map(str, needs)) < set(not_needed(output)[0])  # afterwards it is as any cell that no study has


@pytest.mark.parametrize("name", ["config/study.yaml", "mine.yaml"])
def test_prune_keeps_the_results_of_an_edit_that_was_reverted(study, output, folder, name):
    """The latest run and the tables are those of the edit; the file says again what it said before."""
    file = folder / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(OTHER)
    os.utime(plan_of(study_of(FOUR_CELLS), configfile=name), (1, 1))
    plan_of(study_of(FOUR_CELLS, training={"rounds": 3}), configfile=name)
    assert of_other() not in not_needed(output)[0]
    assert output("prune").splitlines()[-1] == f"all else is needed by tables and latest runs in results, {name}"


def test_prune_stops_at_a_plan_that_it_cannot_read(study, complaint):
    plan_of(study).write_text("{}")
    files = list(study.store.rglob("*.parquet"))
    message = complaint("prune", "--delete")
    assert files and all(file.is_file() for file in files)
    assert "so what its study needs is unknown; run that study again, or delete this file and name" in message


def test_prune_deletes_the_plans_of_earlier_runs(study, output, folder):
    earlier = plan_of(study_of(OTHER))
    os.utime(earlier, (1, 1))
    latest = plan_of(study)
    files, _ = not_needed(output)
    assert files == [of_other(), str(earlier)]
    output("prune", "--delete")
    assert (folder / latest).is_file() and not (folder / earlier).exists()


NEEDED_BY = ["the latest run of another study", "the tables of the study", "tables of a paper", "a study named"]


@pytest.mark.parametrize("needed_by", NEEDED_BY)
def test_prune_keeps_what_is_needed_by(study, output, folder, needed_by):
    options = []
    if needed_by == "the latest run of another study":
        plan_of(study_of(OTHER, name="other"))
    elif needed_by == "the tables of the study":  # of an earlier run, whose plan is not the latest any more
        finished = study_of(OTHER)
        manifest.write(finished, manifest.file(finished, finished.experiments[0]))
    elif needed_by == "tables of a paper":  # of an experiment, when another one was run alone since
        finished = study_of(OTHER, name="paper", experiments={"a": None})
        manifest.write(finished, manifest.file(finished, finished.experiments[0]))
    else:
        (folder / "other.yaml").write_text(OTHER)
        options = ["--configfile", "other.yaml"]
    plan_of(study)
    assert not_needed(output, *options)[0] == []


def test_prune_leaves_a_cell_that_is_trained_directly_its_code(study, output):
    (cell, *_), code = study.cells, study.store / "code" / ("0" * 16)
    code.mkdir(parents=True)
    plan_of(replace(study, name=f"{DIRECT}{cell.key}"))
    note = {"state": "running", "host": socket.gethostname(), "time": time.time(), "pid": os.getpid()}
    cell.status.parent.mkdir(exist_ok=True)
    cell.status.write_text(json.dumps(note))
    assert str(code) not in not_needed(output)[0]
    cell.status.write_text(json.dumps(note | {"pid": 2**22 + 1}))
    assert str(code) in not_needed(output)[0]


def test_prune_leaves_a_run_that_is_at_work_its_code(study, output):
    plan_of(study)
    kept = [study.store / "code" / ("0" * 16), study.store / "packs" / f"{'1' * 16}.done"]
    kept[0].mkdir(parents=True)
    (kept[0] / "a.py").write_text("")
    kept[1].parent.mkdir()
    kept[1].write_text("")
    lock = StoreLock(study.store)
    lock.acquire()
    assert not_needed(output)[0] == [of_other()]
    lock.release()
    assert not_needed(output)[0] == [of_other(), *map(str, kept)]
    output("prune", "--delete")
    assert not any(file.exists() for file in kept)
