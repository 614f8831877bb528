# In place of common.smk where fedgrid is not installed: `snakemake --lint` needs the rules, and no plan.
import sys
from pathlib import Path
from types import SimpleNamespace


class NoPlan:
    """Has what the rules are made of; whatever a run asks beyond that ends it with a sentence."""

    experiments, manifests, page, plan = {}, [], "", SimpleNamespace(configfile="config/study.yaml")
    keys_by_artifacts, gpu_share = {(): []}, 1

    def __getattr__(self, name):
        sys.exit("fedgrid: not installed in Snakemake's environment; pip install fedgrid, or in a clone: make run")


RUN = NoPlan()
RESULTS, STORE, GPU = "results", "results/store", 0
STUDY = SimpleNamespace(folder=Path(RESULTS, "study"), has_experiments=True)
COMPUTE = SimpleNamespace(threads=1, mem_mb=2000, runtime=30)
