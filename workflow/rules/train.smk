# One job per cell; on a cluster, small cells may share one (`compute.pack`).
# What is kept beside its results are outputs too, and rules have fixed outputs: so there is a rule for every choice of it.
for number, (artifacts, keys) in enumerate(RUN.keys_by_artifacts.items()):

    rule:
        name:
            f"train_{number}" if number else "train"
        input:
            lambda w: RUN.needs(w.key),
        output:
            multiext(
                f"{STORE}/cells/{{method}}/{{data}}/{{heterogeneity}}/s{{seed}}-{{key}}",
                ".parquet",
                *artifacts,
            ),
        log:
            f"{STORE}/logs/cells/{{method}}/{{data}}/{{heterogeneity}}/s{{seed}}-{{key}}.log",
        wildcard_constraints:
            key="|".join(keys),
        conda:
            "../envs/fedgrid.yaml"
        threads: COMPUTE.threads
        resources:
            mem_mb=lambda w, attempt: RUN.request([STUDY.known[w.key]], attempt).mem_mb,
            runtime=lambda w, attempt: RUN.request([STUDY.known[w.key]], attempt).runtime,
            gpu=GPU,
        shell:
            'WARM=1 job {log:q} fedgrid.jobs.cell "$PLAN" {wildcards.key}'


rule pack:
    input:
        lambda w: sorted({file for cell in RUN.pack(w.key) for file in cell.needs}),
    output:
        f"{STORE}/packs/{{key}}.done",
    log:
        f"{STORE}/logs/packs/{{key}}.log",
    conda:
        "../envs/fedgrid.yaml"
    threads: COMPUTE.threads * RUN.gpu_share
    resources:
        mem_mb=lambda w, attempt: RUN.request(RUN.pack(w.key), attempt).mem_mb,
        runtime=lambda w, attempt: RUN.request(RUN.pack(w.key), attempt).runtime,
        gpu=GPU,
    shell:
        'job {log:q} fedgrid.jobs.pack "$PLAN" {wildcards.key} {output:q} --threads {threads}'


# Hooks do not run on a cluster's nodes: there, and wherever no server listens, each cell is a plain process.
onstart:
    RUN.begin(snakemake_adapter.targets(workflow))
    if RUN.submits:
        snakemake_adapter.hide_configfiles(workflow)
        snakemake_adapter.follow_jobs_without_accounting(workflow)
    else:
        snakemake_adapter.lift_rate_limit(workflow)


onsuccess:
    RUN.end(complete=snakemake_adapter.makes_everything(workflow))


onerror:
    RUN.end(failed=True)
