"""What a run asks for, packs, pins and knows about its cells."""

import errno
import fcntl
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml
from commands import complaint, output
from processes import PIPES
from studies import FOUR_CELLS, cell_command, plan_of, prepared, study_of, trained

from fedgrid.errors import UserError
from fedgrid.files import read_metadata
from fedgrid.grid.costs import measured
from fedgrid.grid.plan.plan_file import Plan
from fedgrid.jobs.partition import main as build_partition
from fedgrid.jobs.signals import TERMINATED
from fedgrid.jobs.status import Note, termination_reason
from fedgrid.run import cell_states, packs, slurm
from fedgrid.run.invocation import Invocation
from fedgrid.run.lock import StoreLock
from fedgrid.run.pin import Pin

ROOT = Path(__file__).parents[2]
QUICK = {"batch_size": 512, "eval_every": 10}
"Training whose rounds take some milliseconds."

pytestmark = pytest.mark.usefixtures("worker", "working_folder")


def planned(text=FOUR_CELLS, **changes):
    """The study, which also lies in study.yaml."""
    Path("study.yaml").write_text(yaml.safe_dump(yaml.safe_load(text) | changes, sort_keys=False))
    return study_of(text, **changes)


def note(cell, **facts):
    """A status as the cell's process writes it."""
    known = {"state": "running", "reason": "", "round": 1, "rounds": 2, "seconds": 1.0, "memory": 100.0, "job": ""}
    who = {"host": socket.gethostname(), "pid": os.getpid(), "began": time.time(), "time": time.time()}
    cell.status.parent.mkdir(parents=True, exist_ok=True)
    cell.status.write_text(json.dumps(known | who | facts))


# -- requests


def test_requests_come_from_measured_cells_of_the_method_and_data_set():
    study = prepared(planned())
    first, second, other = study.cells[0], study.cells[1], study.cells[2]
    assert measured.request([first], study.compute) == measured.Request(2000, 60)
    trained(first, study)
    head = read_metadata(first.file)
    asked = measured.request([second], study.compute)
    assert asked.runtime == 2  # a second and a half and the start, in whole minutes
    assert asked.mem_mb == pytest.approx(1.3 * head["costs"]["peak_memory_bytes"] / 1e6 + 500, abs=1)
    assert measured.request([other], study.compute) == measured.Request(2000, 60)
    longer = planned(training={"rounds": 2000})
    actual = measured.cost(longer.cells[0])
    assert actual.longest == pytest.approx(1000 * head["costs"]["seconds"]["total"])


def test_a_cell_that_finishes_while_somebody_watches_counts():
    study = prepared(planned())
    assert cell_states.seconds_left(study, cell_states.read(study)) is None
    trained(study.cells[0], study)
    assert cell_states.seconds_left(study, cell_states.read(study)) > 0


def test_a_damaged_cell_says_nothing_about_costs():
    study = planned()
    study.cells[0].file.parent.mkdir(parents=True)
    study.cells[0].file.write_bytes(b"half a file")
    assert measured.cost(study.cells[1]) is None


def test_every_attempt_asks_for_twice_as_much():
    asked = measured.Request(mem_mb=700, runtime=3)
    assert [asked.for_attempt(attempt) for attempt in (1, 2, 3)] == [
        measured.Request(700, 3),
        measured.Request(1400, 6),
        measured.Request(2800, 12),
    ]


def test_a_pack_asks_for_the_time_of_all_and_the_memory_of_those_beside_each_other():
    study = planned(compute={"mem_mb": 1000, "runtime": 10})
    alone, four, two = (measured.request(study.cells[:n], study.compute, m) for n, m in ((1, 1), (4, 1), (4, 2)))
    assert (alone.runtime, four.runtime, two.runtime) == (10, 37, 19)
    assert (alone.mem_mb, four.mem_mb, two.mem_mb) == (1000, 1000, 1500)


# -- packs


