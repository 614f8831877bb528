# One job per cell.
import subprocess
import tempfile


rule train:
    input:
        ancient(lambda wildcards: CELLS[wildcards.key].split.file),
        lambda wildcards: [ancient(file) for file in CELLS[wildcards.key].split.data.files.values()],
    output:
        f"{STORE}/cells/{{method}}/{{data}}/{{heterogeneity}}/s{{seed}}-{{key}}.parquet",
    log:
        f"{STORE}/logs/cells/{{method}}/{{data}}/{{heterogeneity}}/s{{seed}}-{{key}}.log",
    conda:
        "../envs/fedgrid.yaml"
    threads: COMPUTE["threads"]
    resources:
        mem_mb=COMPUTE["memory"],
        runtime=COMPUTE["minutes"],
    params:
        client=str(WARM / "client.py"),
        job=lambda wildcards: canonical(CELLS[wildcards.key].job()),
        # no outputs: they outlive an attempt that failed
        checkpoint=f"{STORE}/checkpoints/{{key}}.pt",
        status=f"{STORE}/status/{{key}}.json",
        every=COMPUTE["checkpoint_every"],
        device=COMPUTE["device"],
    shell:
        "python -S -E {params.client:q} fedgrid.engine.cell {params.job:q} --out {output} --checkpoint {params.checkpoint}"
        " --status {params.status} --checkpoint-every {params.every} --device {params.device} --threads {threads}"
        " > {log} 2>&1"


# Hooks do not run on a cluster's nodes: there, and wherever no server listens, each cell is a plain process.
onstart:
    os.environ["FEDGRID_WARM_SOCKET"] = os.path.join(tempfile.mkdtemp(prefix="fedgrid-"), "socket")
    global WORKER
    WORKER = subprocess.Popen(
        [sys.executable, "-m", "fedgrid.warm.server", os.environ["FEDGRID_WARM_SOCKET"]],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )


onsuccess:
    WORKER.terminate()


onerror:
    WORKER.terminate()
