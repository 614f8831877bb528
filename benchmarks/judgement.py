"""Kept cells judged by today's tables, rules and pages, without training: their numbers are those of their own code.

python -m benchmarks.judgement OUT [--scale small] [--papers config/papers/fedcosr.yaml …] [--tables]

Writes what a run would write, to OUT/<paper>-<scale>/, from the archives in benchmarks/cells/<scale>: of each planned
cell the one with the same settings, whatever its code. Cells that are not kept are missing. Data sets and partitions
are built in the studies' store where they are not there yet. `--tables`: no figures, no pages. Then
`python -m benchmarks.papers pages OUT …` can follow.
"""

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.papers import newest, unpack
from fedgrid.analysis.pages.build import write
from fedgrid.analysis.pages.paper import paper
from fedgrid.analysis.pages.table_set import write_tables
from fedgrid.analysis.scores.collect import collect
from fedgrid.api.study_file import read_study
from fedgrid.errors import UserError
from fedgrid.files import write_json
from fedgrid.grid.earlier.stored import StoredResults
from fedgrid.grid.plan import manifest
from fedgrid.grid.plan.manifest_model import Cell, Manifest
from fedgrid.grid.plan.planned_study import Experiment, Study
from fedgrid.grid.study.codec import encode
from fedgrid.jobs.partition import prepare

ABSENT = "missing"
"""The state of cells that are not kept."""


def judge(file: Path, scale: str, store: Path, out: Path, pages: bool) -> None:
    """Make the tables of a paper's experiments, and with `pages` their figures and pages, and its own page."""
    study = read_study(file, scale, None)
    folder = out / study.folder.name
    manifests = []
    for experiment in study.experiments:
        content, number = with_kept(study, experiment, store)
        name = folder / experiment.id / "manifest-kept.json"
        write_json(name, encode(content))
        make(content, name, str(file) if pages else None)
        print(f"{name.parent}: {number} of {len(experiment.cells)} cells", flush=True)
        manifests.append(name)
    if pages:
        paper(manifests, folder / "report.html", str(file))


def make(content: Manifest, name: Path, configfile: str | None) -> None:
    """Make the results and tables of an experiment beside its manifest, with figures and a page of a `configfile`."""
    folder = name.parent
    if configfile is not None:
        write(content, folder, configfile, made_from=name.name)
        return
    results = collect(content, folder / "results.parquet", made_from=name.name)
    (folder / "tables").mkdir(exist_ok=True)
    write_tables(results, folder / "tables")


def with_kept(study: Study, experiment: Experiment, store: Path) -> tuple[Manifest, int]:
    """The manifest of an experiment with kept cells in place of the planned ones, and the number of these."""
    available = [cell for cell in experiment.cells if not cell.unavailable]
    kept = {cell.key: newest(cell, store) for cell in available}
    for cell in available:
        if kept[cell.key] and not cell.partition.file.is_file():
            prepare(cell.partition, study)
    return of_earlier(manifest.content(study, experiment), kept), sum(map(bool, kept.values()))


def of_earlier(content: Manifest, kept: dict[str, StoredResults | None]) -> Manifest:
    """The manifest with kept cells in place of the planned ones."""
    cells: list[Cell] = []
    for cell in content.cells:
        stored = kept.get(cell.key)
        if stored is None:
            cells.append(replace(cell, status=cell.status or ABSENT))
        else:
            artifacts = {kind: file for kind, file in stored.artifacts.items() if file.is_file()}
            cells.append(replace(cell, key=stored.metadata.key, path=stored.file, kept=artifacts))
    return replace(content, cells=cells)


def main(argv: Sequence[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.judgement", description=__doc__.partition("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--scale", default="small")
    parser.add_argument("--papers", type=Path, nargs="+", default=sorted(Path("config/papers").glob("*.yaml")))
    parser.add_argument("--tables", action="store_true", help="no figures, no pages")
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        unpack(arguments.scale, Path(folder))
        store = Path(folder) / "results/store"
        for file in arguments.papers:
            try:
                judge(file, arguments.scale, store, arguments.out, not arguments.tables)
            except UserError as error:
                raise SystemExit(f"{file}: {error}") from error


if __name__ == "__main__":
    main()
