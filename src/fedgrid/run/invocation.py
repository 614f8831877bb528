"""One run of the workflow: what Snakemake's rules ask about a study, and what is done where a run begins and ends."""

import _thread
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence, Set
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, TextIO

from fedgrid.command import exclude_working_folder
from fedgrid.errors import UserError, complain, say_notice
from fedgrid.files import check_writable
from fedgrid.grid.costs import measured
from fedgrid.grid.plan import manifest, plan_file
from fedgrid.grid.plan.choices import apply_choices, group_of
from fedgrid.grid.plan.model import Cell
from fedgrid.grid.plan.planned_study import Experiment, Study
from fedgrid.grid.plan.searches import Search
from fedgrid.jobs import gpus, originals, warm
from fedgrid.loading import CODE
from fedgrid.run import cell_states, notices, packs, run_log, slurm, snakemake_adapter
from fedgrid.run.lock import StoreLock
from fedgrid.run.pin import Pin
from fedgrid.settings import ARTIFACTS, ROWS

PLAN = "FEDGRID_PLAN"
"Environment variable: the plan of the run to which a job on a cluster's node belongs."
UNNAMED = "STUDY.yaml"
"Stands in reports for a study's file that Snakemake does not name."
SHORT = 60.0
"Seconds of a cell below which a warm worker pays: it saves the seconds that a start of Python with torch takes."
Checkpoints = Any
"Snakemake's checkpoints: ``choice.get(key=…)`` raises what has a choice made before all that asks for it."


def invocation(config: Any, configfiles: Sequence[Path], submits: bool) -> "Invocation":
    """What the Snakefile is parsed for: the study in `config`, or on a node the plan of the run.

    Ends the process, with one sentence, for a mistake in the study.
    """
    try:
        if PLAN in os.environ:
            file = Path(os.environ[PLAN])
            return Invocation(plan_file.read(file), file, submits)
        plan = plan_run(config, configfiles, submits)
        originals.say_notices(plan.study)
        return Invocation(plan, plan.file, submits)
    except (UserError, OSError) as error:
        sys.exit(complain(error))


def plan_run(config: Any, configfiles: Sequence[Path], submits: bool) -> plan_file.Plan:
    """The study of Snakemake's `config`, resolved; UserError for any mistake in it. Nothing is written."""
    from fedgrid.grid.plan.commit import commit
    from fedgrid.grid.plan.product import plan_study, select
    from fedgrid.grid.study.sections import merge_files, with_origins
    from fedgrid.grid.study.yaml_file import read  # jobs on nodes need neither these nor the libraries that they import

    # read again, since Snakemake keeps no lines, and lets a key be there twice; it makes paths absolute
    here = Path.cwd()
    files = merge_files(read(file.relative_to(here) if file.is_relative_to(here) else file) for file in configfiles)
    text = with_origins(config, files)
    everything = plan_study(text)
    study, manifests = select(everything, text), manifest.files(everything)
    named = str(configfiles[-1]) if configfiles else UNNAMED
    return plan_file.Plan(study, named, packs.chosen(study) if submits else {}, commit(), manifests)


