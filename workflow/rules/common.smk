# The study, planned once: which cells there are and where each is kept. No mathematics here.
from fedgrid.grid import estimates, drawing
from fedgrid.run import invocation, packs
from fedgrid.grid.identity import canonical

# a cluster's executor counts jobs, the local one cores
SUBMITS = workflow.nodes is not None
RUN = invocation.planned(config, workflow.configfiles, workflow.basedir, SUBMITS, begins=workflow.is_main_process)
STUDY, STORE, COMPUTE, GPU = RUN.study, RUN.study.store, RUN.compute, RUN.gpus_per_job
DATA = {data.key: data for data in STUDY.kept}
SPLITS = {(split.key, str(split.seed)): split for split in STUDY.splits}
CELLS = STUDY.by_key
if RUN.places and not SUBMITS and "gpu" not in workflow.global_resources:
    workflow.register_resource("gpu", RUN.places)  # or cells would hold cores while they wait for cards
shell.prefix(RUN.prefix)


def unless_built(built, *inputs):
    """The inputs of a keyed file: none once it is there, for then nothing that happens to them can make it stale."""
    return [] if built else list(inputs)


wildcard_constraints:
    key="[0-9a-f]{16}",
    figure=r"(curves|ablation|partition|shares)-[\w.-]+",
    method=r"\w+",
    data=r"[\w.-]+",
    kind="data|features",
    seed=r"\d+",
