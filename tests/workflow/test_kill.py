"""Whatever is killed, the same command completes with the results of an undisturbed run."""

import contextlib
import json
import os
import random
import signal
import subprocess
import time

import pyarrow.parquet as pq
import pytest
from checkout import STUDY, Checkout
from forked import Forked

from fedgrid.jobs import warm

FEW = STUDY.replace("  local:\n  fedavg:\n", "").replace("  fedprox: {mu: 0.01}\n  fedper:\n", "  fedper:\n")
LONGER = FEW.replace("{rounds: 2}", "{rounds: 300, batch_size: 512, eval_every: 10}")
STUDIED = LONGER + "compute: {checkpoint_every: 0.2}\n"
TABLE, REPORT = "results/tiny/tables/accuracy.csv", "results/tiny/report.html"
WAIT = """
for look in $(seq 600); do
  [ -n "$WARM" ] && [ -n "$FEDGRID_WARM_SOCKET" ] && ! [ -e "$FEDGRID_WARM_SOCKET" ] || break
  sleep 0.1
done
"""
"What bash reads before a script: the wait of a cell for the warm worker."


class Patient(Checkout):
    """A checkout whose cells wait for the warm worker: a plain process of each would cost seconds."""

    @property
    def environment(self):
        (self.path / "wait.sh").write_text(WAIT)
        return super().environment | {"BASH_ENV": str(self.path / "wait.sh"), warm.VARIABLE: ""}


@pytest.mark.full
def test_sigkill_at_three_random_moments(tmp_path, forker):
    undisturbed = Forked(tmp_path / "undisturbed", STUDIED)
    undisturbed.snakemake(REPORT)
    killed, moments = Patient(tmp_path / "killed", STUDIED), random.Random(3)
    kill(killed, phase=begun, after=moments.uniform(0, 2), jobs_too=True)
    kill(killed, phase=cell_at_work, after=moments.uniform(0, 1), jobs_too=False)
    kill(killed, phase=cell_at_work, after=moments.uniform(0, 2), jobs_too=True)
    killed.snakemake()
    assert killed.planned() == {}
    assert [c.relative_to(killed.path) for c in killed.cells()] == [
        c.relative_to(undisturbed.path) for c in undisturbed.cells()
    ]
    for ours, theirs in zip(killed.cells(), undisturbed.cells(), strict=True):
        assert pq.read_table(ours).to_pydict() == pq.read_table(theirs).to_pydict(), ours
    assert (killed.path / TABLE).read_bytes() == (undisturbed.path / TABLE).read_bytes()
    assert not list((killed.path / "results/store/checkpoints").iterdir())


def kill(checkout, phase, after, jobs_too):
    """Starts Snakemake, waits until a phase of the run is reached, and some more seconds, and kills it.

    Snakemake is killed alone, so that its jobs live on as orphans, or with all its jobs.
    """
    with open(checkout.path / "said.txt", "a") as output:
        pipes = {"stdout": output, "stderr": output}
        run = subprocess.Popen(
            checkout.command(), cwd=checkout.path, env=checkout.environment, start_new_session=True, **pipes
        )
        start, patience = time.time(), time.monotonic() + 300
        while not phase(checkout, start) and run.poll() is None and time.monotonic() < patience:
            time.sleep(0.02)
        time.sleep(after)
        if jobs_too:
            os.killpg(run.pid, signal.SIGKILL)
        else:
            run.kill()
        assert run.wait() == -signal.SIGKILL, (checkout.path / "said.txt").read_text()


def begun(checkout, since):
    """Whether a run has begun since a moment (seconds since the epoch): it has written its plan."""
    return any(file.stat().st_mtime > since for file in (checkout.path / "results/store/plans").glob("*"))


def cell_at_work(checkout, since):
    """Whether some cell has noted a finished round since a moment (seconds since the epoch)."""
    for file in (checkout.path / "results/store/status").glob("*.json"):
        with contextlib.suppress(FileNotFoundError):  # it finished in between
            if file.stat().st_mtime > since and json.loads(file.read_text())["round"]:
                return True
    return False
