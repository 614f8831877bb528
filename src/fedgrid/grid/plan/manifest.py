"""What an experiment's tables and figures are made from: its cells and how they are to be read, as one JSON file.

The file's name covers its content and the code that draws. Only one is kept beside the tables, and results.parquet
names the one that it was made from. So tables are out of date when that is not the manifest that the study asks for
now, and a study that was edited and reverted is recognised.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import fedgrid
from fedgrid.data.sources.digests import digest as digest_of_file
from fedgrid.files import read_metadata, write_json
from fedgrid.grid.plan import manifest_model
from fedgrid.grid.plan.manifest_model import (
    REPORTED,
    UNAVAILABLE,
    Column,
    ColumnProtocol,
    ColumnSettings,
    Manifest,
    RowDescription,
    SearchDescription,
    StudyDescription,
)
from fedgrid.grid.plan.model import Cell, PlannedPartition
from fedgrid.grid.plan.planned_study import Experiment, Study, first_by_name
from fedgrid.grid.plan.searches import Search
from fedgrid.grid.study.canonical import digest
from fedgrid.grid.study.codec import encode
from fedgrid.grid.study.fingerprint import modules
from fedgrid.grid.study.model import MethodRow, Settings
from fedgrid.loading import packaged

TESTED = {
    "own": "the clients' own test images",
    "official": "the official test images, the same for all clients",
    "weighted": "the official test images, each class weighted by its share in a client's training images",
}
"What accuracy is measured on, by a partition's setting `test`."
NAME = "manifest-*.json"
CURRENT, OUT_OF_DATE, NOT_MADE = "up to date", "out of date", "not made"
"What `tables_state` says."


def file(study: Study, experiment: Experiment) -> Path:
    """Where the manifest of an experiment is kept once all its cells are there."""
    return experiment.folder / NAME.replace("*", digest([encode(content(study, experiment)), _analysis()]))


def files(study: Study) -> dict[str, Path]:
    """The manifests of its experiments, as in `file`, by their names among the results and in their order."""
    return {study.name_of(experiment): file(study, experiment) for experiment in study.experiments}


def has_results(folder: Path) -> bool:
    """Whether the folder of an experiment has results, of whichever manifest."""
    return (folder / "results.parquet").is_file()


def tables_state(path: Path) -> str:
    """Whether the results, tables and page in the folder of a manifest are those that it asks for.

    `NOT_MADE` where there are no results. `CURRENT` where results.parquet was made from this very manifest and the
    page, which is made last, is there too; else `OUT_OF_DATE`. Raises `Damaged` where results.parquet is.
    """
    results = path.with_name("results.parquet")
    if not has_results(path.parent):
        return NOT_MADE
    complete = path.is_file() and path.with_name("report.html").is_file()
    return CURRENT if complete and read_metadata(results).get("manifest") == path.name else OUT_OF_DATE


def at_other_scales(folder: Path, study: str) -> list[Path]:
    """The results of the experiment of `folder` at other scales of the study of that name, as far as they exist.

    Results of another study whose name begins like this one's may be among them.
    """
    folders = [folder.parents[1] / study, *sorted(folder.parents[1].glob(f"{study}-*"))]
    files = [other / folder.name / "results.parquet" for other in folders if other != folder.parent]
    return [file for file in files if file.is_file()]


def write(study: Study, path: Path) -> None:
    """Writes the manifest of the experiment of that folder in place of earlier ones.

    None of them is left if this one cannot be written.
    """
    (experiment,) = (experiment for experiment in study.experiments if experiment.folder == path.parent)
    for earlier in path.parent.glob(NAME):
        earlier.unlink()
    write_json(path, encode(content(study, experiment)))


def content(study: Study, experiment: Experiment) -> Manifest:
    """What the manifest of an experiment says."""
    return Manifest(
        study=_description(study, experiment),
        cells=[_listed(cell) for cell in experiment.cells],
        published=experiment.published,
        published_elsewhere=experiment.published_elsewhere,
        external=experiment.external,
    )


def _description(study: Study, experiment: Experiment) -> StudyDescription:
    """The experiment in words and settings."""
    about, cells = experiment.about, experiment.cells
    partitions = [cell.partition for cell in cells]
    protocols = first_by_name((_column(cell), _protocol(cell)) for cell in cells)
    common = next(iter(protocols.values()), encode(experiment.listed[0].common) if experiment.listed else {})
    return StudyDescription(
        name=study.name_of(experiment),
        title=about.title or experiment.id or study.name,
        source=about.source,
        lacks=about.lacks,
        claims=list(about.claims),
        assumed=dict(about.assumed),
        show=_shown(experiment),
        paper=(study.title or study.name) if experiment.id else "",
        score=about.report.score,
        at=about.report.at,
        seeds=list(about.seeds),
        partition_seed=about.partition_seed,
        train_seed=about.train_seed,
        rounds=max((cell.row.training.rounds for cell in cells), default=0),
        protocol=_without_model(common),
        model=common.get("model", ""),
        elsewhere=[
            ColumnProtocol(columns, _without_model(settings), settings.get("model"))
            for columns, settings in _differing(common, protocols)
        ],
        data={partition.data.label: partition.data.title for partition in partitions},
        heterogeneity={partition.label: partition.description for partition in partitions},
        described=_described(partitions),
        partitions=_partitions(partitions),
        tested=list({TESTED[partition.tested]: None for partition in partitions}),
        methods=_rows(experiment),
        scale=study.scale,
        searches=[_search(search) for search in experiment.searches],
    )


def _search(search: Search) -> SearchDescription:
    return SearchDescription(
        row=search.row,
        data=search.data,
        heterogeneity=search.heterogeneity,
        points=list(search.points),
        seeds=list(search.seeds),
        rounds=[rung.rounds for rung in search.rungs],
        choices=search.choices(),
        chosen=search.chosen,
    )


def _shown(experiment: Experiment) -> list[dict[str, Any]] | None:
    """Its tables and figures, None for the usual ones; none of an experiment without cells that does not list any."""
    if experiment.about.show is None:
        return None if experiment.cells else []
    return [dict(entry.section) for entry in experiment.about.show]


def _described(partitions: Iterable[PlannedPartition]) -> dict[str, str]:
    """By label, the full setting as a sentence; all variants where it differs between data sets."""
    names: dict[str, dict[str, None]] = {}
    for partition in partitions:
        names.setdefault(partition.label, {})[partition.sentence] = None
    return {label: "; or ".join(sentences) for label, sentences in names.items()}


def _partitions(partitions: Iterable[PlannedPartition]) -> dict[str, dict[str, dict[str, Any]]]:
    """By data set and heterogeneity, the kind of the partition as ``partition`` and all its settings."""
    files: dict[str, dict[str, dict[str, Any]]] = {}
    for partition in partitions:
        files.setdefault(partition.data.label, {})[partition.label] = {
            "partition": partition.component.name,
            **partition.component.settings,
        }
    return files


def _column(cell: Cell) -> Column:
    return cell.partition.data.label, cell.heterogeneity


def _protocol(cell: Cell) -> dict[str, Any]:
    """How the cells of a column are trained, but for what is a row's own."""
    settings = ", ".join(f"{name}={value}" for name, value in cell.model.settings.items())
    return {**encode(cell.row.common), "model": ", ".join(filter(None, [cell.model.name, settings]))}


