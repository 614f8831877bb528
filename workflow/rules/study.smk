# All rules; the Snakefile of a clone or of a project includes this file and asks for EVERYTHING.
import os
import sys

# before anything else is imported: Snakefiles that projects have from fedgrid 1.0 do not leave their folder out
sys.path[:] = [folder for folder in sys.path if folder != workflow.basedir]

from fedgrid.loading import CODE
from fedgrid.run import snakemake_adapter
from fedgrid.run.invocation import PLAN
from snakemake.utils import min_version

min_version("9.0")

# on a cluster's nodes: the plan of the run in place of the study
if PLAN not in os.environ and not snakemake_adapter.is_study_given(workflow, config):
    from fedgrid.api.study_file import check_default_study  # which jobs on nodes do not need

    check_default_study()

    configfile: "config/study.yaml"


include: "common.smk"
include: "data.smk"
include: "train.smk"
include: "analysis.smk"


localrules:
    all,
    data,
    partition,
    manifest,
    experiment,
    choice,


# what a project's `rule all` asks for: cells too, for one that was deleted is trained again though its tables still stand
EVERYTHING = [
    *[file for name in RUN.experiments for file in RUN.targets(name)],
    *[lambda w, one=one: RUN.search_files(one, checkpoints) for name in RUN.experiments for one in RUN.searches(name)],
    *[lambda w, name=name: RUN.manifest(name, checkpoints) for name in RUN.experiments],
    *expand(rules.experiment.output, experiment=RUN.experiments),
    f"{STUDY.folder}/report.html",
]
