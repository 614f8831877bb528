"""Studies on a real SLURM of one node: the same numbers as here, whatever is cancelled, killed or lacking meanwhile."""

import json
import subprocess
import sys
import textwrap
import time

import pytest
from checkout import Checkout, accuracy_tables
from cluster.one_node import eventually
from processes import PIPES

# by itself the executor waits ten seconds longer after each look at its jobs that finds none finished
IMPATIENT = """
from snakemake.cli import main
from snakemake_executor_plugin_slurm import Executor
Executor.next_seconds_between_status_checks = property(lambda executor: 1, lambda executor, seconds: None)
main()
"""
STOCK = ["--workflow-profile", "profiles/slurm", "--nocolor"]
QUICK = [*STOCK, "--slurm-init-seconds-before-status-checks=1", "--latency-wait=5"]
DISABLED = "Slurm accounting storage is disabled"
NO_ACCOUNTING = f"SLURM has no accounting here ({DISABLED}), so squeue is asked how jobs end"
PATIENCE = 600
"Seconds within which a run ends that knows how its jobs do."
STUDY = """
name: tiny
data: digits
heterogeneity: [{{partition: dirichlet, beta: 0.5, clients: 4}}]
seeds: {seeds}
model: {{name: mlp, hidden: 16, features: 8}}
training: {{rounds: 2}}
methods:
  {methods}
compute: {compute}
"""
METHOD = """
import json, os, time
from pathlib import Path
from fedgrid.methods.fedavg import FedAvg as Plain

JOB = os.environ.get("SLURM_JOB_ID")

class {title}(Plain):
    \"\"\"FedAvg, and something that tests look at.\"\"\"

    title = "{title}"

    def round(self, fed, s):
{body}
        return super().round(fed, s)
"""
# a cell waits in its second round, for minutes at most, until it is let on or asked to end; one that continues does not
WAITING = """
begin = time.time()
if fed.round and Path(f"seen-{JOB}-0").exists():
    Path(f"waits-{JOB}").touch()
    while not Path(f"on-{JOB}").exists() and time.time() < begin + 600:
        time.sleep(0.1)
time.sleep(0.5)
Path(f"seen-{JOB}-{fed.round}").write_text(json.dumps([os.environ.get("CUDA_VISIBLE_DEVICES"), begin, time.time()]))
"""
GREEDY = "held = b'x' * (900 << 20) if fed.round else b''; time.sleep(5 * fed.round)"


def study(methods, seeds="[0]", compute="{}"):
    return STUDY.format(methods=methods, seeds=seeds, compute=compute)


class Submitted(Checkout):
    """A copy of the repository whose cells are submitted to a cluster."""

    def __init__(self, path, cluster, text):
        super().__init__(path, text)
        self.cluster = cluster

    def snakemake_there(self, *arguments, code=0):
        """What a run says whose cells are submitted; its exit code is checked."""
        return ended(self.started_there(*arguments), code)

    def started_there(self, *arguments):
        """A run of Snakemake that goes on; the file `pid` has its number inside the cluster."""
        noting = ["sh", "-c", 'echo $$ > pid; exec "$@"', "sh"]
        return self.started(*noting, sys.executable, "-c", IMPATIENT, *QUICK, *arguments)

    def started(self, *command):
        """Any command inside the cluster that goes on; what it says is kept."""
        return self.cluster.popen(*command, cwd=self.path, env=self.environment, **PIPES)

    def fedgrid(self, *arguments):
        """What a command of fedgrid says inside the cluster."""
        command = [sys.executable, "-m", "fedgrid.cli.main", *arguments]
        return self.cluster.run(*command, cwd=self.path, env=self.environment).stdout

    def method(self, name, body):
        """A method in a file, which does `body` in every round and then FedAvg's."""
        text = METHOD.format(title=name.title(), body=textwrap.indent(body, " " * 8))
        (self.path / f"{name}.py").write_text(text)

    def waiting(self, count):
        """The jobs of the first `count` cells of the method `WAITING` that wait, or have waited."""
        assert eventually(lambda: len(list(self.path.glob("waits-*"))) >= count, 300), self.fedgrid("status")
        return sorted(file.name.removeprefix("waits-") for file in self.path.glob("waits-*"))

    def hurry(self, job):
        """Shortens a job's time limit, which is in whole minutes: 40 to 100 seconds are left."""
        minutes, seconds = map(int, self.cluster.queue("--format=%M", f"--jobs={job}")[0].split(":"))
        limit = minutes + 1 + (seconds + 40) // 60
        self.cluster.run("scontrol", "update", f"jobid={job}", f"TimeLimit={limit}", check=True)

    def logs(self):
        """What all cells have said."""
        return "".join(file.read_text() for file in (self.path / "results/store/logs/cells").rglob("*.log"))


def ended(run, code=0):
    """What a run has said when it ends; its exit code is checked."""
    try:
        output, _ = run.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        run.kill()
        raise
    assert run.returncode == code, output[-4000:]
    return output


THREE = "local:\n  fedavg:\n  fedcosr:"


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """The tables of a local run."""
    here = Checkout(tmp_path_factory.mktemp("here") / "tree", study(THREE))
    here.snakemake("results/tiny/report.html")
    return accuracy_tables(here.path / "results")