class Invocation:
    """A plan, and what Snakemake's rules ask about it.

    `file` is the plan's file for the jobs, once the run has begun. `submits` says whether jobs go to a cluster's
    scheduler.
    """

    def __init__(self, plan: plan_file.Plan, file: Path, submits: bool):
        self.plan, self.file, self.study, self.submits = plan, file, plan.study, submits
        self.compute = self.study.compute
        self.lock, self.worker = StoreLock(self.study.store), warm.Worker()
        self.named: Set[str] = set()
        "Files that the user of the run named, once it has begun; none means all."

    @cached_property
    def experiments(self) -> dict[str, Experiment]:
        """The study's experiments by the folder that each has among the results."""
        return {self.study.name_of(experiment): experiment for experiment in self.study.experiments}

    @property
    def study_with_choices(self) -> Study:
        """The study with what its searches have chosen by now."""
        return apply_choices(self.study)

    @property
    def manifests(self) -> list[str]:
        """What tables and figures of every experiment are made from, whether `only` asks for it or not, in order."""
        return [str(self.manifest(name)) for name in self.plan.manifests]

    @property
    def page(self) -> str:
        """Digest of the sources of the page of all experiments, apart from their results."""
        return manifest.page(self.study)

    @property
    def page_file(self) -> Path:
        """The page of all experiments."""
        return self.study.folder / "report.html"

    def manifest(self, name: str, checkpoints: Checkpoints = None) -> Path:
        """What tables and figures of an experiment are made from; with `checkpoints`, once its choices are made."""
        experiment = self.experiments.get(name)
        if experiment is None or not experiment.searches:
            return self.plan.manifests[name]
        for search in self.searches(name) if checkpoints else ():
            checkpoints.choice.get(key=search.key)
        (experiment_with_choices,) = (one for one in self.study_with_choices.experiments if one.id == experiment.id)
        return manifest.file(self.study, experiment_with_choices)

    def searches(self, name: str) -> list[Search]:
        """The searches of an experiment, but for those of cells that cannot be trained here."""
        known = self.study.known
        of_experiment = self.experiments[name].searches
        return [one for one in of_experiment if not known[one.candidates[0][0]].partition.data.unavailable]

    @cached_property
    def pack_marks(self) -> dict[str, Path]:
        """By key of a packed cell, the mark that its pack leaves."""
        return {key: packs.mark(self.study.store, name) for name, keys in self.plan.packs.items() for key in keys}

    def targets(self, name: str, checkpoints: Checkpoints = None) -> list[Path]:
        """Files that are there when all cells of an experiment are, but for those that cannot be trained here.

        Without `checkpoints`, of those cells alone that no search is about; see `search_files`.
        """
        searches = self.searches(name)
        groups = {search.group for search in searches}
        cells = [cell for cell in self.experiments[name].cells if not cell.unavailable and group_of(cell) not in groups]
        searched = [file for search in searches if checkpoints for file in self.search_files(search, checkpoints)]
        return self._files(cells) + searched

    def search_files(self, search: Search, checkpoints: Checkpoints) -> list[Path]:
        """Files of the cells that a search compares, and of those that it chose for the table."""
        for rung in search.rungs:
            checkpoints.choice.get(key=rung.key)
        chosen = search.candidates[search.chosen] if search.chosen is not None else ()
        return self._files([self.study.known[key] for key in (*search.trials(), *chosen)])

    def trial_files(self, key: str, checkpoints: Checkpoints) -> list[Path]:
        """Files of the cells that the choice of that key is made of; none once it is made."""
        _, search, number = self.study.choices[key]
        rung = search.rungs[number]
        if rung.file.exists():
            return []
        for earlier in search.rungs[:number]:
            checkpoints.choice.get(key=earlier.key)
        trials = [trial for point in search.alive(number) or () for trial in rung.trials[point]]
        return self._files([self.study.known[trial] for trial in trials])

    def needs(self, key: str) -> list[Path]:
        """The files that a cell is trained on: none once it is done, for then nothing can make it stale."""
        cell = self.study.known[key]
        return [] if cell.done else cell.needs

    def image_files(self, key: str, seed: int) -> list[Path]:
        """The files of the images that a partition deals out: none once it is there."""
        partition = self.study.partitions[key, seed]
        return [] if partition.file.exists() else [*partition.data.files.values()]

    def _files(self, cells: Sequence[Cell]) -> list[Path]:
        return [file for c in cells for file in ([self.pack_marks[c.key]] if c.key in self.pack_marks else c.files)]

    def pictured_partitions(self, name: str) -> list[Path]:
        """The partitions of an experiment that are drawn: those of its first seed."""
        cells = [cell for cell in self.experiments[name].cells if not cell.unavailable]
        return sorted({cell.partition.file for cell in cells if cell.seed == cells[0].seed})

    @cached_property
    def keys_by_artifacts(self) -> dict[tuple[str, ...], list[str]]:
        """The keys of cells by the ends of the names of their artifacts."""
        keys: dict[tuple[str, ...], list[str]] = {}
        for cell in self.study.known.values():
            keys.setdefault(tuple(ARTIFACTS[kind] for kind in cell.artifacts), []).append(cell.key)
        return keys

    def pack(self, name: str) -> list[Cell]:
        """The cells of a pack."""
        return [self.study.known[key] for key in self.plan.packs[name]]

    def request(self, cells: Sequence[Cell], attempt: int) -> measured.Request:
        """What a job of these cells asks of a scheduler."""
        return measured.request(cells, self.compute, self.gpu_share).for_attempt(attempt)

    @cached_property
    def gpu_share(self) -> int:
        """Cells that a GPU, or a pack, computes at a time; `auto` is 1 where jobs run on machines not known here."""
        return 1 if self.submits and self.compute.gpu_share == "auto" else gpus.cells_on_a_gpu(self.compute)

    @cached_property
    def gpu_slots(self) -> int:
        """Cells that may compute on this machine's GPUs at a time."""
        return gpus.gpu_slots(self.gpu_share) if self.compute.device in gpus.SHARED else 0

    @property
    def shares_gpus(self) -> bool:
        """Whether several cells at a time compute on a GPU of this machine."""
        return not self.submits and self.gpu_slots > 0 and self.gpu_share > 1

    @property
    def gpus_per_job(self) -> int:
        """GPUs that the job of a cell, or of a pack, asks for; `auto` asks for one where this machine has any."""
        wants_gpu = self.compute.device.startswith("cuda") and (self.submits or self.compute.device == "cuda")
        return int(wants_gpu or self.gpu_slots > 0)

    @cached_property
    def pin(self) -> Pin:
        """The code that the run began with; read on demand, since neither planning nor a job on a node needs it."""
        return Pin(self.study)

    def requested_cells(self, study: Study) -> list[Cell]:
        """The cells of the study that the run is about: those whose files its user named, all if it named others."""
        cells = [*study.by_key.values()]
        if not self.named or not self.named <= {str(file) for cell in cells for file in cell.files}:
            return cells
        return [cell for cell in cells if not self.named.isdisjoint(map(str, cell.files))]

    def begin(self, targets: Set[str] | None = None) -> None:
        """Locks the store, keeps the code, and writes the plan that all jobs read; from now on SIGTERM ends the run.

        `targets` are the files that its user named; none of them, or None, means all. Ends the process, with one
        sentence, where the run cannot begin.
        """
        exclude_working_folder()  # Snakemake starts jobs on nodes by `python -m`
        self.named = targets or set()
        requested = self.requested_cells(self.study)
        waiting = [cell for cell in requested if cell.waiting]
        _handle_in_thread(signal.SIGTERM)
        _end_without_reader(sys.stderr)
        try:
            if waiting and not self.submits:
                gpus.check_device(self.compute.device)
            check_writable(self.study.store, "results")
            self.lock.acquire()
            os.environ.update(self.pin.keep())
            if self.submits:
                slurm.end_leftovers({*self.study.known, *self.plan.packs})
            _set_aside(waiting)
            os.environ[PLAN] = str(self.plan.write(self.file).resolve())
        except (UserError, OSError) as error:
            sys.exit(complain(error))
        for line in notices.run_notices(self.study, self.submits, self.shares_gpus):
            say_notice(line)
        if waiting and not self.gpus_per_job and self.compute.device == "auto":
            where = "no GPU is asked for (compute.device: auto)" if self.submits else "no GPU here"
            say_notice(f"{where}, so cells are computed on CPUs")
        run_log.begin(self.study, requested, self.plan.packs)
        # a cell without a measured precedent may be short
        expected = (measured.cost(cell) for cell in waiting)
        if not self.submits and any(cost is None or cost.seconds < SHORT for cost in expected):
            with suppress(OSError):  # it only saves time
                self.worker.start()
                os.environ[warm.VARIABLE] = self.worker.socket

    def end(self, failed: bool = False, complete: bool = True) -> None:
        """Stops what `begin` started and says what there is now.

        A run that did not fail is not `complete` where its user asked for some of the study's files alone.
        """
        self.worker.stop()
        if run_log.current:
            snakemake_adapter.wait_until_told()
            run_log.current.close()
        if changed := self.pin.changed():
            names = ", ".join(changed[:3]) + (f" and {len(changed) - 3} more" if len(changed) > 3 else "")
            used = f"The run used the code it started with ({os.environ[CODE]})"
            advice = "run the same command to compute what the edit changes"
            say_notice(f"edited during this run: {names}. {used}; {advice}.")
        if failed:
            study = self.study_with_choices
            states = cell_states.read(study)
            for line in (
                *cell_states.failures(study, states),
                *cell_states.not_started(self.requested_cells(study), states),
            ):
                print(line, file=sys.stderr)
            earlier = [f"{self.page_file} is of an earlier run."] if self.page_file.is_file() else []
            mend = "Mend what is named there, then run" if any(state.frames for state in states.values()) else "Run"
            end = f"Stopped, or some jobs failed: see above and fedgrid status. {mend} the same command to continue."
            print(self._partial(), *earlier, end, sep="\n", file=sys.stderr)
        elif not complete:
            others = "Other tables and pages may be out of date: see fedgrid status."
            print(f"Requested targets are done. {others}", file=sys.stderr)
        else:
            for experiment in self.study.experiments:
                shutil.rmtree(experiment.partial, ignore_errors=True)  # it is out of date
            print(f"Done. Look at {self.page_file}", file=sys.stderr)

    def _partial(self) -> str:
        """Has the report made of what is finished; returns the line that says where it is, or why there is none."""
        self.lock.release()  # or cells that were not started would be shown as waiting for this run
        # another process finds the code that this run began with, and whatever befalls it does no harm here
        command = [sys.executable, "-P", "-m", "fedgrid.analysis.pages.partial", str(self.file)]
        made = subprocess.run(command, capture_output=True, text=True, errors="replace")
        if made.returncode == 0:
            return made.stdout.strip()
        *_, reason = made.stderr.splitlines() or [f"exit code {made.returncode}"]
        return f"fedgrid: no report was made: {reason.removeprefix('fedgrid: ')}"