def test_packs_hold_unfinished_cells_alone():
    study = prepared(planned(compute={"pack": 3}))
    trained(study.cells[1], study)
    (keys,) = packs.chosen(study).values()
    assert keys == tuple(study.cells[i].key for i in (0, 2, 3))
    assert packs.chosen(planned(compute={"pack": 1})) == {}


def test_the_mark_of_a_pack_whose_results_are_gone_does_not_count():
    study = planned(compute={"pack": 4})
    (name,) = packs.chosen(study)
    packs.mark(study.store, name).parent.mkdir(parents=True)
    packs.mark(study.store, name).touch()
    (another,) = packs.chosen(study)
    assert another != name and not packs.mark(study.store, another).exists()


def test_a_pack_trains_its_cells_and_leaves_out_finished_ones(capsys):
    study = prepared(planned(compute={"pack": 4}))
    command = pack_command(study)
    trained(study.cells[0], study)
    before = study.cells[0].file.stat().st_mtime_ns
    run_pack(command)
    assert Path("done").exists() and all(cell.done for cell in study.cells)
    assert study.cells[0].file.stat().st_mtime_ns == before
    assert all(cell.log.read_text().endswith("ok\n") for cell in study.cells[1:])
    assert not any(cell.status.exists() for cell in study.cells)


@pytest.mark.full
@pytest.mark.parametrize(
    ("statement", "remark"),
    [
        ("raise ZeroDivisionError('on purpose')", "ZeroDivisionError: on purpose"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "was killed in round 0 of 2, by the system"),
        ("sys.exit()", "exited its process inside a round (sys.exit)"),
    ],
)
def test_a_failed_cell_does_not_stop_its_pack(statement, remark):
    Path("broken.py").write_text(BROKEN.replace("raise ZeroDivisionError", statement))
    methods = {"broken": {"method": "broken.py"}, "fedavg": None}
    study = prepared(planned(methods=methods, compute={"pack": 4}))
    output = run_pack(pack_command(study), code=1)
    assert "2 of 4 cells have no results" in output
    assert all(f"{cell.log}:" in output for cell in study.cells[:2])
    assert [cell.done for cell in study.cells] == [False, False, True, True] and not Path("done").exists()
    state = cell_states.read(study)[study.cells[0].key]
    assert state.name == "failed" and remark in state.remark


BROKEN = '''
"""FedAvg that fails."""
import os, signal, sys
from fedgrid.methods.fedavg import FedAvg as Plain

class Broken(Plain):
    """Fails."""
    title = "Broken"

    def round(self, fed, s):
        raise ZeroDivisionError
'''


@pytest.mark.full
def test_a_pack_that_receives_sigterm_resumes_from_checkpoints():
    study = prepared(planned(training={"rounds": 400} | QUICK, compute={"pack": 2, "checkpoint_every": 0.05}))
    command = pack_command(study)
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        patience = time.monotonic() + 300
        while not study.cells[0].checkpoint.exists() and time.monotonic() < patience:
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        assert process.wait(300) == TERMINATED
    assert "was interrupted in round" in cell_states.read(study)[study.cells[0].key].remark
    assert not study.cells[1].log.exists()  # it was not started
    run_pack(command)
    assert "continuing after round" in study.cells[0].log.read_text()


def pack_command(study):
    """The process of the study's first pack."""
    chosen = packs.chosen(study)
    file = plan_of(study, packs=chosen)
    return [sys.executable, "-m", "fedgrid.jobs.pack", str(file), next(iter(chosen)), "done"]


def run_pack(command, code=0):
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == code, run.stderr
    return run.stderr


# -- code


