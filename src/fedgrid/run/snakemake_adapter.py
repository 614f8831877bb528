"""What fedgrid uses of Snakemake beyond its documentation, all in one place.

Every use is optional. Where this Snakemake lacks the attribute, or has one of another type, a line on standard error
says what the user loses, and the run goes on without it. tests/run/test_snakemake_adapter.py covers each case.
"""

import logging
import sys
import threading
from collections.abc import Callable, Collection, Mapping, Set
from functools import cache
from importlib.metadata import version
from operator import attrgetter
from pathlib import Path
from typing import Any

from fedgrid.errors import UserError, complain, say_notice
from fedgrid.run import slurm

REQUIRED = {"name", "data", "heterogeneity", "methods", "experiments"}
"A file with some of these keys is taken for a study where its name does not tell."
SLURM = "snakemake_executor_plugin_slurm"
"The package of the executor that submits to SLURM."
TOLD = "told"
"Attribute of a log's record: an event that is set once all records before it have been handled."
PATIENCE = 5.0
"Seconds that a run waits at its end for its own messages."
NO_TARGETS = "say which targets it was given; fedgrid status says whether all tables and pages are up to date"
"What the user loses where Snakemake does not tell them."
MISSING = object()
"Stands for an attribute that this Snakemake does not have; its value may be None."


def submits(workflow: Any) -> bool:
    """Whether jobs go to a cluster's scheduler: its executor counts jobs (``--jobs``), the local one cores.

    Where Snakemake does not say so, jobs count as submitted. That is right on a workstation too, only slower: cells
    lock GPUs by themselves. Otherwise a study would be refused for lack of a GPU that only the cluster's nodes have.
    """
    loss = "say whether it submits jobs; on a workstation, cells start slowly and hold a core while they wait for a GPU"
    return _attribute(workflow, "nodes", int | None, loss) is not None


def configfiles(workflow: Any) -> list[Path]:
    """The study's files as the user named them, the last one over the others; none where Snakemake does not say."""
    return [Path(file) for file in _named(workflow) or ()]


def is_study_given(workflow: Any, config: Mapping[str, Any]) -> bool:
    """Whether the command line names a study's file.

    Where Snakemake does not say so, whether the configuration has a key that a study requires: the default study must
    not fill in what another one lacks by mistake.
    """
    files = _named(workflow)
    return bool(files) if files is not None else not REQUIRED.isdisjoint(config)


def _named(workflow: Any) -> list[Any] | None:
    loss = "name the study's files; duplicate keys in them go unnoticed, and reports show neither their names nor text"
    files = _attribute(workflow, "configfiles", list, loss)
    return None if files is MISSING else files


def makes_everything(workflow: Any) -> bool:
    """Whether a run that succeeds has made all that the study asks for: its command line names no part of it.

    If Snakemake does not say, it counts as a part, which promises less.
    """
    named = targets(workflow)
    others = ("until", "omit_from", "batch")
    parts = [_attribute(workflow, f"dag_settings.{name}", object, NO_TARGETS) for name in others]
    return named is not None and named <= {"all"} and not any(parts)


def targets(workflow: Any) -> Set[str] | None:
    """The files and rules that the command line names; None if Snakemake does not say."""
    named = _attribute(workflow, "dag_settings.targets", Collection, NO_TARGETS)
    return None if named is MISSING else set(named)


def offer_gpus(workflow: Any, slots: int) -> None:
    """Lets no more jobs run that ask for a GPU than there are slots, or they would hold cores while they wait."""
    if not slots:
        return
    loss = f"let fedgrid limit jobs to this machine's GPUs; --resources gpu={slots} keeps those that wait off the cores"
    offered = _attribute(workflow, "global_resources", Mapping, loss)
    register = _attribute(workflow, "register_resource", Callable, loss)
    if MISSING in (offered, register) or "gpu" in offered:
        return
    try:
        register("gpu", slots)
    except TypeError:  # it takes other arguments
        _warn(loss)


def lift_rate_limit(workflow: Any) -> None:
    """Lets local jobs start as others end, without a limit a second, which their cores are anyway.

    With Snakemake's limit every look at the ready jobs has another one follow a second later, and every job that ends
    starts one more such series: after 300 jobs the scheduler takes a third of a core from the cells. No value of
    ``--max-jobs-per-timespan`` means no limit.
    """
    loss = "let fedgrid lift its limit on job starts; after some 300 jobs its scheduler takes a third of a core"
    _replace(workflow, "scheduler.job_rate_limiter", object, None, loss)


def hide_configfiles(workflow: Any) -> None:
    """Keeps the study's files off the command lines of jobs on nodes.

    Snakemake would read them there before anything else, and fail where one is being edited; nodes read the plan.
    """
    loss = "keep the study's files off the command lines of submitted jobs; edit them only after the last job has begun"
    _replace(workflow, "config_settings.configfiles", list | tuple, [], loss)


def follow_jobs_without_accounting(workflow: Any) -> None:
    """Has SLURM's executor ask squeue how jobs end where sacct cannot say, or it would wait for them for ever.

    Ends the process, with one sentence, where squeue cannot say either. A user who chose squeue is not second-guessed.
    """
    loss = "let fedgrid choose squeue; set slurm-status-command: squeue in the profile, or the run hangs after its jobs"
    settings = _attribute(workflow, "executor_settings", object, loss)
    if type(settings).__module__ != SLURM or not (failure := slurm.accounting_failure()):
        return
    if _attribute(workflow, "executor_settings.status_command", str, loss) != "sacct":
        return
    if sentence := slurm.forgets_early():
        sys.exit(complain(UserError(f"SLURM has no accounting here ({failure}), and {sentence}")))
    if _replace(workflow, "executor_settings.status_command", str, "squeue", loss):
        say_notice(f"SLURM has no accounting here ({failure}), so squeue is asked how jobs end")


def wait_until_told() -> None:
    """Waits until what jobs did so far has been told, which happens in another thread."""
    told = threading.Event()
    logging.getLogger("snakemake.logging").info("", extra={TOLD: told})
    told.wait(PATIENCE)


def _attribute(workflow: Any, path: str, kind: Any, loss: str) -> Any:
    """Returns the attribute at a dotted path below the workflow.

    Returns `MISSING`, and warns of the loss, where it does not exist.
    """
    try:
        value = attrgetter(path)(workflow)
    except AttributeError:
        value = MISSING
    if value is MISSING or not isinstance(value, kind):
        _warn(loss)
        return MISSING
    return value


def _replace(workflow: Any, path: str, kind: Any, value: Any, loss: str) -> bool:
    """Sets the attribute at a dotted path below the workflow; where that is not possible, warns and returns False."""
    if _attribute(workflow, path, kind, loss) is MISSING:
        return False
    owner, _, name = path.rpartition(".")
    try:
        setattr(attrgetter(owner)(workflow), name, value)
    except AttributeError:  # it cannot be set
        _warn(loss)
        return False
    return True


@cache
def _warn(loss: str) -> None:
    """Says once in a process what this Snakemake does not do, and what that costs the user."""
    say_notice(f"this Snakemake ({version('snakemake')}) does not {loss}")
