# From cells to tables, figures and one page. Pure functions of the cells; they train nothing.
from itertools import product
from pathlib import Path

OUT = STUDY.folder
VARIANTS = [method.variant.name for method in STUDY.methods]
ABLATED = sorted({name for name in VARIANTS if VARIANTS.count(name) > 1})
DATA_NAMES = [data.label for data in STUDY.data]

# name -> (kind, file that it is drawn from, options); of the partitions, those of the first seed are pictured
DRAWN = {f"curves-{d}": ("curves", f"{OUT}/results.parquet", {"data": d}) for d in DATA_NAMES}
for m, d in product(ABLATED, DATA_NAMES):
    DRAWN[f"ablation-{m}-{d}"] = ("ablation", f"{OUT}/results.parquet", {"method": m, "data": d})
for cell in STUDY.cells:
    if cell.seed == STUDY.text["seeds"][0]:
        for kind in ("partition", "shares"):
            name = f"{kind}-{cell.split.data.label}-{cell.heterogeneity}"
            DRAWN[name] = (kind, cell.split.file, {"title": manifest.title(cell.split)})
FIGURES = expand(f"{OUT}/figures/{{figure}}.svg", figure=DRAWN)


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
        "logged {log:q} python -m fedgrid.analysis.collect {input.manifest:q} {output:q}"


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
        "logged {log:q} python -m fedgrid.analysis.tables {input.results:q} {params.folder:q}"


rule figure:
    input:
        source=lambda wildcards: DRAWN[wildcards.figure][1],
        manifest=MANIFEST,
        analysis=ANALYSIS,
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
        "logged {log:q} python -m fedgrid.analysis.report {input.results:q} {output:q} --tables {params.tables:q}"
        " --figures {input.figures:q} --configfile {params.configfile:q}"