@pytest.fixture
def environment(monkeypatch):
    for name in ("FEDGRID_CODE", "PYTHONPATH"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def test_a_run_keeps_the_code_that_it_began_with(working_folder, environment):
    Path("mine.py").write_text("from helper import *\n" + BROKEN)
    Path("helper.py").write_text("NUMBER = 1\n")
    Path("another.py").write_text("NUMBER = 1\n")
    pin = Pin(planned(methods={"mine": {"method": "mine.py"}}))
    environment = pin.keep()
    code = Path(environment["FEDGRID_CODE"])
    ours = ["fedgrid", "outside"]
    assert sorted(path.name for path in code.iterdir()) == sorted(ours)
    assert sorted(path.name for path in (code / "outside").rglob("*.py")) == ["helper.py", "mine.py"]
    assert (code / "fedgrid/grid/study/ledger.json").is_file()
    assert (code / "fedgrid/workflow/scripts/job.sh").is_file()
    assert pin.keep() == environment and pin.changed() == []
    Path("helper.py").write_text("NUMBER = 2\n")
    assert [Path(name).name for name in pin.changed()] == ["helper.py"]
    asked = (
        "from fedgrid.loading import locate; import fedgrid; print(locate('methods', 'mine.py')[2], fedgrid.__file__)"
    )
    method, package = subprocess.check_output(
        [sys.executable, "-c", asked], text=True, env=os.environ | environment
    ).split()
    assert method.startswith(str(code)) and package.startswith(str(code))
    assert "NUMBER = 1" in (Path(method).parent / "helper.py").read_text()


# -- states


def test_states_tell_what_lives_waits_and_died():
    study = planned(seeds=[0, 1, 2])
    running, dead, failed, elsewhere, asked, _ = study.cells
    note(running)
    note(dead, pid=2**22 + 1, memory=321.0)
    note(failed, state="failed", reason="out of memory: MemoryError: too big")
    note(elsewhere, host="another", pid=1)
    note(asked, state="interrupted")
    actual = cell_states.read(study)
    assert [actual[cell.key].name for cell in study.cells] == [*RUNNING_AND_FAILED, "missing"]
    assert actual[running.key].share == 0.5
    assert "it held 321 MB" in actual[dead.key].remark
    assert actual[failed.key].remark == "out of memory: MemoryError: too big"
    assert "was interrupted in round 1 of 2; the next run continues it" in actual[asked.key].remark
    assert "was interrupted in round 1" in cell_states.failure(Note.read(running.status))  # Snakemake is stopping it
    lines = cell_states.failures(study, actual)
    assert len(lines) == 3 and lines[0].startswith("✗ local, digits, dirichlet-beta0.5-clients4, seed 1: was killed")


def test_why_cells_were_not_started():
    study = planned(seeds=[0, 1])
    failed, *others = study.cells
    note(failed, state="failed", reason="no memory")
    made = others[-1]
    for file in made.needs:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"")
    assert cell_states.not_started(study.cells, cell_states.read(study)) == [
        "2 cells not started: the run ended first",
        "1 cell not started: the run ended before the data or the partition was made",
    ]


def test_a_run_of_named_cells_is_about_these():
    study = planned(seeds=[0, 1])
    run = Invocation(Plan(study), Path("plan.json"), submits=False)
    first, second, *_ = study.cells
    for targets, cells in [
        ([], study.cells),
        (["all"], study.cells),
        ([str(first.file), "all"], study.cells),
        ([str(second.file), str(first.file)], [first, second]),
    ]:
        run.named = set(targets)
        assert run.requested_cells(study) == [*cells]


RUNNING_AND_FAILED = ["running", "failed", "failed", "running", "failed"]


def test_cells_are_queued_while_a_run_is_at_work_unless_they_failed_in_it():
    study = planned()
    study.store.mkdir(parents=True)
    lock = StoreLock(study.store)
    assert lock.holder() is None
    note(study.cells[0], state="failed", reason="earlier", time=time.time() - 100)
    lock.acquire()
    note(study.cells[1], state="failed", reason="now", time=time.time() + 1)
    actual = cell_states.read(study)
    assert [actual[cell.key].name for cell in study.cells] == ["queued", "failed", "queued", "queued"]
    assert StoreLock(study.store).holder().pid == os.getpid()
    lock.release()
    assert cell_states.read(study)[study.cells[0].key].name == "failed"


