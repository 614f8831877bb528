# All rules; the Snakefile of a clone or of a project includes this file and asks for EVERYTHING.
import sys

# before anything else is imported: Snakefiles that projects have from fedgrid 1.0 do not leave their folder out
sys.path[:] = [folder for folder in sys.path if folder != workflow.basedir]

from snakemake.utils import min_version

min_version("9.0")

try:
    import fedgrid.shipped

    BEGINNING = "common.smk"
except ModuleNotFoundError:
    BEGINNING = "unplanned.smk"


include: BEGINNING
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