@pytest.mark.parametrize("compute", [pytest.param("{}", marks=pytest.mark.full), "{pack: 2}"])
def test_tables_equal_those_of_a_local_run(cluster, tmp_path, expected, compute):
    there = Submitted(tmp_path, cluster, study(THREE, compute=compute))
    counting = 'with open("resolved.txt", "a") as file:\n        print(os.environ.get("SLURM_JOB_ID"), file=file)\n    '
    there.edit(
        "src/fedgrid/grid/study/resolve.py",
        "    file = study_file(study)\n",
        f"    {counting}file = study_file(study)\n",
    )
    assert NO_ACCOUNTING in there.snakemake_there("results/tiny/report.html")
    assert accuracy_tables(tmp_path / "results") == expected
    assert (tmp_path / "resolved.txt").read_text() == "None\n"  # once, where the run began, and on no node
    assert "3 done" in there.fedgrid("status")


@pytest.mark.full
def test_a_list_of_missing_cells_is_submitted_and_no_other_cell(cluster, tmp_path):
    there = Submitted(tmp_path, cluster, study(THREE))
    there.fedgrid("plan", "--missing", "--parts", "2")
    lists = sorted(tmp_path.glob("todo-*.txt"))
    listed = [sum(not line.startswith("#") for line in file.read_text().splitlines()) for file in lists]
    assert sorted(listed) == [1, 2]
    waits = "--snakemake=--slurm-init-seconds-before-status-checks=1 --latency-wait=5"
    for number, file in enumerate(lists):
        ended(there.started(sys.executable, "-m", "fedgrid.cli.main", "go", "--slurm", "--cells", file.name, waits))
        assert len(there.cells()) == sum(listed[: number + 1])
        assert not (tmp_path / "results/tiny/report.html").exists()
    assert "3 done" in there.fedgrid("status")


@pytest.mark.full
def test_without_accounting_the_stock_profile_ends_soon_after_the_last_cell(cluster, tmp_path):
    there = Submitted(tmp_path, cluster, study(THREE))
    doctor = there.fedgrid("doctor")
    assert f"✓ sacct      no accounting ({DISABLED}), so runs ask squeue how jobs end\n" in doctor
    output = ended(there.started(sys.executable, "-m", "snakemake", *STOCK, "results/tiny/report.html"))
    assert NO_ACCOUNTING in output
    assert time.time() - max(cell.stat().st_mtime for cell in there.cells()) < 120


@pytest.mark.full
def test_cancelled_cells_and_a_killed_run_resume_with_a_gpu_for_each_cell(cluster, tmp_path):
    there = Submitted(tmp_path, cluster, study("slow: {method: ../slow.py}", seeds="[0, 1, 2]"))
    there.method("slow", WAITING)
    training = ["--set-resources", "train:gpu=1", "train:slurm_partition=gpu", "--until", "train"]
    run = there.started_there("--retries=0", *training)
    first, second = there.waiting(2)  # the third cell gets the GPU of the first, which is let on
    (tmp_path / f"on-{first}").touch()
    there.waiting(3)
    finished = {cell: cell.stat().st_mtime_ns for cell in there.cells()}
    assert len(finished) == 1
    cluster.run("scancel", second, check=True)
    cluster.kill(int((tmp_path / "pid").read_text()))  # and the job of the third is left behind
    run.communicate()
    assert eventually(lambda: "was interrupted" in there.fedgrid("status"), 60), there.fedgrid("status")
    output = there.snakemake_there(*training)
    assert "left by an earlier run" in output
    assert {cell: cell.stat().st_mtime_ns for cell in finished} == finished
    assert len(there.cells()) == 3
    assert there.logs().count("continuing after round") == 2, output
    assert not [line for line in cluster.queue("--format=%Z") if str(tmp_path) in line]
    seen = [json.loads(file.read_text()) for file in tmp_path.glob("seen-*")]
    assert len(seen) == 6 and {card for card, *_ in seen} == {"0", "1"}
    assert not overlaps(seen)


def overlaps(seen):
    """Pairs of (card, begin, end) that were on one card at a time."""
    return [(a, b) for i, a in enumerate(seen) for b in seen[:i] if a[0] == b[0] and a[1] < b[2] and b[1] < a[2]]


@pytest.mark.full
def test_cells_without_enough_time_or_memory_are_reported_and_retried_with_more(cluster, tmp_path):
    methods = "slow: {method: ../slow.py}\n  greedy: {method: ../greedy.py}\n  fedavg:"
    there = Submitted(tmp_path, cluster, study(methods, compute="{mem_mb: 900, runtime: 20}"))
    there.method("slow", WAITING)
    there.method("greedy", GREEDY)
    run = there.started_there("--retries=0", "--until", "train")
    (slow,) = there.waiting(1)
    assert cluster.queue("--format=%l", f"--jobs={slow}") == ["20:00"]
    there.hurry(slow)
    ended(run, code=1)
    status = there.fedgrid("status")
    assert "1 done" in status and "2 failed" in status
    assert "out of memory in round" in status and "time limit" in status
    there.snakemake_there("--retries=1", "--until", "train")  # for the greedy one 900 MB again, then 1,800
    assert "3 done" in there.fedgrid("status")
    assert "continuing after round" in there.logs()
