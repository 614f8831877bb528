# Entry point: snakemake --cores N [--configfile config/another_study.yaml]
from snakemake.utils import min_version

min_version("9.1")


if not workflow.configfiles:

    configfile: "config/study.yaml"


include: "workflow/rules/common.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/analysis.smk"


localrules:
    all,


rule all:
    default_target: True
    input:
        # cells too: one that was deleted is trained again even though the tables still stand
        [file for cell in STUDY.cells for file in cell.files],
        f"{STUDY.folder}/report.html",
        FIGURES,
