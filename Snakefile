# Entry point: snakemake --cores N [--configfile config/another_study.yaml]
import os
from pathlib import Path

from fedgrid.loading import CODE
from fedgrid.run import snakemake_adapter
from fedgrid.run.invocation import PLAN
from snakemake.utils import min_version

min_version("9.0")

# on a cluster's nodes: the rules as they were when the run began, and its plan in place of the study
RULES = Path(os.environ.get(CODE, "")) / "workflow" / "rules"

if PLAN not in os.environ and not snakemake_adapter.is_study_given(workflow, config):

    configfile: "config/study.yaml"


include: str(RULES / "common.smk")
include: str(RULES / "data.smk")
include: str(RULES / "train.smk")
include: str(RULES / "analysis.smk")


localrules:
    all,
    data,
    partition,
    manifest,
    experiment,


rule all:
    default_target: True
    input:
        # cells too: one that was deleted is trained again even though the tables still stand
        [file for name in RUN.experiments for file in [*RUN.targets(name), RUN.manifest(name)]],
        expand(rules.experiment.output, experiment=RUN.experiments),
        f"{STUDY.folder}/report.html",
