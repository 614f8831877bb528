# From cells to tables, figures and pages. Pure functions of the cells; they train nothing.


# Its name covers the study and the code that draws: where either is another one, all below is made anew. It is a parameter
# too, for an input that is missing does not make Snakemake run what stands between files that exist.
rule manifest:
    input:
        lambda w: RUN.targets(w.experiment),
    output:
        f"{RESULTS}/{{experiment}}/manifest-{{key}}.json",
    log:
        f"{RESULTS}/{{experiment}}/logs/manifest-{{key}}.log",
    shell:
        'job {log:q} fedgrid.jobs.finish "$PLAN" {output:q}'


rule experiment:
    input:
        cells=lambda w: RUN.targets(w.experiment),
        manifest=lambda w: RUN.manifest(w.experiment),
        partitions=lambda w: RUN.pictured(w.experiment),
    output:
        f"{RESULTS}/{{experiment}}/results.parquet",
        directory(f"{RESULTS}/{{experiment}}/tables"),
        directory(f"{RESULTS}/{{experiment}}/figures"),
        f"{RESULTS}/{{experiment}}/report.html",
    log:
        f"{RESULTS}/{{experiment}}/logs/report.log",
    params:
        manifest=lambda w: RUN.manifest(w.experiment).name,
        configfile=RUN.plan.configfile,
    shell:
        "job {log:q} fedgrid.analysis.pages.build {input.manifest:q} --configfile {params.configfile:q}"


if STUDY.has_experiments:

    localrules:
        paper,

    rule paper:
        input:
            [f"{RESULTS}/{name}/report.html" for name in RUN.experiments],
        output:
            f"{STUDY.folder}/report.html",
        log:
            f"{STUDY.folder}/logs/report.log",
        params:
            manifests=RUN.manifests,
            made_from=RUN.page,
            configfile=RUN.plan.configfile,
        shell:
            "job {log:q} fedgrid.analysis.pages.paper {params.manifests:q} {output:q} --configfile {params.configfile:q}"
