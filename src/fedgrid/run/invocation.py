"""One run of the workflow: what Snakemake's rules ask about a study, and what is done where a run begins and ends."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from shlex import quote
from typing import Any

import fedgrid
from fedgrid.errors import UserError, complain
from fedgrid.files import check_writable
from fedgrid.grid import manifest
from fedgrid.grid.study import data_root, read, resolved
from fedgrid.grid.validation import checked
from fedgrid.jobs import gpus, warm
from fedgrid.loading import CODE
from fedgrid.run import cluster, packs, states
from fedgrid.run.lock import StoreLock
from fedgrid.run.pin import Pin


def planned(
    config: Mapping[str, Any], configfiles: Sequence[str], tree: str, submits: bool, begins: bool = True
) -> "Run":
    """A `Run`; ends the process, with one sentence, for a mistake in the study."""
    try:
        return Run(config, configfiles, Path(tree), submits, begins)
    except (UserError, OSError) as error:
        sys.exit(complain(error))


class Run:
    """A study, planned; UserError for any mistake in it.

    `tree` is the folder of the Snakefile. `submits` says whether jobs go to a cluster's scheduler. `begins` is False on
    the nodes, where only single jobs of a run are read again.
    """

    def __init__(self, config: Mapping[str, Any], configfiles: Sequence[str], tree: Path, submits: bool, begins: bool):
        for file in configfiles:
            read(Path(file))  # Snakemake itself lets a key stand twice
        self.named = str(configfiles[-1]) if configfiles else ""
        self.study, self.submits = resolved(checked(config)), submits
        self.compute, self.data_root = self.study.text["compute"], data_root(self.study.text)
        self.manifest, self.analysis = manifest.files(self.study)
        if begins:
            check_writable(self.study.store, "results")
            manifest.write(self.study)
        self.packed = packs.plan(self.study) if submits and begins else {}
        self.tree, self.lock, self.worker = tree, StoreLock(self.study.store), warm.Worker()

    @cached_property
    def pin(self) -> Pin:
        """The code that the run began with; it is read then, for to plan, or a job on a node, needs none of it."""
        return Pin(self.study, self.tree)

    @property
    def waited(self) -> list[Path]:
        """Files that are there when all cells are: their own, or for packed cells the mark of their pack."""
        cells = self.study.cells
        return [file for c in cells for file in ([self.packed[c.key]] if c.key in self.packed else c.files)]

    @cached_property
    def places(self) -> int:
        """Cells that may compute on this machine's GPUs at a time."""
        return gpus.places(self.compute["gpu_share"]) if self.compute["device"] in ("auto", "cuda") else 0

    @property
    def gpus_per_job(self) -> int:
        """GPUs that the job of a cell, or of a pack, asks for; `auto` asks for one where this machine has any."""
        asked = self.compute["device"].startswith("cuda") and (self.submits or self.compute["device"] == "cuda")
        return int(asked or self.places > 0)

    @property
    def prefix(self) -> str:
        """What stands before every shell command of the rules.

        Jobs run with the interpreter that runs Snakemake, whether or not its environment is activated. ``logged FILE
        COMMAND`` keeps what a command says, and shows its end where it fails; ``unsaid FILE CODE`` then says what the
        command could not, on a full disk or killed. ``cell`` is the process of a cell.
        """
        here = quote(str(Path(sys.executable).parent))
        code = f"${{{CODE}:-{quote(str(Path(fedgrid.__file__).parents[1]))}}}"
        text = (
            f"export PATH={here}:$PATH OMP_NUM_THREADS={self.compute['threads']}; "
            "logged() { local log=$1; shift; "
            '"$@" > "$log" 2>&1 || { local code=$?; tail "$log" >&2; unsaid "$log" $code >&2; return $code; }; }; '
            'unsaid() { local why; if ! why=$( { echo > "$1.probe"; } 2>&1 ); then '
            'echo "fedgrid: $1: cannot be written (${why##*: })"; elif [ $2 -gt 128 ]; then '
            'echo "fedgrid: the process of this job was killed (signal $(($2 - 128)))"; elif ! [ -s "$1" ]; then '
            'echo "fedgrid: $1: could not be written (its disk was full)"; fi; rm -f "$1.probe"; }; '
            f'cell() {{ python -S -E "{code}/fedgrid/jobs/warm/client.py" fedgrid.jobs.cell "$@"; }}; '
        )
        return text.replace("{", "{{").replace("}", "}}")  # Snakemake formats it

    def begin(self) -> list[str]:
        """Locks the store, keeps the code, and returns the study's file that jobs on nodes are to read.

        Ends the process, with one sentence, where that is not possible.
        """
        try:
            self.lock.acquire()
            self.pin.keep()
            text = self.pin.keep_text()
        except (UserError, OSError) as error:
            sys.exit(complain(error))
        if self.submits:
            cluster.end_leftovers({*(c.key for c in self.study.cells), *(m.stem for m in self.packed.values())})
        waiting = not all(cell.done for cell in self.study.cells)
        if waiting and not self.gpus_per_job and self.compute["device"] == "auto":
            where = "no GPU is asked for (compute.device: auto)" if self.submits else "no GPU here"
            print(f"fedgrid: {where}, cells are computed on processors", file=sys.stderr)
        if waiting and not self.submits:
            self.worker.start()
        return [str(text)]

    def end(self, failed: bool = False) -> None:
        """Stops what `begin` started and says what there is now."""
        self.worker.stop()
        if changed := self.pin.changed():
            names = ", ".join(changed[:3]) + (f" and {len(changed) - 3} more" if len(changed) > 3 else "")
            print(
                f"fedgrid: edited while this run was going: {names}. The run used the code that it began with "
                f"({os.environ[CODE]}); the same command computes what the edit changes.",
                file=sys.stderr,
            )
        if failed:
            for line in states.failures(self.study, states.read(self.study)):
                print(line, file=sys.stderr)
            end = "Stopped, or some jobs failed: see above and fedgrid status. The same command goes on."
            print(self._partial(), end, sep="\n", file=sys.stderr)
        else:
            folder = self.study.folder
            shutil.rmtree(self.study.partial, ignore_errors=True)  # it is out of date
            print(f"Done. Look at {folder}/report.html and {folder}/tables/accuracy.md", file=sys.stderr)

    def _partial(self) -> str:
        """Has the report made of what is finished; returns the line that says where it is, or why there is none."""
        self.lock.release()  # or cells that were not started would be shown as waiting for this run
        try:
            study = ["--configfile", str(self.pin.keep_text()), "--named", self.named]
            # another process finds the code that this run began with, and whatever befalls it does no harm here
            command = [sys.executable, "-m", "fedgrid.cli.main", "report", *study]
            made = subprocess.run(command, capture_output=True, text=True, errors="replace")
        except (UserError, OSError) as error:
            return f"fedgrid: no report was made: {error}"
        if made.returncode == 0:
            return made.stdout.strip()
        *_, reason = made.stderr.splitlines() or [f"exit code {made.returncode}"]
        return f"fedgrid: no report was made: {reason.removeprefix('fedgrid: ')}"
