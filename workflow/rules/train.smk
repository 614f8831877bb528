# One job per cell.
WARM = warm.Worker()
CELL = f"{STORE}/cells/{{method}}/{{data}}/{{heterogeneity}}/s{{seed}}-{{key}}"
HOW = ("checkpoint_every", "device", "executor", "client_chunk")


rule train:
    input:
        lambda w: unless_built(CELLS[w.key].done, CELLS[w.key].split.file, *CELLS[w.key].split.data.files.values()),
    output:
        multiext(CELL, ".parquet", *[f".{kind}.parquet" for kind in STUDY.text["keep"]]),
    log:
        f"{STORE}/logs/cells/{{method}}/{{data}}/{{heterogeneity}}/s{{seed}}-{{key}}.log",
    conda:
        "../envs/fedgrid.yaml"
    threads: COMPUTE["threads"]
    resources:
        mem_mb=COMPUTE["memory"],
        runtime=COMPUTE["minutes"],
    params:
        client=str(warm.CLIENT),
        out=lambda wildcards, output: output[0],
        job=lambda wildcards: canonical(CELLS[wildcards.key].job()),
        # no outputs: they outlive an attempt that failed
        checkpoint=f"{STORE}/checkpoints/{{key}}.pt",
        status=f"{STORE}/status/{{key}}.json",
        how=" ".join(f"--{name.replace('_', '-')} {COMPUTE[name]}" for name in HOW),
    shell:
        "logged {log:q} python -S -E {params.client:q} fedgrid.cell {params.job:q} --out {params.out:q}"
        " --checkpoint {params.checkpoint:q} --status {params.status:q} {params.how} --threads {threads}"


# Hooks do not run on a cluster's nodes: there, and wherever no server listens, each cell is a plain process.
onstart:
    try:
        LOCK.acquire()
    except UserError as error:
        sys.exit(complain(error))
    if any(not cell.done for cell in STUDY.cells):
        WARM.start()


onsuccess:
    WARM.stop()
    print(f"Done. Look at {STUDY.folder}/report.html and {STUDY.folder}/tables/accuracy.md", file=sys.stderr)


onerror:
    WARM.stop()
    print("Stopped, or some jobs failed: see above and fedgrid status. The same command goes on.", file=sys.stderr)
