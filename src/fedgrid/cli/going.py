"""``fedgrid go``: the workflow for those who do not know Snakemake; it prints the command that it stands for."""

import argparse
import os
import shlex
import sys

from fedgrid.api.study_file import DEFAULT
from fedgrid.cli.parsing import Commands, path, with_examples
from fedgrid.cli.studies import add_choice
from fedgrid.errors import UserError
from fedgrid.grid.study.yaml_file import read
from fedgrid.run.launch import Launch

EXAMPLES = """
fedgrid go
fedgrid go config/papers/fedsac.yaml --scale small --cores 8
fedgrid go config/mnist.yaml --slurm
fedgrid go --dry-run
fedgrid go --snakemake="--until data"
"""


def add_commands(commands: Commands) -> None:
    """Adds `fedgrid go` to the command line."""
    go = with_examples(commands, "go", "run a study: start Snakemake on it", EXAMPLES)
    go.add_argument("study", nargs="?", type=path, default=DEFAULT, help=f"the study's file (default: {DEFAULT})")
    go.add_argument("--cores", default="all", metavar="N", help="cores, a cell on each (default: all)")
    go.add_argument("--slurm", action="store_true", help="submit the cells to SLURM, by profiles/slurm")
    go.add_argument("--dry-run", action="store_true", help="print what would be done")
    text = "further options of Snakemake, in quotes"
    go.add_argument("--snakemake", type=shlex.split, default=[], metavar="OPTIONS", help=text)
    add_choice(go)
    go.set_defaults(call=_go)


def _go(arguments: argparse.Namespace) -> int:
    if not arguments.study.exists():
        raise UserError(f"{arguments.study}: no such study; fedgrid init makes a project with one")
    read(arguments.study)  # Snakemake reads it first, and neither names the file nor says what is wrong with it
    names = ("study", "cores", "scale", "only", "slurm")
    options = ["--dry-run"] * arguments.dry_run + arguments.snakemake
    launch = Launch(**{name: getattr(arguments, name) for name in names}, options=options)
    print(shlex.join(["snakemake", *launch.arguments]), flush=True)
    os.execv(sys.executable, launch.command)  # signals reach Snakemake itself, which ends its jobs in order
