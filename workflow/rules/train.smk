# One job per cell; on a cluster, small cells may share one (`compute.pack`).


rule train:
    input:
        lambda w: unless_built(CELLS[w.key].done, *CELLS[w.key].needs),
    output:
        multiext(
            f"{STORE}/cells/{{method}}/{{data}}/{{heterogeneity}}/s{{seed}}-{{key}}",
            ".parquet",
            *[f".{kind}.parquet" for kind in STUDY.text["keep"]],
        ),
    log:
        f"{STORE}/logs/cells/{{method}}/{{data}}/{{heterogeneity}}/s{{seed}}-{{key}}.log",
    conda:
        "../envs/fedgrid.yaml"
    threads: COMPUTE["threads"]
    resources:
        mem_mb=lambda w, attempt: estimates.request([CELLS[w.key]], STUDY).again(attempt).memory,
        runtime=lambda w, attempt: estimates.request([CELLS[w.key]], STUDY).again(attempt).minutes,
        gpu=GPU,
    params:
        arguments=lambda w: CELLS[w.key].arguments(COMPUTE),
    shell:
        "logged {log:q} cell {params.arguments:q}"


rule pack:
    input:
        lambda w: packs.read(STORE, w.key)["needs"],
    output:
        f"{STORE}/packs/{{key}}.done",
    log:
        f"{STORE}/logs/packs/{{key}}.log",
    conda:
        "../envs/fedgrid.yaml"
    threads: COMPUTE["threads"] * COMPUTE["gpu_share"]
    resources:
        mem_mb=lambda w, attempt: packs.asked(STORE, w.key).again(attempt).memory,
        runtime=lambda w, attempt: packs.asked(STORE, w.key).again(attempt).minutes,
        gpu=GPU,
    params:
        plan=lambda w: packs.file(STORE, w.key),
    shell:
        "logged {log:q} python -m fedgrid.jobs.pack {params.plan:q} {output:q} --threads {threads}"


# Hooks do not run on a cluster's nodes: there, and wherever no server listens, each cell is a plain process.
onstart:
    workflow.config_settings.configfiles = RUN.begin()


onsuccess:
    RUN.end()


onerror:
    RUN.end(failed=True)
