# The plan of the run: which cells there are and where each is kept. No mathematics here.
import os
import re
import sys
from shlex import quote

from fedgrid.loading import CODE
from fedgrid.run import run_log, snakemake_adapter
from fedgrid.run.invocation import PLAN, invocation
from fedgrid.shipped import folder

# on a cluster's nodes: the plan of the run in place of the study
if PLAN not in os.environ and not snakemake_adapter.is_study_given(workflow, config):
    from fedgrid.api.study_file import check_default_study  # which jobs on nodes do not need

    check_default_study()

    configfile: "config/study.yaml"


RUN = invocation(config, snakemake_adapter.configfiles(workflow), snakemake_adapter.submits(workflow))
STUDY, RESULTS, STORE, COMPUTE, GPU = RUN.study, RUN.study.results, RUN.study.store, RUN.compute, RUN.gpus_per_job
run_log.page = lambda: RUN.page_file if snakemake_adapter.makes_everything(workflow) else None
if not RUN.submits:
    snakemake_adapter.offer_gpus(workflow, RUN.gpu_slots)
# Jobs run with the interpreter that runs Snakemake, activated or not, and with the code that the run began with.
SET = f"export PYTHON={quote(sys.executable)} PLAN={quote(str(RUN.file))} OMP_NUM_THREADS={COMPUTE.threads}"
KEPT, INSTALLED = f"${{{CODE}:+${CODE}/fedgrid/workflow}}", quote(str(folder("workflow").resolve()))
PREFIX = f'{SET} WORKFLOW="{KEPT}"; job() {{ bash "${{WORKFLOW:-{INSTALLED}}}/scripts/job.sh" "$@"; }}; '
shell.prefix(PREFIX.replace("{", "{{").replace("}", "}}"))  # Snakemake formats it


wildcard_constraints:
    key="[0-9a-f]{16}",
    experiment="|".join(map(re.escape, RUN.experiments)),
    method=r"\w+",
    data=r"[\w.-]+",
    kind="data|features",
    seed=r"\d+",
