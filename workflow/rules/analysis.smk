# From cells to tables, figures and one page. Pure functions of the cells; they train nothing.
from itertools import product
from pathlib import Path

FIGURES = expand(f"{OUT}/figures/{{figure}}.svg", figure=RUN.drawings)


# Its name covers the study and the code that draws: where either is another one, all below is made anew. It is a parameter
# too, for an input that is missing does not make Snakemake run what stands between files that exist.
rule manifest:
    input:
        RUN.cell_targets,
    output:
        RUN.manifest,
    log:
        f"{OUT}/logs/manifest.log",
    shell:
        'job {log:q} fedgrid.jobs.finish "$PLAN" {output:q}'


rule results:
    input:
        cells=RUN.cell_targets,
        manifest=RUN.manifest,
    output:
        f"{OUT}/results.parquet",
    log:
        f"{OUT}/logs/results.log",
    params:
        manifest=RUN.manifest.name,
    shell:
        "job {log:q} fedgrid.analysis.collect {input.manifest:q} {output:q}"


rule tables:
    input:
        results=f"{OUT}/results.parquet",
        manifest=RUN.manifest,
    output:
        [f"{OUT}/tables/{name}.{kind}" for name, kind in product(["accuracy", "costs"], ["csv", "md", "tex", "html"])],
    log:
        f"{OUT}/logs/tables.log",
    params:
        manifest=RUN.manifest.name,
        folder=lambda wildcards, output: Path(output[0]).parent,
    shell:
        "job {log:q} fedgrid.analysis.tables {input.results:q} {params.folder:q}"


rule figure:
    input:
        source=lambda w: RUN.drawings[w.figure].source,
        manifest=RUN.manifest,
    output:
        multiext(f"{OUT}/figures/{{figure}}", ".svg", ".pdf", ".txt"),
    log:
        f"{OUT}/logs/{{figure}}.log",
    params:
        manifest=RUN.manifest.name,
        kind=lambda w: RUN.drawings[w.figure].kind,
        options=lambda w: [f"--{name}={value}" for name, value in RUN.drawings[w.figure].options.items()],
        stem=lambda wildcards, output: Path(output[0]).with_suffix(""),
    shell:
        "job {log:q} fedgrid.analysis.figures {params.kind} {input.source:q} {params.stem:q} {params.options:q}"


rule report:
    input:
        results=f"{OUT}/results.parquet",
        tables=f"{OUT}/tables/accuracy.html",
        figures=FIGURES,
        manifest=RUN.manifest,
    output:
        f"{OUT}/report.html",
    log:
        f"{OUT}/logs/report.log",
    params:
        manifest=RUN.manifest.name,
        tables=lambda wildcards, input: Path(input.tables).parent,
        configfile=RUN.plan.configfile,
    shell:
        "job {log:q} fedgrid.analysis.report {input.results:q} {output:q} --tables {params.tables:q}"
        " --figures {input.figures:q} --configfile {params.configfile:q}"
