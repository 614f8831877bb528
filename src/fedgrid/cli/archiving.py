"""``fedgrid bundle | open``: a study as one archive, and an archive in another store."""

import argparse
import sys
from pathlib import Path
from shlex import quote

from fedgrid.api.study_file import DEFAULT, read_study
from fedgrid.cli.parsing import CHOICE, RESULTS, command, flag, option, path, utf8
from fedgrid.cli.phrases import counted, module_names
from fedgrid.errors import say


@command(
    option("study STUDY", f"default: {DEFAULT}", nargs="?", type=path, default=DEFAULT),
    option("--out FILE", "default: the study's name with .zip", type=path),
    flag("--without-models", "leave out models and states of clients"),
    option("--license TEXT", "the license of the archive, for its description", type=utf8),
    *CHOICE,
)
def bundle(arguments: argparse.Namespace) -> int:
    """Put a study's page, tables, figures, results, study and code digests into one archive, an RO-Crate.

    fedgrid bundle
    fedgrid bundle config/papers/fedcosr.yaml --scale small --out fedcosr.zip
    fedgrid bundle --without-models --license CC-BY-4.0
    """
    from fedgrid.api.archive.contents import client_data_in_artifacts, finished_cells
    from fedgrid.api.archive.writing import NO_LICENSE, Bundle

    study = read_study(arguments.study, arguments.scale, arguments.only)
    out: Path = arguments.out or Path(f"{study.folder.name}.zip")
    if not arguments.without_models:
        for contents, number in client_data_in_artifacts(finished_cells(study)).items():
            files = counted(number, "file")
            say(f"fedgrid: the archive has {files} of {contents}; --without-models leaves them out", sys.stderr)
    bundle = Bundle(study, arguments.study, not arguments.without_models, arguments.license or NO_LICENSE)
    print(f"{out}: {counted(bundle.write(out), 'file')}, {out.stat().st_size / 1e6:,.1f} MB")
    return 0


@command(option("archive ARCHIVE", "a file of fedgrid bundle", type=path), RESULTS)
def open_(arguments: argparse.Namespace) -> int:
    """Unpack an archive into a store, so that a run has nothing left to train; existing files are kept.

    fedgrid open digits.zip
    fedgrid open digits.zip --results results
    """
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
