"""Studies on a real SLURM of one node: the same numbers as here, whatever is cancelled, killed or lacking meanwhile."""

import json
import subprocess
import sys
import textwrap

import pytest
from checkout import Checkout
from cluster.one_node import eventually

QUICK = ["--slurm-init-seconds-before-status-checks=1", "--seconds-between-status-checks=1", "--latency-wait=5"]
PROFILE = ["--workflow-profile", "profiles/slurm", "--slurm-status-command=squeue", "--nocolor", *QUICK]
STUDY = """
name: tiny
data: digits
heterogeneity: [{{partition: dirichlet, beta: 0.5, clients: 4}}]
seeds: {seeds}
model: {{name: mlp, hidden: 16, features: 8}}
training: {{rounds: {rounds}}}
methods:
  {methods}
compute: {compute}
"""


def study(methods, seeds="[0, 1]", rounds=2, compute="{}"):
    return STUDY.format(methods=methods, seeds=seeds, rounds=rounds, compute=compute)


class Submitted(Checkout):
    """A copy of the repository whose cells are submitted to a cluster."""

    def __init__(self, path, cluster, text):
        super().__init__(path, text)
        self.cluster = cluster

    def snakemake_there(self, *arguments, code=0):
        """What a run says whose cells are submitted; its exit code is checked."""
        run = self.cluster.run(*self._submitting(*arguments), cwd=self.path, env=self.environment)
        assert run.returncode == code, run.stdout[-4000:]
        return run.stdout

    def started_there(self, *arguments):
        """A run of Snakemake and its process's number inside the cluster."""
        command = ["sh", "-c", 'echo $$ > pid; exec "$@"', "sh", *self._submitting(*arguments)]
        pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        run = self.cluster.popen(*command, cwd=self.path, env=self.environment, **pipes)
        assert eventually((self.path / "pid").exists, 10)
        return run, lambda: int((self.path / "pid").read_text())

    def fedgrid(self, *arguments):
        """What a command of fedgrid says inside the cluster."""
        command = [sys.executable, "-m", "fedgrid.cli.main", *arguments]
        return self.cluster.run(*command, cwd=self.path, env=self.environment).stdout

    def method(self, name, body):
        """A method in a file, which does `body` in every round and then FedAvg's."""
        text = f"""
            import json, os, time
            from pathlib import Path
            from fedgrid.methods.fedavg import FedAvg as Plain

            class {name.title()}(Plain):
                \"\"\"FedAvg, and something that tests look at.\"\"\"

                title = "{name.title()}"

                def round(self, fed, s):
                    {body}
                    return super().round(fed, s)
        """
        (self.path / f"{name}.py").write_text(textwrap.dedent(text))

    def _submitting(self, *arguments):
        return [sys.executable, "-m", "snakemake", *PROFILE, *arguments]


THREE = "local:\n  fedavg:\n  fedcosr:"


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """The tables of a local run."""
    here = Checkout(tmp_path_factory.mktemp("here") / "tree", study(THREE, seeds="[0]"))
    here.snakemake("results/tiny/tables/accuracy.html")
    return tables(here)


def tables(checkout):
    found = {file.name: file.read_bytes() for file in (checkout.path / "results/tiny/tables").glob("accuracy.*")}
    assert len(found) == 4
    return found


@pytest.mark.parametrize("compute", ["{}", "{pack: 2}"])
def test_tables_equal_those_of_a_local_run(cluster, tmp_path, expected, compute):
    there = Submitted(tmp_path, cluster, study(THREE, seeds="[0]", compute=compute))
    counting = 'with open("resolved.txt", "a") as file:\n        print(os.environ.get("SLURM_JOB_ID"), file=file)\n    '
    there.edit("src/fedgrid/grid/study.py", "store, root = ", f"{counting}store, root = ")
    there.snakemake_there("results/tiny/tables/accuracy.html")
    assert tables(there) == expected
    assert (tmp_path / "resolved.txt").read_text() == "None\n"  # once, where the run began, and on no node
    assert "3 done" in there.fedgrid("status")


