"""Kept cells judged by today's tables, rules and pages, without training: their numbers are those of their own code.

python -m benchmarks.judgement OUT [--scale small] [--papers config/papers/fedcosr.yaml …]

Writes what a run would write, to OUT/<paper>-<scale>/, from the archives in benchmarks/cells/<scale>: of each planned
cell the one with the same settings, whatever its code. Cells that are not kept are missing. Data sets and partitions
are built in the studies' store where they are not there yet. `python -m benchmarks.papers keep OUT …` can follow.
"""

import argparse
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.papers import ARCHIVES
from fedgrid.analysis.pages.build import write
from fedgrid.analysis.pages.paper import paper
from fedgrid.api.study_file import read_study
from fedgrid.errors import UserError
from fedgrid.files import write_json
from fedgrid.grid.adoption.candidates import Candidate, earlier
from fedgrid.grid.plan import manifest
from fedgrid.grid.plan.codec import encode
from fedgrid.grid.plan.manifest_model import Absence, ListedCell, Manifest
from fedgrid.grid.plan.planned_study import Experiment, Study
from fedgrid.jobs.preparation import prepare

ABSENT = Absence("missing")
"""The state of cells that are not kept."""


def unpacked(scale: str, folder: Path) -> Path:
    """The store with the kept cells of a scale, in `folder`."""
    for file in sorted((ARCHIVES / scale).glob("*/*.tar.xz")):
        with tarfile.open(file) as archive:
            archive.extractall(folder, filter="data")
    return folder / "results/store"


def judge(file: Path, scale: str, store: Path, out: Path) -> None:
    """Make the tables, figures and pages of a paper's experiments, and its own page."""
    study = read_study(file, scale, None)
    folder = out / study.folder.name
    manifests = [
        judged(study, experiment, store, folder / experiment.id, str(file)) for experiment in study.experiments
    ]
    paper(manifests, folder / "report.html", str(file))


def judged(study: Study, experiment: Experiment, store: Path, folder: Path, configfile: str) -> Path:
    """The manifest of an experiment whose results lie beside it."""
    kept = {cell.key: next(earlier(cell, store), None) for cell in experiment.cells if not cell.unavailable}
    for cell in experiment.cells:
        if kept.get(cell.key) and not cell.partition.file.is_file():
            prepare(cell.partition, study)
    content = of_earlier(manifest.content(study, experiment), kept)
    name = folder / f"manifest-{len(content.cells)}.json"
    write_json(name, encode(content))
    write(content, folder, configfile, made_from=name.name)
    print(f"{folder}: {sum(map(bool, kept.values()))} of {len(experiment.cells)} cells", flush=True)
    return name


def of_earlier(content: Manifest, kept: dict[str, Candidate | None]) -> Manifest:
    """The manifest with kept cells in place of the planned ones."""
    absent = dict(content.absent)
    cells: list[ListedCell] = []
    for cell in content.cells:
        candidate = kept.get(cell.key)
        if candidate is None:
            absent.setdefault(cell.key, ABSENT)
            cells.append(cell)
        else:
            cells.append(replace(cell, key=candidate.key, path=candidate.file, kept=candidate.artifacts))
    return replace(content, cells=cells, absent=absent)


def main(argv: Sequence[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.judgement", description=__doc__.partition("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--scale", default="small")
    parser.add_argument("--papers", type=Path, nargs="+", default=sorted(Path("config/papers").glob("*.yaml")))
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        store = unpacked(arguments.scale, Path(folder))
        for file in arguments.papers:
            try:
                judge(file, arguments.scale, store, arguments.out)
            except UserError as error:
                raise SystemExit(f"{file}: {error}") from error


if __name__ == "__main__":
    main()
