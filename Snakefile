# For `snakemake` in this folder: the workflow is workflow/Snakefile.
include: "workflow/Snakefile"


rule everything:
    input:
        EVERYTHING,