def _without_model(protocol: Settings) -> dict[str, Any]:
    """The training settings of a protocol."""
    return {name: value for name, value in protocol.items() if name != "model"}


def _rows(experiment: Experiment) -> dict[str, RowDescription]:
    """By label, a row with its settings in its first column, and where they differ in others."""
    rows = {row.label: _row(row) for row in experiment.listed}
    by_label: dict[str, dict[Column, Cell]] = {}
    for cell in experiment.cells:
        by_label.setdefault(cell.row.label, {}).setdefault(_column(cell), cell)
    for label, cells in by_label.items():
        first = next(iter(cells.values()))
        differing = _differing(_settings(first.row), {column: _settings(c.row) for column, c in cells.items()})
        elsewhere = [ColumnSettings(columns, settings) for columns, settings in differing]
        rows[label] = replace(_row(first.row), elsewhere=elsewhere, code=first.code)
    ordered = [*rows.items()]
    for external in experiment.external:
        row = RowDescription(external.label, external.title, score=REPORTED, external=external.origin)
        ordered.insert(external.position, (external.label, row))
    return dict(ordered)


def _row(row: MethodRow) -> RowDescription:
    return RowDescription(
        method=row.component.name,
        title=row.title,
        name=row.component.title,
        work=row.work,
        score=row.score,
        at=row.at,
        settings=_settings(row),
        file=row.component.file,
    )


