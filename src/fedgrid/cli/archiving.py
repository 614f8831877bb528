"""``fedgrid bundle | open``: a study as one archive, and an archive in another store."""

import argparse
import sys
from pathlib import Path
from shlex import quote

from fedgrid.api.study_file import DEFAULT
from fedgrid.cli.other_code import module_names
from fedgrid.cli.parsing import Commands, path, utf8, with_examples
from fedgrid.cli.phrases import counted
from fedgrid.cli.studies import add_choice
from fedgrid.errors import say

BUNDLE = """
fedgrid bundle
fedgrid bundle config/papers/fedcosr.yaml --scale small --out fedcosr.zip
fedgrid bundle --without-models --license CC-BY-4.0
"""
OPEN = "fedgrid open digits.zip\nfedgrid open digits.zip --results results"


def add_commands(commands: Commands) -> None:
    """Adds `fedgrid bundle` and `fedgrid open` to the command line."""
    text = "put a study's page, tables, figures, results, study and code digests into one archive, an RO-Crate"
    bundle = with_examples(commands, "bundle", text, BUNDLE)
    bundle.add_argument("study", nargs="?", type=path, default=DEFAULT, metavar="STUDY", help=f"default: {DEFAULT}")
    bundle.add_argument("--out", type=path, metavar="FILE", help="default: the study's name with .zip")
    bundle.add_argument("--without-models", action="store_true", help="leave out models and states of clients")
    bundle.add_argument("--license", type=utf8, metavar="TEXT", help="the license of the archive, for its description")
    add_choice(bundle)
    bundle.set_defaults(call=_bundle)
    text = "unpack an archive into a store, so that a run has nothing left to train; existing files are kept"
    opening = with_examples(commands, "open", text, OPEN)
    opening.add_argument("archive", type=path, metavar="ARCHIVE", help="a file of fedgrid bundle")
    opening.add_argument("--results", type=path, default=Path("results"), metavar="FOLDER", help="default: results")
    opening.set_defaults(call=_open)


def _bundle(arguments: argparse.Namespace) -> int:
    from fedgrid.api.archive.contents import client_data_in_artifacts, finished_cells
    from fedgrid.api.archive.writing import NO_LICENSE, Bundle
    from fedgrid.api.study_file import read_study

    study = read_study(arguments.study, arguments.scale, arguments.only)
    out: Path = arguments.out or Path(f"{study.folder.name}.zip")
    if not arguments.without_models:
        for contents, number in client_data_in_artifacts(finished_cells(study)).items():
            files = counted(number, "file")
            say(f"fedgrid: the archive has {files} of {contents}; --without-models leaves them out", sys.stderr)
    bundle = Bundle(study, arguments.study, not arguments.without_models, arguments.license or NO_LICENSE)
    print(f"{out}: {counted(bundle.write(out), 'file')}, {out.stat().st_size / 1e6:,.1f} MB")
    return 0


def _open(arguments: argparse.Namespace) -> int:
    from fedgrid.api.archive.code_names import is_code
    from fedgrid.api.archive.opening import open_archive

    opened = open_archive(arguments.archive, arguments.results)
    provenance = opened.provenance
    print(", ".join(f"{counted(number, 'file')} {outcome}" for outcome, number in sorted(opened.outcomes.items())))
    for file in opened.written:
        note = ", which is code: read it before you run it" if is_code(file.name) else ""
        print(f"written  {file}{note}")
    for file in opened.kept:
        note = ", and is code: a run uses yours" if is_code(file.name) else ""
        print(f"kept     {file}, which differs from the archive's{note}")
    for name in opened.outside:
        print(f"left     {name}, which is in the archive alone: put it where the study names it")
    if differing := provenance.differing():
        concerned = f"{max(differing.values()):,} of {counted(len(provenance.cells), 'cell')}"
        edited = module_names(sorted(differing))
        print(f"the code here differs from that of {concerned} ({edited}): a run trains these again")
    if arguments.results != Path(provenance.results):
        print(f"the study's results are in {provenance.results}: set 'results: {arguments.results}' in it")
    scale = "" if provenance.scale == "full" else f" --scale {quote(provenance.scale)}"
    print(f"Next: fedgrid go {quote(provenance.study or 'STUDY')}{scale}")
    return 0
