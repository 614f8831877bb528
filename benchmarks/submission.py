"""What it costs to submit cells to SLURM one by one, as arrays, and packed: on a one-node cluster of its own.

    PYTHONPATH=tests:tests/workflow python -m benchmarks.submission --cells 1000 --how pack

Needs what tests/cluster needs (root, SLURM's Debian packages). The cells are trivial: one round of local training of an
MLP on four clients of digits. With --hold nothing is run: it is measured until all jobs wait in the queue.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from checkout import Checkout
from cluster.one_node import Cluster, obstacle

STUDY = """
name: trivial
data: digits
heterogeneity: [{{partition: homogeneous, clients: 4}}]
partition_seed: 0
seeds: {seeds}
model: {{name: mlp, hidden: 16, features: 8}}
training: {{rounds: 1}}
methods: [local]
compute: {{mem_mb: 700, runtime: 5, pack: {pack}}}
"""
QUICK = ["--slurm-init-seconds-before-status-checks=2", "--seconds-between-status-checks=2"]
PROFILE = ["--workflow-profile", "profiles/slurm", *QUICK]
ARRAYS = ["--slurm-array-jobs=train", "--slurm-array-limit=50", "--max-jobs-per-timespan=5000/1s"]
HOW = {"single": (1, []), "array": (1, ARRAYS), "pack": (50, [])}
"Cells in a pack, and options of Snakemake."


def measured(cells: int, how: str, hold: bool, folder: Path) -> dict[str, float]:
    """Seconds from Snakemake's start to the first and the last job in the queue, and to the end of all cells."""
    pack, options = HOW[how]
    there = Checkout(folder / "study", STUDY.format(seeds=list(range(cells)), pack=pack))
    command = [sys.executable, "-m", "snakemake", *PROFILE, "--jobs=5000", *options]
    seconds: dict[str, float] = {}
    with Cluster(folder / "slurm") as cluster, open(folder / "said.txt", "w") as said:
        there.snakemake("--until", "partition")  # data and partition, which are not measured
        if hold:
            cluster.run("scontrol", "update", "PartitionName=cpu", "State=DOWN", check=True)
        start, jobs = time.monotonic(), -(-cells // pack)
        targets = [] if hold else ["--until", "pack" if pack > 1 else "train"]
        pipes = {"stdout": said, "stderr": subprocess.STDOUT}
        run = cluster.popen(*command, *targets, cwd=there.path, env=there.environment, **pipes)
        while run.poll() is None:
            waiting = len(cluster.queue("--array", "--states=all"))
            for name, count in (("first job", 1), ("last job", jobs)):
                if waiting >= count:
                    seconds.setdefault(name, time.monotonic() - start)
            if hold and "last job" in seconds:
                break
            time.sleep(0.2)
        seconds["end"] = time.monotonic() - start
    done = len(there.cells())
    assert hold or done == cells, f"{done} of {cells} cells, see {folder}/said.txt"
    return seconds


def main() -> None:
    """Prints one line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=100)
    parser.add_argument("--how", choices=HOW, default="single")
    parser.add_argument("--hold", action="store_true", help="submit only")
    arguments = parser.parse_args()
    if reason := obstacle():
        sys.exit(f"no SLURM cluster here: {reason}")
    with tempfile.TemporaryDirectory(prefix="submission-") as folder:
        seconds_by_step = measured(arguments.cells, arguments.how, arguments.hold, Path(folder))
    times = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in seconds_by_step.items())
    print(f"{arguments.cells} cells, {arguments.how}{', held' if arguments.hold else ''}: {times}")


if __name__ == "__main__":
    main()