def _handle_in_thread(number: int) -> None:
    """Has the handler of a signal run in a thread of its own.

    Snakemake's waits for a lock that the main thread holds whenever a job has just ended: there it would wait for ever.
    """
    handler = signal.getsignal(number)
    if callable(handler):
        signal.signal(number, lambda *arguments: _thread.start_new_thread(handler, arguments))


def _end_without_reader(stream: TextIO) -> None:
    """Has the run end as at SIGTERM when whoever reads its messages has ended.

    Snakemake fails then where it says that a job has failed, and would wait for ever for that job.
    """

    def guarded(act: Callable[..., Any]) -> Callable[..., Any]:
        def guard(*arguments: Any) -> Any:
            try:
                return act(*arguments)
            except BrokenPipeError:
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
                os.kill(os.getpid(), signal.SIGTERM)

        return guard

    stream.write, stream.flush = guarded(stream.write), guarded(stream.flush)  # type: ignore[method-assign]


def _set_aside(cells: Sequence[Cell]) -> None:
    """Links the kept states of cells that lack artifacts out of the way: Snakemake deletes a job's outputs."""
    for cell in cells:
        if cell.lacks_artifacts and cell.state.is_file():
            for suffix in ("", ROWS):
                kept, aside = (file.with_name(file.name + suffix) for file in (cell.state, cell.set_aside))
                aside.parent.mkdir(parents=True, exist_ok=True)
                aside.unlink(missing_ok=True)
                if kept.is_file():
                    try:
                        aside.hardlink_to(kept)
                    except OSError:  # the file system has no hard links
                        shutil.copyfile(kept, aside)
