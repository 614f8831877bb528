"""What fedgrid needs of Snakemake beyond what Snakemake documents, all in one place.

An upgrade of Snakemake may break any of it; tests/run/test_adapter.py then says which.
"""

from pathlib import Path
from typing import Any


def submits(workflow: Any) -> bool:
    """Whether jobs go to a cluster's scheduler: its executor counts jobs (``--jobs``), the local one cores."""
    return workflow.nodes is not None


def configfiles(workflow: Any) -> list[Path]:
    """The study's files as the user named them, the last one over the others."""
    return [Path(file) for file in workflow.configfiles]


def makes_everything(workflow: Any) -> bool:
    """Whether a run that succeeds has made all that the study asks for: its command line names no part of it."""
    settings = workflow.dag_settings
    return set(settings.targets) <= {"all"} and not (settings.until or settings.omit_from or settings.batch)


def offer_gpus(workflow: Any, slots: int) -> None:
    """Lets no more jobs run that ask for a GPU than there are slots, or they would hold cores while they wait."""
    if slots and "gpu" not in workflow.global_resources:
        workflow.register_resource("gpu", slots)


def start_without_a_limit(workflow: Any) -> None:
    """Lets local jobs start as others end, without a limit a second, which their cores are anyway.

    With Snakemake's limit every look at the ready jobs has another one follow a second later, and every job that ends
    starts one more such series: after 300 jobs the scheduler takes a third of a core from the cells.
    """
    workflow.scheduler.job_rate_limiter = None


def forget_configfiles(workflow: Any) -> None:
    """Keeps the study's files off the command lines of jobs on nodes.

    Snakemake would read them there before anything else, and fail where one is being edited; nodes read the plan.
    """
    workflow.config_settings.configfiles = []
