# Data sets, their features, and partitions. Their keys stand in their paths; times and shell texts mean nothing.


rule data:
    input:
        lambda w: STUDY.datasets[w.key].images.files.values() if STUDY.datasets[w.key].images else [],
    output:
        multiext(f"{STORE}/{{kind}}/{{data}}-{{key}}/", "train.parquet", "test.parquet"),
    log:
        f"{STORE}/logs/{{kind}}/{{data}}-{{key}}.log",
    wildcard_constraints:
        kind="data",
    priority: 20
    conda:
        "../envs/fedgrid.yaml"
    shell:
        'job {log:q} fedgrid.jobs.dataset "$PLAN" {wildcards.key}'


# a backbone's pass over all images is no light work: where there is a cluster, it is done there
use rule data as features with:
    wildcard_constraints:
        kind="features",
    resources:
        mem_mb=COMPUTE.mem_mb,
        runtime=COMPUTE.runtime,
        gpu=GPU,


rule partition:
    input:
        lambda w: RUN.image_files(w.key, int(w.seed)),
    output:
        multiext(f"{STORE}/partitions/{{data}}/{{heterogeneity}}-{{key}}/seed={{seed}}", ".parquet", ".json"),
    log:
        f"{STORE}/logs/partitions/{{data}}/{{heterogeneity}}-{{key}}/seed={{seed}}.log",
    priority: 10
    conda:
        "../envs/fedgrid.yaml"
    shell:
        'job {log:q} fedgrid.jobs.partition "$PLAN" {wildcards.key} {wildcards.seed}'
