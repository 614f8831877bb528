# From cells to tables, figures and one page. Pure functions of the cells; they train nothing.
from itertools import product
from pathlib import Path

OUT = STUDY.folder
VARIANTS = [method.variant.name for method in STUDY.methods]
ABLATED = sorted({name for name in VARIANTS if VARIANTS.count(name) > 1})
DATA_NAMES = [data.variant.name for data in STUDY.data]
# one picture for each kind of heterogeneity: the partition of the first seed
PICTURED = {
    (c.split.data.variant.name, c.heterogeneity): c.split for c in STUDY.cells if c.seed == STUDY.text["seeds"][0]
}
FIGURES = [
    *expand(f"{OUT}/figures/curves-{{data}}.svg", data=DATA_NAMES),
    *expand(f"{OUT}/figures/ablation-{{method}}-{{data}}.svg", method=ABLATED, data=DATA_NAMES),
    *(f"{OUT}/figures/partition-{data}-{heterogeneity}.svg" for data, heterogeneity in PICTURED),
]


rule results:
    input:
        cells=[cell.file for cell in STUDY.cells],
        manifest=MANIFEST,
        analysis=ANALYSIS,
    output:
        f"{OUT}/results.parquet",
    log:
        f"{OUT}/logs/results.log",
    conda:
        "../envs/fedgrid.yaml"
    shell:
        "python -m fedgrid.analysis.collect {input.manifest} {output} > {log} 2>&1"


rule tables:
    input:
        f"{OUT}/results.parquet",
    output:
        [f"{OUT}/tables/{name}.{kind}" for name, kind in product(["accuracy", "costs"], ["csv", "md", "tex", "html"])],
    log:
        f"{OUT}/logs/tables.log",
    conda:
        "../envs/fedgrid.yaml"
    params:
        folder=lambda wildcards, output: Path(output[0]).parent,
    shell:
        "python -m fedgrid.analysis.tables {input} {params.folder} > {log} 2>&1"


rule curves:
    input:
        f"{OUT}/results.parquet",
    output:
        multiext(f"{OUT}/figures/curves-{{data}}", ".svg", ".pdf", ".txt"),
    log:
        f"{OUT}/logs/curves-{{data}}.log",
    conda:
        "../envs/fedgrid.yaml"
    params:
        stem=lambda wildcards, output: Path(output[0]).with_suffix(""),
    shell:
        "python -m fedgrid.analysis.figures curves {input} {params.stem} --data {wildcards.data} > {log} 2>&1"


rule ablation:
    input:
        f"{OUT}/results.parquet",
    output:
        multiext(f"{OUT}/figures/ablation-{{method}}-{{data}}", ".svg", ".pdf", ".txt"),
    log:
        f"{OUT}/logs/ablation-{{method}}-{{data}}.log",
    conda:
        "../envs/fedgrid.yaml"
    params:
        stem=lambda wildcards, output: Path(output[0]).with_suffix(""),
    shell:
        "python -m fedgrid.analysis.figures ablation {input} {params.stem} --method {wildcards.method}"
        " --data {wildcards.data} > {log} 2>&1"


rule bubbles:
    input:
        partition=lambda wildcards: PICTURED[wildcards.data, wildcards.heterogeneity].file,
        analysis=ANALYSIS,
    output:
        multiext(f"{OUT}/figures/partition-{{data}}-{{heterogeneity}}", ".svg", ".pdf", ".txt"),
    log:
        f"{OUT}/logs/partition-{{data}}-{{heterogeneity}}.log",
    conda:
        "../envs/fedgrid.yaml"
    params:
        stem=lambda wildcards, output: Path(output[0]).with_suffix(""),
        title=lambda wildcards: manifest.title(PICTURED[wildcards.data, wildcards.heterogeneity]),
    shell:
        "python -m fedgrid.analysis.figures partition {input.partition} {params.stem} --title {params.title:q} > {log} 2>&1"


rule report:
    input:
        results=f"{OUT}/results.parquet",
        tables=f"{OUT}/tables/accuracy.html",
        figures=FIGURES,
    output:
        f"{OUT}/report.html",
    log:
        f"{OUT}/logs/report.log",
    conda:
        "../envs/fedgrid.yaml"
    params:
        tables=lambda wildcards, input: Path(input.tables).parent,
        configfile=CONFIGFILE,
    shell:
        "python -m fedgrid.analysis.report {input.results} {output} --tables {params.tables} --figures {input.figures}"
        " --configfile {params.configfile:q} > {log} 2>&1"