def _settings(row: MethodRow) -> dict[str, Any]:
    """A row's hyperparameters, and the training settings that are its own."""
    common = encode(row.common)
    of_row = {f"training.{name}": value for name, value in encode(row.training).items() if value != common[name]}
    return {**row.component.settings, **of_row}


def _differing(common: Settings, by_column: Mapping[Column, Settings]) -> list[tuple[list[Column], dict[str, Any]]]:
    """What differs from the `common` settings, each time with the columns in which it does; None: not set there."""
    differing: list[tuple[list[Column], dict[str, Any]]] = []
    for column, settings in by_column.items():
        other = {name: settings.get(name) for name in {**common, **settings} if settings.get(name) != common.get(name)}
        columns = next((columns for columns, known in differing if known == other), None)
        if columns is not None:
            columns.append(column)
        elif other:
            differing.append(([column], other))
    return differing


def _listed(cell: Cell) -> manifest_model.Cell:
    return manifest_model.Cell(
        key=cell.key,
        label=cell.row.label,
        method=cell.row.component.name,
        data=cell.partition.data.label,
        heterogeneity=cell.heterogeneity,
        seed=cell.seed,
        path=cell.file,
        partition=cell.partition.file,
        kept=cell.kept_beside(cell.file),
        needs=cell.keys,
        images_file=cell.partition.data.images_file,
        status=UNAVAILABLE if cell.unavailable else "",
        reason=cell.unavailable,
    )


def page(study: Study) -> str:
    """Digest of what the page of a paper is made from beside its experiments.

    That is code, texts beside its study, and results of the same experiments at other scales.
    """
    about = [[experiment.id, encode(experiment.about)] for experiment in study.experiments]
    printed = sorted(Path(study.published).parent.glob("*.csv")) if study.published else []
    contents = [digest_of_file(file) for file in printed if file.is_file()]  # some may not be text
    texts = [study.title, study.published, dict(study.assumed), about]
    scales = [at_other_scales(experiment.folder, study.name) for experiment in study.experiments if experiment.id]
    contents += [digest_of_file(file) for files_of_one in scales for file in files_of_one]
    return digest([texts, contents, _analysis("fedgrid.analysis.pages.paper")])


def _analysis(module: str = "fedgrid.analysis.pages.build") -> dict[str, str]:
    """Fingerprints of the code of tables and figures, or of another `module`, and of their templates.

    Kinds of tables and figures are found by the names of their files, so that no import statement names them.
    """
    rooms = ("tables", "figures")
    kinds = [f"fedgrid.analysis.{room}.{name}" for room in rooms for name in packaged(f"analysis/{room}")]
    templates = sorted((Path(fedgrid.__file__).parent / "analysis" / "pages" / "templates").iterdir())
    code = {"code": digest(modules(module, also=kinds))}
    return code | {file.name: digest(file.read_text(encoding="utf-8")) for file in templates if file.is_file()}
