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
        "python -m fedgrid.analysis.collect {input.manifest:q} {output:q} > {log:q} 2>&1"


rule tables:
    input:
        results=f"{OUT}/results.parquet",
        analysis=ANALYSIS,
    output:
        [f"{OUT}/tables/{name}.{kind}" for name, kind in product(["accuracy", "costs"], ["csv", "md", "tex", "html"])],
    log:
        f"{OUT}/logs/tables.log",
    conda:
        "../envs/fedgrid.yaml"
    params:
        folder=lambda wildcards, output: Path(output[0]).parent,
    shell:
        "python -m fedgrid.analysis.tables {input.results:q} {params.folder:q} > {log:q} 2>&1"


rule curves:
    input:
        results=f"{OUT}/results.parquet",
        analysis=ANALYSIS,
    output:
        multiext(f"{OUT}/figures/curves-{{data}}", ".svg", ".pdf", ".txt"),
    log:
        f"{OUT}/logs/curves-{{data}}.log",
    conda:
        "../envs/fedgrid.yaml"
    params:
        stem=lambda wildcards, output: Path(output[0]).with_suffix(""),
    shell:
        "python -m fedgrid.analysis.figures curves {input.results:q} {params.stem:q} --data {wildcards.data} > {log:q} 2>&1"


rule ablation:
    input:
        results=f"{OUT}/results.parquet",
        analysis=ANALYSIS,
    output:
        multiext(f"{OUT}/figures/ablation-{{method}}-{{data}}", ".svg", ".pdf", ".txt"),
    log:
        f"{OUT}/logs/ablation-{{method}}-{{data}}.log",
    conda:
        "../envs/fedgrid.yaml"
    params:
        stem=lambda wildcards, output: Path(output[0]).with_suffix(""),
    shell:
        "python -m fedgrid.analysis.figures ablation {input.results:q} {params.stem:q} --method {wildcards.method}"
        " --data {wildcards.data} > {log:q} 2>&1"


rule bubbles:
    input:
        partition=lambda wildcards: PICTURED[wildcards.data, wildcards.heterogeneity].file,
        manifest=MANIFEST,
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
        "python -m fedgrid.analysis.figures partition {input.partition:q} {params.stem:q} --title {params.title:q} > {log:q} 2>&1"


rule report:
    input:
        results=f"{OUT}/results.parquet",
        tables=f"{OUT}/tables/accuracy.html",
        figures=FIGURES,
        analysis=ANALYSIS,
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
        "python -m fedgrid.analysis.report {input.results:q} {output:q} --tables {params.tables:q} --figures {input.figures:q}"
        " --configfile {params.configfile:q} > {log:q} 2>&1"
