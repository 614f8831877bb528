"""The code at hand, and that of an earlier commit beside it in a worktree of git."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fedgrid.errors import UserError
from fedgrid.grid.study.ledger import unlisted
from fedgrid.grid.study.sources import Sources

ROOT = Path(__file__).parents[2]
LOOKED_AT = 50
"Commits, from the last one on, among which one is looked for whose code is listed."


@dataclass(frozen=True)
class Tree:
    """A checkout of the repository."""

    folder: Path

    @property
    def sources(self) -> Sources:
        """The source of its package."""
        return Sources(str(self.folder / "src"))

    def start(self, cases: Path, out: Path, log: Path) -> subprocess.Popen[str]:
        """Starts to compute cases with its code; the process prints a line for every case that is done."""
        source = os.pathsep.join(map(str, (self.folder / "src", self.folder)))
        one_thread = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        environment = os.environ | one_thread | {"PYTHONPATH": source, "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-P", "-m", "benchmarks.numerics.worker", str(cases), str(out)]
        with log.open("w", encoding="utf-8") as said:
            pipes = {"stdout": subprocess.PIPE, "stderr": said, "text": True}
            return subprocess.Popen(command, cwd=out.parent, env=environment, **pipes)


def this_tree() -> Tree:
    """The tree that this module lies in."""
    return Tree(ROOT)


@contextmanager
def last_listed(folder: Path) -> Iterator[tuple[Tree, str]]:
    """A worktree in `folder` of the last commit whose code is listed, and that commit; UserError without any."""
    tree = Tree(folder)
    _git("worktree", "add", "--quiet", "--detach", str(folder), "HEAD")
    try:
        for commit in _git("rev-list", f"--max-count={LOOKED_AT}", "HEAD").split():
            _git("-C", str(folder), "checkout", "--quiet", "--detach", commit)
            if not unlisted(tree.sources):
                yield tree, commit
                return
        raise UserError(f"none of the last {LOOKED_AT} commits has code that the ledger lists")
    finally:
        _git("worktree", "remove", "--force", str(folder))


def _git(*command: str) -> str:
    run = subprocess.run(["git", *command], cwd=ROOT, capture_output=True, text=True, check=False)
    if run.returncode:
        raise UserError(f"git {' '.join(command)}: {run.stderr.strip()}")
    return run.stdout
