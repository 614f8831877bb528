"""What goes into an archive of a study."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fedgrid.api.archive.layout import OUTSIDE, PROJECT, RESULTS, Member
from fedgrid.api.archive.named_files import keyed_texts, named_files
from fedgrid.api.archive.names import allowed
from fedgrid.errors import UserError
from fedgrid.files import path_of, read_metadata, slug
from fedgrid.grid.plan import manifest
from fedgrid.grid.plan.cell_origin import origin_file
from fedgrid.grid.plan.model import Cell
from fedgrid.grid.plan.planned_study import Study
from fedgrid.grid.study.catalog import description
from fedgrid.grid.study.fingerprint import files
from fedgrid.grid.study.method_lists import INCLUDE
from fedgrid.grid.study.printed import printed_file
from fedgrid.grid.study.sections import Origin
from fedgrid.grid.study.yaml_file import read, read_rows
from fedgrid.loading import OUTSIDE as OUTSIDE_MODULE
from fedgrid.partition.importing.pfllib import client_files
from fedgrid.settings import ROWS

OF_CLIENTS = ("models", "state")
"Artifacts that hold the models of clients, and what their methods keep beside them."
STATES = "states, with what server and clients keep between rounds, of many methods mean features of training images"


def check_complete(study: Study) -> None:
    """Raises UserError where a table, a page or a cell of the study is missing or out of date."""
    for name, file in manifest.files(study).items():
        if (state := manifest.tables_state(file)) != manifest.CURRENT:
            raise UserError(f"{study.results}/{name}: tables are {state}; run fedgrid go, then the same command again")
    if study.has_experiments and not (study.folder / "report.html").is_file():
        raise UserError(f"{study.folder}: there is no page; run fedgrid go, then the same command again")
    if missing := [cell for cell in study.by_key.values() if cell.waiting]:
        raise UserError(f"{missing[0].description}: no results; run fedgrid go, then the same command again")


def check_finished(study: Study, keys: Iterable[str]) -> None:
    """Raises UserError where one of these cells is not finished."""
    if missing := [study.known[key] for key in keys if not study.known[key].done]:
        more = f", nor have {len(missing) - 1:,} more of the list" if len(missing) > 1 else ""
        raise UserError(f"{missing[0].description} has no results{more}; run fedgrid go with the same --cells first")


def finished_cells(study: Study, keys: Iterable[str] | None = None) -> dict[str, Cell]:
    """The cells that have results, by key, of all or of those with these `keys`."""
    chosen = study.by_key if keys is None else {key: study.known[key] for key in keys}
    return {key: cell for key, cell in chosen.items() if cell.done}


def client_data_in_artifacts(cells: Mapping[str, Cell]) -> dict[str, int]:
    """What kept models and states hold of training data besides parameters, in words, and in how many files."""
    number: Counter[str] = Counter()
    for cell in cells.values():
        contains = description("methods", cell.row.component.reference)["facts"]["carries"]
        if contains and "models" in cell.artifacts:
            number[f"{cell.row.component.title}'s models, with {contains}"] += 1
        if "state" in cell.artifacts:
            number[STATES] += 1
    return number


def result_members(study: Study) -> Iterator[Member]:
    """Pages, tables, figures, numbers and manifests."""
    for experiment in study.experiments:
        title = experiment.about.title or experiment.id or study.title or study.name
        yield _below(study.results, manifest.file(study, experiment), f"Manifest: what {title} is made from")
        yield _below(study.results, experiment.folder / "results.parquet", f"Every number of {title}")
        yield _below(study.results, experiment.folder / "report.html", f"Page of {title}")
        for kind in ("tables", "figures"):
            for file in sorted((experiment.folder / kind).iterdir()):
                member = _below(study.results, file, f"{kind.removesuffix('s').capitalize()} of {title}: {file.stem}")
                if file.is_file() and allowed(member.name):
                    yield member
    if study.has_experiments:
        yield _below(study.results, study.folder / "report.html", f"Page of {study.title or study.name}")


def stored_members(study: Study, cells: Mapping[str, Cell], with_models: bool) -> Iterator[Member]:
    """Files of the store: cells with their artifacts, partitions, and which images they are of."""
    for cell in cells.values():
        yield _below(study.results, cell.file, f"Results of {cell.description}")
        if (origin := origin_file(cell.file)).is_file():
            yield _below(study.results, origin, f"Where the results of {cell.description} come from")
        for kind, file in cell.kept_beside(cell.file).items():
            if with_models or kind not in OF_CLIENTS:
                yield _below(study.results, file, f"{kind.capitalize()} of {cell.description}")
                rows = file.with_name(file.name + ROWS)
                if kind == "state" and rows.is_file():
                    yield _below(study.results, rows, "Rows of clients of a state")
    for _, search, number in study.choices.values():
        if (file := search.rungs[number].file).is_file():
            yield _below(study.results, file, f"What the search of {', '.join(search.group)} chose")
    for partition in {cell.partition.file: cell.partition for cell in cells.values()}.values():
        read_metadata(partition.file)
        yield _below(study.results, partition.file, f"Partition: {partition.title}")
        yield _below(study.results, partition.file.with_suffix(".json"), f"Statistics: {partition.title}")
    for data in study.datasets.values():
        if data.first_sight.is_file():
            yield _below(study.results, data.first_sight, f"Checksums of the images of {data.title}")


def project_members(configfile: Path, study: Study) -> Iterator[Member]:
    """The files that the study reads, as `fedgrid open` puts them into a working folder.

    Those that lie outside of the working folder, or that it would refuse, are in the archive by their names alone.
    """
    inputs, here = _input_files(configfile, study), Path.cwd()
    path_of_file = {file: _path_below(here, file) for file in inputs}
    allowed_files = {path: file for file, path in path_of_file.items() if allowed(f"{PROJECT}/{path}")}
    named = _named_among(allowed_files, path_of_file[configfile])
    for file, title in inputs.items():
        path = path_of_file[file]
        yield Member(f"{PROJECT}/{path}" if path in named else f"{OUTSIDE}/{slug(str(file))}", title, file)


def _path_below(here: Path, file: Path) -> str:
    """The path of a file from the working folder, as the study has it, or else where its links lead."""
    path = Path(os.path.abspath(file))
    return os.path.relpath(path if path.is_relative_to(here) else file.resolve(), here)


def _named_among(files: Mapping[str, Path], study: str) -> set[str]:
    """The paths that the study names if only these files are unpacked with it."""
    with TemporaryDirectory() as folder:
        for path, file in files.items():
            link = Path(folder) / path
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(file.resolve())
        return named_files(Path(folder), study)


def _below(results: Path, file: Path, title: str) -> Member:
    return Member(f"{RESULTS}/{file.relative_to(results).as_posix()}", title, file)


def _input_files(configfile: Path, study: Study) -> dict[Path, str]:
    """Every file that the study reads but data sets and weights, each once, and what it is."""
    section = read(configfile)
    titles = {configfile: "Study"}
    titles |= dict.fromkeys(_included(configfile, section), "Rows of methods that the study includes")
    if printed := printed_file(section):
        titles[Path(printed)] = "Numbers that the paper prints"
    for component in (component for cell in study.cells for component in cell.components):
        if component.file and component.module.startswith(OUTSIDE_MODULE):
            code = files(component.module, Path(component.file))
            titles |= dict.fromkeys(code, f"Code of {component.title or component.name}")
    for partition in study.partitions.values():
        if path := partition.component.settings.get("path"):
            file = path_of(path.replace("{seed}", str(partition.seed)), "path")
            of_parts = client_files(file).values() if file.is_dir() else [{"": file}]
            titles |= dict.fromkeys((file for of_part in of_parts for file in of_part.values()), "Partition of a file")
    for row in (row for experiment in study.experiments for row in experiment.external):
        titles[Path(row.path)] = f"External results: {row.title}"
    return {file: title for file, title in titles.items() if file.is_file()}


def _included(file: Path, value: Any) -> Iterator[Path]:
    """The files that `include` entries of a value of that file name, and those that they include."""
    for key, text in keyed_texts(value):
        if key == INCLUDE:
            included = path_of(Origin(str(file)).input_path(text), INCLUDE)
            if included.is_file():
                yield included
                yield from _included(included, read_rows(included))