def test_who_looks_for_the_holder_does_not_stop_a_run_from_starting():
    study = planned()
    study.store.mkdir(parents=True)
    with open(study.store / ".lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        looked = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(0.3)"], pass_fds=[file.fileno()])
    StoreLock(study.store).acquire()
    looked.wait()


def test_a_file_system_without_locks_is_a_warning(monkeypatch, capsys):
    def flock(file, operation):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    study = planned()
    study.store.mkdir(parents=True)
    monkeypatch.setattr(fcntl, "flock", flock)
    StoreLock(study.store).acquire()
    assert "cannot be locked (Function not implemented): make sure that no other run uses" in capsys.readouterr().err
    assert StoreLock(study.store).holder() is None
    monkeypatch.setattr("fedgrid.run.lock.NO_LOCKS", ())
    with pytest.raises(UserError, match="cannot write in"):
        StoreLock(study.store).acquire()


def test_reasons_are_read_from_what_slurm_wrote(working_folder):
    for number, text in enumerate(SAID.values()):
        log = working_folder / f".snakemake/slurm_logs/rule_train/some_cell/{number}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(text)
    assert [slurm.reason(str(number)) for number in range(len(SAID))] == list(SAID)
    assert slurm.reason("99") == ""


def test_jobs_that_a_killed_run_left_behind_are_cancelled_and_no_others(working_folder, monkeypatch, capsys):
    key, other = "0123456789abcdef", "f" * 16
    jobs = (f"rule_train_x_{key}", working_folder), (other, working_folder), (key, "/")
    lines = [f"{comment}|{place}" for comment, place in jobs]
    (working_folder / "queue").write_text("".join(f"{number}|{line}\n" for number, line in enumerate(lines, start=1)))
    programs = {"squeue": "cat queue", "scancel": 'echo "$@" > cancelled; sed -i "/^$1|/d" queue'}
    for name, text in programs.items():
        (working_folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (working_folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{working_folder}:{os.environ['PATH']}")
    slurm.end_leftovers({key})
    assert (working_folder / "cancelled").read_text() == "1\n"
    assert "cancelling 1 job left by an earlier run" in capsys.readouterr().err
    slurm.end_leftovers({key})
    assert capsys.readouterr().err == ""


def test_a_run_does_not_begin_beside_a_job_that_does_not_end(working_folder, monkeypatch):
    key = "0123456789abcdef"
    monkeypatch.setattr(slurm, "jobs", lambda: [slurm.Job("7", f"rule_train_x_{key}", str(working_folder))])
    monkeypatch.setattr(slurm, "PATIENCE", 0.1)
    monkeypatch.setattr("subprocess.run", lambda *command, **options: None)
    with pytest.raises(UserError, match="job 7 of an earlier run does not end; cancel it with scancel"):
        slurm.end_leftovers({key})


def test_a_cell_elsewhere_is_believed_to_run_where_slurm_does_not_answer(monkeypatch):
    study = planned(seeds=[0])
    note(study.cells[0], host="another", pid=1, job="7")
    for jobs, state in ((None, "running"), ([], "failed")):
        monkeypatch.setattr(slurm, "jobs", lambda jobs=jobs: jobs)
        assert cell_states.read(study)[study.cells[0].key].name == state


SAID = {
    "time limit": "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT ***",
    "out of memory": "slurmstepd: error: Detected 1 oom_kill event in StepId=7.batch.",
    "cancelled": "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-01-01T00:00:00 ***",
    "": "Traceback: something else",
}


# -- commands


def test_status_says_times_and_logs_find_a_cell(capsys):
    study = prepared(planned())
    trained(study.cells[0], study)
    study.cells[0].log.parent.mkdir(parents=True)
    study.cells[0].log.write_text("".join(f"line {i}\n" for i in range(30)))
    note(study.cells[1], round=1, rounds=2)
    lock = StoreLock(study.store)
    lock.acquire()
    text = output(capsys, "status", "--configfile", "study.yaml")
    assert "local   ✓▶" in text and "fedavg  ○○" in text
    assert "✓ 1 done, ! 0 diverged, ▶ 1 running, ○ 2 queued, ✗ 0 failed, · 0 missing" in text
    assert re.search(r"running for .*; about ", text) and "▶ local, digits" in text and "round 1 of 2" in text
    lock.release()
    for words in (["local", "s0"], [study.cells[0].key[:8]], [str(study.cells[0].file)]):
        text = output(capsys, "logs", "--configfile", "study.yaml", "--lines", "2", *words)
        assert text.endswith("line 28\nline 29\n") and "seed 0: done" in text
    assert "no log" in output(capsys, "logs", "--configfile", "study.yaml", "fedavg", "1")
    assert "2 cells of s fit 'local': say more" in complaint(capsys, "logs", "--configfile", "study.yaml", "local")
    assert "no cell of s fits 'fedprox'" in complaint(capsys, "logs", "--configfile", "study.yaml", "fedprox")
    other = planned(training={"rounds": 5})
    assert other.cells[0].key != study.cells[0].key
    assert "line 29" in output(capsys, "logs", "--configfile", "study.yaml", study.cells[0].key[:8])


def test_watching_ends_when_nothing_runs(capsys, monkeypatch):
    study, looks = planned(), []
    note(study.cells[0])

    def slept(seconds):
        looks.append(seconds)
        note(study.cells[0], state="failed", reason="enough")

    monkeypatch.setattr("fedgrid.cli.progress.time.sleep", slept)
    text = output(capsys, "status", "--configfile", "study.yaml", "--watch")
    assert looks == [2.0] and text.count("local") >= 2 and "enough" in text


@pytest.mark.full
@pytest.mark.parametrize("kind", ["representations", "state"])
def test_a_cell_without_one_of_its_artifacts_is_not_finished(kind):
    study = prepared(planned(artifacts=[kind]))
    cell = study.cells[0]
    trained(cell, study)
    kept = cell.kept_beside(cell.file)[kind]
    assert "already finished" in trained(cell, study).stdout
    kept.unlink()
    trained(cell, study)
    assert kept.is_file() and cell.done


@pytest.mark.full
def test_two_processes_on_one_cell_do_each_other_no_harm():
    """One may have outlived an earlier run; results are the same and are renamed whole."""
    study = prepared(planned(training={"rounds": 200} | QUICK, compute={"checkpoint_every": 0.05}))
    cell = study.cells[0]
    command = cell_command(cell, study)
    with subprocess.Popen(command, **PIPES) as first, subprocess.Popen(command, **PIPES) as second:
        texts = [first.communicate()[0], second.communicate()[0]]
    assert first.returncode == second.returncode == 0, texts
    assert cell.done and not cell.status.exists() and not cell.checkpoint.exists()
    actual = pq.read_table(cell.file).to_pydict()
    cell.file.unlink()
    trained(cell, study)
    assert pq.read_table(cell.file).to_pydict() == actual


def test_a_job_of_another_plan_says_so_in_one_sentence(capsys):
    assert build_partition(["none.json", "0" * 16, "0"]) == 2
    assert capsys.readouterr().err == "fedgrid: none.json does not exist\n"


@pytest.mark.parametrize(
    ("left", "why"),
    [
        ("0:28", "time limit"),
        ("1:30", "time limit"),
        ("1:31", ""),
        ("1:00:10", ""),
        ("1-00:00:00", ""),
        ("INVALID", ""),
    ],
)
def test_a_request_to_end_near_the_time_limit_is_for_that(working_folder, monkeypatch, left, why):
    monkeypatch.setenv("PATH", f"{working_folder}:{os.environ['PATH']}")
    (working_folder / "squeue").write_text(f'#!/bin/sh\n[ "$3" = 7 ] && echo {left}\n')
    (working_folder / "squeue").chmod(0o755)
    assert termination_reason() == ""  # no job of SLURM
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    assert termination_reason() == why
