"""``fedgrid init``: a project that runs without a clone of fedgrid; its few files belong to the user."""

import argparse
import shlex
from collections.abc import Mapping
from pathlib import Path

from fedgrid import shipped
from fedgrid.cli.parsing import Commands, path, with_examples
from fedgrid.errors import UserError, nearest
from fedgrid.files import check_utf8, write_text

EXAMPLES = """
fedgrid init digits
fedgrid init digits --paper fedsac
fedgrid init . --paper all
"""
IGNORED = "/results/\n/.snakemake/\n__pycache__/\n"
README = """\
# {name}

A study for fedgrid: `config/study.yaml` names methods, data sets, kinds of heterogeneity and seeds.

    fedgrid plan               # cells, time and memory
    snakemake --cores 2        # or `fedgrid go`: trains what is missing, then makes results/*/report.html
    fedgrid status             # what is done, running, queued, failed
    fedgrid new-method mine    # a method of your own in one file; `fedgrid check mine.py` tests it

On a cluster: `fedgrid go --slurm`, after naming its partition in `profiles/slurm`. More: `fedgrid --help`.
"""
ALL = "all"


def add_commands(commands: Commands) -> None:
    """Adds `fedgrid init` to the command line."""
    text = "make a project: a short Snakefile, a study, profiles; files that exist are left as they are"
    init = with_examples(commands, "init", text, EXAMPLES)
    init.add_argument("folder", type=path, metavar="FOLDER", help="where; it is made if it does not exist")
    text = "also add a paper's study and printed numbers (NAME, or all)"
    init.add_argument("--paper", action="append", default=[], metavar="NAME", help=text)
    init.set_defaults(call=_init)


def _init(arguments: argparse.Namespace) -> int:
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
    return 0


def _files(name: str, papers: list[str]) -> Mapping[str, str]:
    """The text of each file of a project, by its path in it."""
    config = ["study.yaml", *(f"papers/{paper}.{kind}" for paper in _chosen(papers) for kind in ("yaml", "csv"))]
    copies = [*(f"config/{file}" for file in config), "profiles/default/config.yaml", "profiles/slurm/config.yaml"]
    texts = {copy: _text(copy) for copy in copies}
    snakefile = _text("workflow/Snakefile")
    return {"Snakefile": snakefile, ".gitignore": IGNORED, "README.md": README.format(name=name), **texts}


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
    return [*entering, *(first or ["fedgrid go"])]
