"""``fedgrid init | go``: a project that runs without a clone of fedgrid, and the workflow without knowing Snakemake."""

import argparse
import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from fedgrid import shipped
from fedgrid.cli.parsing import FILE, STUDY, command, file_of, flag, option, path, study_of
from fedgrid.errors import UserError, nearest
from fedgrid.files import check_utf8, write_text
from fedgrid.grid.study.yaml_file import read
from fedgrid.quantities import counted
from fedgrid.run.launch import SNAKEMAKE, snakemake_arguments

IGNORED = "/results/\n/.snakemake/\n__pycache__/\n"
ALL = "all"


@command(
    option("folder FOLDER", "where; it is made if it does not exist", type=path),
    option("--paper NAME", "also add a paper's study and printed numbers (NAME, or all)", action="append", default=[]),
)
def init(arguments: argparse.Namespace) -> None:
    """Make a project: a short Snakefile, a study, profiles; files that exist are left as they are.

    fedgrid init digits
    fedgrid init digits --paper fedsac
    fedgrid init . --paper all
    """
    folder: Path = arguments.folder
    check_utf8(str(folder.resolve()), "FOLDER")  # or no run could write its plan there
    if folder.exists() and not folder.is_dir():
        raise UserError(f"FOLDER: {folder} is a file")
    for name, text in _files(folder.resolve().name, arguments.paper).items():
        file = folder / name
        if not file.exists():
            write_text(file, text)
            print(f"written  {file}")
        elif file.read_bytes() != text.encode():
            print(f"kept     {file}, which differs from fedgrid's")
    print("Next:", *_steps(folder, arguments.paper), sep="\n  ")


def _files(name: str, papers: list[str]) -> Mapping[str, str]:
    """The text of each file of a project, by its path in it."""
    config = ["study.yaml", *(f"papers/{paper}.{kind}" for paper in _chosen(papers) for kind in ("yaml", "csv"))]
    copies = [*(f"config/{file}" for file in config), "profiles/default/config.yaml", "profiles/slurm/config.yaml"]
    made = {
        "Snakefile": shipped.template("cli/templates/Snakefile.txt").template,
        ".gitignore": IGNORED,
        "README.md": shipped.template("cli/templates/project.md").substitute(name=name),
    }
    return {**made, **{copy: _text(copy) for copy in copies}}


def _text(copy: str) -> str:
    top, _, rest = copy.partition("/")
    return (shipped.folder(top) / rest).read_text(encoding="utf-8")


def _chosen(papers: list[str]) -> list[str]:
    known = sorted(file.stem for file in (shipped.folder("config") / "papers").glob("*.yaml"))
    for paper in papers:
        if paper not in (*known, ALL):
            raise UserError(f"--paper: no paper '{paper}'; {nearest(paper, [*known, ALL])}")
    return known if ALL in papers else papers


def _steps(folder: Path, papers: list[str]) -> list[str]:
    entering = [] if folder.resolve() == Path.cwd().resolve() else [shlex.join(["cd", str(folder)])]
    first = [f"fedgrid go config/papers/{paper}.yaml --scale small" for paper in _chosen(papers)[:1]]
    return entering + (first or ["fedgrid go"])


@command(
    FILE,
    option("--cores N", "cores, a cell on each (default: all)", default="all"),
    flag("--slurm", "submit the cells to SLURM, by profiles/slurm"),
    flag("--dry-run", "print what would be done"),
    option("--cells FILE", "only the cells that a list of fedgrid plan --missing names", type=path),
    option("--snakemake OPTIONS", "further options of Snakemake, in quotes", type=shlex.split, default=[]),
    *STUDY,
)
def go(arguments: argparse.Namespace) -> None:
    """Run a study: start Snakemake on it.

    fedgrid go
    fedgrid go config/papers/fedsac.yaml --scale small --cores 8
    fedgrid go config/mnist.yaml --slurm
    fedgrid go --dry-run
    fedgrid go --snakemake="--until data"
    fedgrid go --cells todo-1.txt
    """
    study = file_of(arguments)
    if not study.exists():
        raise UserError(f"{study}: no such study; fedgrid init makes a project with one")
    read(study)  # Snakemake reads it first, and neither names the file nor says what is wrong with it
    options = ["--dry-run"] * arguments.dry_run + arguments.snakemake
    snakemake = snakemake_arguments(study, arguments.cores, arguments.scale, arguments.only, arguments.slurm, options)
    targets = _cell_files(arguments) if arguments.cells else []
    of_cells = f" and {counted(len(targets), 'file')} of cells" if targets else ""
    print(f"{shlex.join(['snakemake', *snakemake])}{of_cells}", flush=True)
    os.execv(
        sys.executable, [*SNAKEMAKE, *targets, *snakemake]
    )  # signals reach Snakemake itself, which ends its jobs in order


def _cell_files(arguments: argparse.Namespace) -> list[str]:
    """The files of results and artifacts of the cells that a list names, as Snakemake's rules call them."""
    from fedgrid.api.cell_lists import listed_cells  # planning takes time to import

    cells = listed_cells(arguments.cells, study_of(arguments))
    return [str(file) for cell in cells for file in cell.files]
