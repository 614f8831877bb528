# Data sets and partitions. Their keys stand in their paths; times and shell texts mean nothing.


rule data:
    output:
        train=f"{STORE}/data/{{data}}-{{key}}/train.parquet",
        test=f"{STORE}/data/{{data}}-{{key}}/test.parquet",
    log:
        f"{STORE}/logs/data/{{data}}-{{key}}.log",
    priority: 20
    conda:
        "../envs/fedgrid.yaml"
    params:
        job=lambda wildcards: canonical(DATA[wildcards.key].job(DATA_ROOT, STUDY.downloads)),
    shell:
        "logged {log:q} python -m fedgrid.prepare data {params.job:q}"


rule partition:
    input:
        lambda wildcards: unless_built(SPLITS[wildcards.key].file, *SPLITS[wildcards.key].data.files.values()),
    output:
        f"{STORE}/partitions/{{data}}/{{heterogeneity}}/s{{seed}}-{{key}}.parquet",
    log:
        f"{STORE}/logs/partitions/{{data}}/{{heterogeneity}}/s{{seed}}-{{key}}.log",
    priority: 10
    conda:
        "../envs/fedgrid.yaml"
    params:
        job=lambda wildcards: canonical(SPLITS[wildcards.key].job()),
    shell:
        "logged {log:q} python -m fedgrid.prepare partition {params.job:q}"
