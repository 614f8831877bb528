"""What a job on a cluster's node costs before its cell trains: from the job's begin to the first round.

    PYTHONPATH=tests:tests/workflow python -m benchmarks.node_start --rows 20 --seeds 50 --jobs 6

On a one-node cluster of its own, as `benchmarks.submission`. The study has rows × seeds cells, of which a few are run
one after the other. The begin of a job is the start of the script that slurmd runs, to a hundredth of a second.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from checkout import Checkout
from cluster.one_node import Cluster, obstacle

from benchmarks.submission import PROFILE

STUDY = """
name: large
data: digits
heterogeneity: [{{partition: homogeneous, clients: 4}}]
partition_seed: 0
seeds: {seeds}
model: {{name: mlp, hidden: 16, features: 8}}
training: {{rounds: 1}}
methods: {{{methods}}}
"""
TIMED = '''"""FedAvg that notes how old its job is."""
import os
from pathlib import Path
from fedgrid.methods.fedavg import FedAvg as Plain


class Timed(Plain):
    """FedAvg that notes how old its job is."""

    weight: float = 1.0

    def round(self, fed, s):
        if not fed.round:
            Path(f"age-{os.getpid()}").write_text(str(age_of_job()))
        return super().round(fed, s)


def age_of_job():
    """Seconds since the oldest ancestor that slurmd did not start itself."""
    process, oldest = os.getpid(), None
    while process > 1:
        name, fields = stat(process)
        if name.startswith("slurm") and "script" not in name:
            break
        oldest, process = int(fields[19]), int(fields[1])
    ticks = os.sysconf("SC_CLK_TCK")
    return float(Path("/proc/uptime").read_text().split()[0]) - oldest / ticks


def stat(process):
    head, _, rest = Path(f"/proc/{process}/stat").read_text().rpartition(")")
    return head.partition("(")[2], rest.split()
'''


def measured(rows: int, seeds: int, jobs: int, folder: Path) -> list[float]:
    """Seconds from the begin of each job to its first round."""
    methods = ", ".join(f"row {i}: {{method: timed.py, weight: {i}.0}}" for i in range(rows))
    there = Checkout(folder / "study", STUDY.format(seeds=list(range(seeds)), methods=methods))
    (there.path / "timed.py").write_text(TIMED.replace("weight: float = 1.0", "weight: float = hp(1.0)"))
    (there.path / "timed.py").write_text("from fedgrid.components import hp\n" + (there.path / "timed.py").read_text())
    there.snakemake("--until", "partition")
    command = [sys.executable, "-m", "fedgrid.cli.main", "plan", "--cells"]
    plan = subprocess.check_output(command, cwd=there.path, env=there.environment, text=True)
    targets = [line.split()[-1] for line in plan.splitlines() if line.startswith("to run")][:jobs]
    with Cluster(folder / "slurm") as cluster:
        run = [sys.executable, "-m", "snakemake", *PROFILE, "--jobs=1", *targets]
        cluster.run(*run, cwd=there.path, env=there.environment, check=True)
    return [float(file.read_text()) for file in there.path.glob("age-*")]


def main() -> None:
    """Prints one line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("rows", 20), ("seeds", 50), ("jobs", 6)):
        parser.add_argument(f"--{name}", type=int, default=default)
    arguments = parser.parse_args()
    if reason := obstacle():
        sys.exit(f"no SLURM cluster here: {reason}")
    with tempfile.TemporaryDirectory(prefix="node-start-") as folder:
        seconds = measured(arguments.rows, arguments.seeds, arguments.jobs, Path(folder))
    cells, median = arguments.rows * arguments.seeds, statistics.median(seconds)
    print(f"{cells} cells: {median:.2f} s ({min(seconds):.2f} to {max(seconds):.2f}, {len(seconds)} jobs)")


if __name__ == "__main__":
    main()
