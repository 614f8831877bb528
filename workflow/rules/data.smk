# Data sets, their features, and partitions. Their keys stand in their paths; times and shell texts mean nothing.


rule data:
    input:
        lambda w: DATA[w.key].images.files.values() if DATA[w.key].images else [],
    output:
        multiext(f"{STORE}/{{kind}}/{{data}}-{{key}}/", "train.parquet", "test.parquet"),
    log:
        f"{STORE}/logs/{{kind}}/{{data}}-{{key}}.log",
    wildcard_constraints:
        kind="data",
    priority: 20
    conda:
        "../envs/fedgrid.yaml"
    params:
        job=lambda w: canonical(DATA[w.key].job(RUN.data_root, STUDY.downloads, COMPUTE["device"], COMPUTE["threads"])),
    shell:
        "logged {log:q} python -m fedgrid.jobs.prepare {wildcards.kind} {params.job:q}"


# a backbone's pass over all images is no light work: where there is a cluster, it is done there
use rule data as features with:
    wildcard_constraints:
        kind="features",
    resources:
        mem_mb=COMPUTE["memory"],
        runtime=COMPUTE["minutes"],
        gpu=GPU,


rule partition:
    input:
        lambda w: unless_built(SPLITS[w.key, w.seed].file.exists(), *SPLITS[w.key, w.seed].data.files.values()),
    output:
        multiext(f"{STORE}/partitions/{{data}}/{{heterogeneity}}-{{key}}/seed={{seed}}", ".parquet", ".json"),
    log:
        f"{STORE}/logs/partitions/{{data}}/{{heterogeneity}}-{{key}}/seed={{seed}}.log",
    priority: 10
    conda:
        "../envs/fedgrid.yaml"
    params:
        job=lambda w: canonical(SPLITS[w.key, w.seed].job()),
    shell:
        "logged {log:q} python -m fedgrid.jobs.prepare partition {params.job:q}"
