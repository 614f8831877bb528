"""A copy of the repository in which Snakemake is driven for real."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from processes import PIPES

ROOT = Path(__file__).parents[2]
STUDY = """
name: tiny
data: digits
heterogeneity: [{partition: dirichlet, beta: 0.5, clients: 4}]
seeds: [0, 1]
model: {name: mlp, hidden: 16, features: 8}
training: {rounds: 2}
methods:
  local:
  fedavg:
  fedprox: {mu: 0.01}
  fedper:
  fedcosr:
"""


class Checkout:
    """The working tree without its results, with a study of ten small cells."""

    def __init__(self, path: Path, study: str = STUDY):
        self.path = path
        for folder in ("workflow", "profiles", "src", "config"):
            shutil.copytree(ROOT / folder, path / folder, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        (path / "config/study.yaml").write_text(study)

    def copied(self, path: Path) -> "Checkout":
        """The same tree, results and times included, somewhere else."""
        shutil.copytree(self.path, path)
        twin = object.__new__(type(self))
        twin.path = path
        return twin

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | {"PYTHONPATH": str(self.path / "src"), "OMP_NUM_THREADS": "1", "MPLBACKEND": "agg"}

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "snakemake", "--cores", "2", "--nocolor", *arguments]

    def snakemake(self, *arguments: str, code: int = 0) -> str:
        """What a run of Snakemake says; its exit code is checked."""
        run = subprocess.run(self.command(*arguments), cwd=self.path, env=self.environment, **PIPES)
        assert run.returncode == code, run.stdout[-3000:]
        return run.stdout

    def planned(self, *arguments: str) -> dict[str, int]:
        """Jobs that a run would start: cells by method, other jobs by rule."""
        output = self.snakemake("--dry-run", "--quiet", "host", *arguments)
        blocks = re.findall(r"^rule (\w+):\n((?:    .*\n)*)", output, re.M)
        assert blocks or "Nothing to be done" in output, output
        jobs: dict[str, int] = {}
        for rule, block in blocks:
            method = re.search(r"wildcards: .*method=(\w+)", block)
            name = method[1] if rule == "train" and method else rule
            jobs[name] = jobs.get(name, 0) + 1
        return {name: count for name, count in jobs.items() if name != "all"}

    def edit(self, file: str, old: str, new: str) -> None:
        path = self.path / file
        text = path.read_text(encoding="utf-8")
        assert old in text, (file, old)
        path.write_text(text.replace(old, new, 1), encoding="utf-8")

    def cells(self) -> list[Path]:
        return sorted((self.path / "results/store/cells").rglob("*.parquet"))


def accuracy_tables(results: Path) -> dict[str, bytes]:
    """The accuracy table of the study in all its forms, by the name of the file."""
    tables = {file.name: file.read_bytes() for file in (results / "tiny/tables").glob("accuracy.*")}
    assert len(tables) == 4
    return tables
