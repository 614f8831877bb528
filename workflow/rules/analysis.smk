# From cells to tables, figures and pages. Pure functions of the cells; they train nothing.


report: "../report/workflow.rst"


# What a search chooses; which cells its row has in the table is known only then.
checkpoint choice:
    input:
        lambda w: RUN.trial_files(w.key, checkpoints),
    output:
        f"{STORE}/choices/{{key}}.json",
    log:
        f"{STORE}/logs/choices/{{key}}.log",
    conda:
        "../envs/fedgrid.yaml"
    shell:
        'job {log:q} fedgrid.analysis.scores.choice "$PLAN" {wildcards.key} {output:q}'


# Its name covers the study and the code that draws: where either is another one, all below is made anew. It is a parameter
# too, for an input that is missing does not make Snakemake run what stands between files that exist.
rule manifest:
    input:
        lambda w: RUN.targets(w.experiment, checkpoints),
    output:
        f"{RESULTS}/{{experiment}}/manifest-{{key}}.json",
    log:
        f"{RESULTS}/{{experiment}}/logs/manifest-{{key}}.log",
    conda:
        "../envs/fedgrid.yaml"
    shell:
        'job {log:q} fedgrid.jobs.finish "$PLAN" {output:q}'


rule experiment:
    input:
        cells=lambda w: RUN.targets(w.experiment, checkpoints),
        manifest=lambda w: RUN.manifest(w.experiment, checkpoints),
        partitions=lambda w: RUN.pictured_partitions(w.experiment),
    output:
        f"{RESULTS}/{{experiment}}/results.parquet",
        report(
            directory(f"{RESULTS}/{{experiment}}/tables"),
            patterns=["{table}.{form,html|csv}"],
            caption="../report/table.rst",
            category="{experiment}",
            subcategory="Tables",
            labels=lambda w: {"table": w.table, "formatted": "yes" if w.form == "html" else "no"},
        ),
        report(
            directory(f"{RESULTS}/{{experiment}}/figures"),
            patterns=[r"{figure,.+(?<!\.narrow)}.svg"],
            caption="../report/figure.rst",
            category="{experiment}",
            subcategory="Figures",
            labels={"figure": "{figure}"},
        ),
        report(
            f"{RESULTS}/{{experiment}}/report.html",
            caption="../report/page.rst",
            category="{experiment}",
            subcategory="Page",
            labels={"page": "{experiment}"},
        ),
    log:
        f"{RESULTS}/{{experiment}}/logs/report.log",
    conda:
        "../envs/fedgrid.yaml"
    params:
        manifest=lambda w: RUN.manifest(w.experiment).name,
        configfile=RUN.plan.configfile,
    shell:
        "job {log:q} fedgrid.analysis.pages.build {input.manifest:q} --configfile {params.configfile:q}"


if STUDY.has_experiments:

    rule paper:
        input:
            [f"{RESULTS}/{name}/report.html" for name in RUN.experiments],
            lambda w: [RUN.manifest(name, checkpoints) for name in RUN.experiments],
        output:
            report(
                f"{STUDY.folder}/report.html",
                caption="../report/paper.rst",
                category="All experiments",
                labels={"page": STUDY.folder.name},
            ),
        log:
            f"{STUDY.folder}/logs/report.log",
        localrule: True
        conda:
            "../envs/fedgrid.yaml"
        params:
            manifests=lambda w: RUN.manifests,
            made_from=RUN.page,
            configfile=RUN.plan.configfile,
        shell:
            "job {log:q} fedgrid.analysis.pages.paper {params.manifests:q} {output:q} --configfile {params.configfile:q}"
