"""The cluster of these tests leaves nothing behind; the studies that run on it see to the rest."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cluster.one_node import eventually, obstacle

TESTS = Path(__file__).parents[1]


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
