# Entry point: snakemake --cores N [--configfile config/another_study.yaml]
import os
from pathlib import Path

from fedgrid.loading import CODE
from snakemake.utils import min_version

min_version("9.1")

# on a cluster's nodes: the rules as they were when the run began
RULES = Path(os.environ.get(CODE, workflow.basedir)) / "workflow" / "rules"

if not workflow.configfiles:

    configfile: "config/study.yaml"


include: str(RULES / "common.smk")
include: str(RULES / "data.smk")
include: str(RULES / "train.smk")
include: str(RULES / "analysis.smk")


localrules:
    all,
    data,
    partition,
    results,
    tables,
    figure,
    report,


rule all:
    default_target: True
    input:
        # cells too: one that was deleted is trained again even though the tables still stand
        RUN.waited,
        f"{STUDY.folder}/report.html",
        FIGURES,