def test_cancelled_cells_and_a_killed_run_go_on(cluster, tmp_path):
    text = study("slow: {method: slow.py}", seeds="[0, 1, 2, 3, 4, 5]", rounds=8, compute="{checkpoint_every: 0.1}")
    there = Submitted(tmp_path, cluster, text)
    there.method("slow", "time.sleep(0.5)")
    run, pid = there.started_there("--retries=0", "--until", "train")
    assert eventually(lambda: len(there.cells()) >= 2, 180)
    running = [line.split()[0] for line in cluster.queue("--states=running", "--format=%A %Z") if str(tmp_path) in line]
    cluster.run("scancel", *running, check=True)
    cluster.kill(pid())
    run.wait()
    assert eventually(lambda: "was asked to end" in there.fedgrid("status"), 60), there.fedgrid("status")
    finished = {cell: cell.stat().st_mtime_ns for cell in there.cells()}
    said = there.snakemake_there("--until", "train")
    assert {cell: cell.stat().st_mtime_ns for cell in finished} == finished
    assert len(there.cells()) == 6
    logs = "".join(file.read_text() for file in (tmp_path / "results/store/logs/cells").rglob("*.log"))
    assert "continuing after round" in logs, said
    assert not [line for line in cluster.queue("--format=%Z") if str(tmp_path) in line]


def test_a_cell_without_enough_memory_gets_more_and_is_reported(cluster, tmp_path):
    text = study(
        "greedy: {method: greedy.py}\n  fedavg:", seeds="[0]", rounds=3, compute="{memory: 900, checkpoint_every: 0.1}"
    )
    there = Submitted(tmp_path, cluster, text)
    there.method("greedy", "held = b'x' * (900 << 20) if fed.round else b''; time.sleep(3 * fed.round)")
    there.snakemake_there("--retries=0", "--until", "train", code=1)
    status = there.fedgrid("status")
    assert "1 done" in status and "1 failed" in status and "out of memory in round" in status
    there.snakemake_there("--retries=1", "--until", "train")  # 900 MB again, then 1,800
    assert "2 done" in there.fedgrid("status")


def test_a_cell_at_its_time_limit_writes_its_checkpoint_and_goes_on(cluster, tmp_path):
    # longer than a minute; SLURM sends the signal some time in the last half of it
    text = study("slow: {method: slow.py}", seeds="[0]", rounds=62, compute="{minutes: 1}")
    there = Submitted(tmp_path, cluster, text)
    there.method("slow", "time.sleep(1)")
    there.snakemake_there("--retries=0", "--until", "train", code=1)
    assert "time limit" in there.fedgrid("status")
    there.snakemake_there("--retries=1", "--until", "train")
    log = next((tmp_path / "results/store/logs/cells").rglob("*.log")).read_text()
    assert "continuing after round" in log


def test_gpus_are_granted_to_one_cell_each(cluster, tmp_path):
    there = Submitted(tmp_path, cluster, study("spy: {method: spy.py}", seeds="[0, 1, 2, 3]", rounds=2))
    there.method(
        "spy",
        "Path(f'seen-{os.getpid()}-{fed.round}.json').write_text(json.dumps("
        "[os.environ['CUDA_VISIBLE_DEVICES'], time.time(), time.sleep(0.5), time.time()]))",
    )
    there.snakemake_there("--set-resources", "train:gpu=1", "train:slurm_partition=gpu", "--until", "train")
    seen = [json.loads(file.read_text()) for file in tmp_path.glob("seen-*.json")]
    assert len(seen) == 8 and {card for card, *_ in seen} == {"0", "1"}
    assert not overlaps(seen)


def overlaps(seen):
    """Pairs of (card, begin, _, end) that were on one card at a time."""
    return [(a, b) for i, a in enumerate(seen) for b in seen[:i] if a[0] == b[0] and a[1] < b[3] and b[1] < a[3]]
