"""Whatever is killed, the same command completes with the results of an undisturbed run."""

import contextlib
import json
import os
import random
import signal
import subprocess
import time

import pyarrow.parquet as pq
from checkout import STUDY, Checkout

FEW = STUDY.replace("  local:\n  fedavg:\n", "").replace("  fedper:\n", "")
LONGER = FEW.replace("{rounds: 2}", "{rounds: 120}") + "compute: {checkpoint_every: 0.2}\n"


def test_sigkill_at_five_random_moments(tmp_path):
    undisturbed = Checkout(tmp_path / "undisturbed", LONGER)
    undisturbed.snakemake()
    killed = Checkout(tmp_path / "killed", LONGER)
    moments = random.Random(3)
    for attempt in range(5):
        kill(killed, after=moments.uniform(0.0, 2.5), at_work=attempt > 0, jobs_too=attempt % 2 == 0)
    killed.snakemake()
    assert killed.planned() == {}
    assert [c.relative_to(killed.path) for c in killed.cells()] == [
        c.relative_to(undisturbed.path) for c in undisturbed.cells()
    ]
    for ours, theirs in zip(killed.cells(), undisturbed.cells(), strict=True):
        assert pq.read_table(ours).to_pydict() == pq.read_table(theirs).to_pydict(), ours
    table = "results/tiny/tables/accuracy.csv"
    assert (killed.path / table).read_bytes() == (undisturbed.path / table).read_bytes()
    assert not list((killed.path / "results/store/checkpoints").iterdir())


def kill(checkout, after, at_work, jobs_too):
    """Starts Snakemake, waits (first until a cell is at work, if asked), and kills it.

    Snakemake is killed alone, so that its jobs live on as orphans, or with all its jobs.
    """
    with open(checkout.path / "said.txt", "a") as said:
        pipes = {"stdout": said, "stderr": said}
        run = subprocess.Popen(
            checkout.command(), cwd=checkout.path, env=checkout.environment, start_new_session=True, **pipes
        )
        start, patience = time.time(), time.monotonic() + 60
        while at_work and not cell_at_work(checkout, start) and time.monotonic() < patience:
            time.sleep(0.05)
        time.sleep(after)
        if jobs_too:
            os.killpg(run.pid, signal.SIGKILL)
        else:
            run.kill()
        run.wait()


def cell_at_work(checkout, since):
    """Whether some cell has noted a finished round since a moment (seconds since the epoch)."""
    for file in (checkout.path / "results/store/status").glob("*.json"):
        with contextlib.suppress(FileNotFoundError):  # it finished in between
            if file.stat().st_mtime > since and json.loads(file.read_text())["round"]:
                return True
    return False
