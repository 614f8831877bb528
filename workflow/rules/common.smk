# The study, resolved once: which cells there are and where each is kept. No mathematics here.
import sys
from pathlib import Path
from shlex import quote

from fedgrid import warm
from fedgrid.errors import UserError, complain
from fedgrid.grid import manifest
from fedgrid.grid.identity import canonical
from fedgrid.grid.lock import StoreLock
from fedgrid.grid.study import data_root, read, resolved
from fedgrid.grid.validation import checked

try:
    for file in workflow.configfiles:
        read(Path(file))  # Snakemake itself lets a key stand twice
    STUDY = resolved(checked(config))
    DATA_ROOT = data_root(STUDY.text)
    MANIFEST, ANALYSIS = manifest.write(STUDY), manifest.write_analysis(STUDY)
except UserError as error:
    sys.exit(complain(error))

STORE, COMPUTE, CONFIGFILE = STUDY.store, STUDY.text["compute"], workflow.configfiles[-1]
DATA = {data.key: data for data in STUDY.kept}
SPLITS = {(split.key, str(split.seed)): split for split in STUDY.splits}
CELLS = {cell.key: cell for cell in STUDY.cells}
LOCK = StoreLock(STORE)

# jobs run with the interpreter that runs Snakemake, whether or not its environment is activated; what they say goes to
# their log, and its end to the terminal where they fail
shell.prefix(
    f"export PATH={quote(str(Path(sys.executable).parent))}:$PATH OMP_NUM_THREADS={COMPUTE['threads']}; "
    'logged() {{ local log=$1; shift; "$@" > "$log" 2>&1 || {{ local code=$?; tail "$log" >&2; return $code; }}; }}; '
)


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
