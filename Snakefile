# snakemake --cores N [--configfile config/another_study.yaml]; the rules are those of the fedgrid that is installed.
from fedgrid.shipped import snakefile


include: snakefile()


rule all:
    input:
        EVERYTHING,
