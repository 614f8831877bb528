"""The cluster of these tests itself: it runs jobs, shares GPUs, enforces memory, and leaves nothing behind."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cluster.one_node import eventually, obstacle

TESTS = Path(__file__).parents[1]


def submit(cluster, folder, script, *options):
    """The number of a new job; its output goes to NUMBER.out."""
    command = ["sbatch", "--parsable", "--ntasks=1", "--mem=100", "--output=%j.out", *options, f"--wrap={script}"]
    return cluster.run(*command, cwd=folder, check=True).stdout.strip()


def state(cluster, job):
    return cluster.queue("--states=all", "--format=%T", f"--jobs={job}")[0]


def filled(path, seconds=20):
    """The text of a file, as soon as it has a whole line."""
    assert eventually(lambda: path.exists() and path.read_text().endswith("\n"), seconds), f"{path} stays empty"
    return path.read_text().strip()


def test_two_jobs_have_a_gpu_each_and_a_third_waits(cluster, tmp_path):
    script = "echo $CUDA_VISIBLE_DEVICES; sleep 60"
    first, second, third = (submit(cluster, tmp_path, script, "--gpus=1", "-p", "gpu") for _ in range(3))
    assert {filled(tmp_path / f"{job}.out") for job in (first, second)} == {"0", "1"}
    assert state(cluster, third) == "PENDING"
    cluster.run("scancel", first, check=True)
    assert filled(tmp_path / f"{third}.out") in ("0", "1")
    cluster.run("scancel", second, third, check=True)


def test_a_job_above_its_memory_is_killed(cluster, tmp_path):
    eater = "import time; x = b'x' * (400 << 20); time.sleep(60)"
    job = submit(cluster, tmp_path, f'srun {sys.executable} -c "{eater}"')
    assert eventually(lambda: state(cluster, job) == "FAILED", 20)
    assert "memory limit" in (tmp_path / f"{job}.out").read_text()


@pytest.mark.skipif(bool(obstacle()), reason="no SLURM cluster here")
def test_nothing_outlives_a_killed_test(tmp_path):
    program = (
        "import sys, time; from pathlib import Path; from cluster.one_node import Cluster\n"
        "own = Cluster(Path(sys.argv[1])); own.start()\n"
        "own.run('sbatch', '--mem=100', '--wrap=sleep 61.5')\n"
        "print(own.first, flush=True); time.sleep(60)\n"
    )
    command = [sys.executable, "-c", program, tmp_path / "own"]
    environment = os.environ | {"PYTHONPATH": str(TESTS)}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as test:
        first = Path("/proc", test.stdout.readline().strip())
        assert first.exists()
        test.kill()
    assert eventually(lambda: not first.exists(), 10)
