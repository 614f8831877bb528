# From cells to tables, figures and one page. Pure functions of the cells; they train nothing.
from itertools import product
from pathlib import Path

OUT = STUDY.folder
DRAWN = drawing.figures(STUDY)
FIGURES = expand(f"{OUT}/figures/{{figure}}.svg", figure=DRAWN)


rule results:
    input:
        cells=RUN.waited,
        manifest=RUN.manifest,
        analysis=RUN.analysis,
    output:
        f"{OUT}/results.parquet",
    log:
        f"{OUT}/logs/results.log",
    conda:
        "../envs/fedgrid.yaml"
    shell:
        "logged {log:q} python -m fedgrid.analysis.collect {input.manifest:q} {output:q}"


rule tables:
    input:
        results=f"{OUT}/results.parquet",
        analysis=RUN.analysis,
    output:
        [f"{OUT}/tables/{name}.{kind}" for name, kind in product(["accuracy", "costs"], ["csv", "md", "tex", "html"])],
    log:
        f"{OUT}/logs/tables.log",
    conda:
        "../envs/fedgrid.yaml"
    params:
        folder=lambda wildcards, output: Path(output[0]).parent,
    shell:
        "logged {log:q} python -m fedgrid.analysis.tables {input.results:q} {params.folder:q}"


rule figure:
    input:
        source=lambda wildcards: DRAWN[wildcards.figure][1],
        manifest=RUN.manifest,
        analysis=RUN.analysis,
    output:
        multiext(f"{OUT}/figures/{{figure}}", ".svg", ".pdf", ".txt"),
    log:
        f"{OUT}/logs/{{figure}}.log",
    conda:
        "../envs/fedgrid.yaml"
    params:
        kind=lambda wildcards: DRAWN[wildcards.figure][0],
        options=lambda wildcards: [f"--{name}={value}" for name, value in DRAWN[wildcards.figure][2].items()],
        stem=lambda wildcards, output: Path(output[0]).with_suffix(""),
    shell:
        "logged {log:q} python -m fedgrid.analysis.figures {params.kind} {input.source:q} {params.stem:q} {params.options:q}"


rule report:
    input:
        results=f"{OUT}/results.parquet",
        tables=f"{OUT}/tables/accuracy.html",
        figures=FIGURES,
        analysis=RUN.analysis,
    output:
        f"{OUT}/report.html",
    log:
        f"{OUT}/logs/report.log",
    conda:
        "../envs/fedgrid.yaml"
    params:
        tables=lambda wildcards, input: Path(input.tables).parent,
        configfile=workflow.configfiles[-1],
    shell:
        "logged {log:q} python -m fedgrid.analysis.report {input.results:q} {output:q} --tables {params.tables:q}"
        " --figures {input.figures:q} --configfile {params.configfile:q}"
