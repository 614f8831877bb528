"""The Croissant description of an archive: its numbers and its partitions."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedgrid.api.archive.contents import client_data_in_artifacts
from fedgrid.api.archive.layout import METADATA, RESULTS, Member
from fedgrid.api.croissant.partitions import partition_record_set, responsible_ai
from fedgrid.api.croissant.vocabulary import PARQUET, Column, data_set, file_object, record_set
from fedgrid.files import as_json, read_metadata
from fedgrid.grid.plan.cell_metadata import CellMetadata
from fedgrid.grid.plan.model import Cell
from fedgrid.grid.plan.planned_study import Study

COLUMNS = (
    Column("label", "sc:Text", "Row of the tables: a method with its settings, by its label in the study"),
    Column("data", "sc:Text", "Data set, by its label in the study"),
    Column("heterogeneity", "sc:Text", "How images are spread over clients, by its label in the study"),
    Column("seed", "sc:Integer", "Seed of the run"),
    Column("round", "sc:Integer", "Round of training, from 1; 0 is before training"),
    Column("client", "sc:Integer", "Number of the client, from 0"),
    Column(
        "metric",
        "sc:Text",
        "What was measured, such as accuracy_received, accuracy_trained, loss_received, bytes_up or train_samples",
    ),
    Column("value", "sc:Float", "The value; accuracies are fractions, losses are cross entropies in nats"),
)
BENCHMARK = "Comparison of methods of personalised federated learning under the study's settings"
SETTINGS_ONLY = (
    "Numbers hold for the study's data sets, models, training settings and seeds; another setting may give another "
    "order of methods."
)
BITS = "Another processor or other versions of libraries may give slightly different numbers."
PERSONAL = "The images of {} are not included. Results and partitions have numbers of clients and images, and no names."


@dataclass(frozen=True)
class Archived:
    """What the description is made from."""

    study: Study
    cells: Mapping[str, Cell]
    heads: Mapping[str, CellMetadata]
    members: Mapping[str, Member]
    digests: Mapping[str, str]
    "SHA-256 of members by name."
    license: str
    "Empty where none was given."


def croissant(archived: Archived) -> bytes:
    """The text of ``croissant.json``."""
    study = archived.study
    partitions = {
        _name(study, cell.partition.file): read_metadata(cell.partition.file) for cell in archived.cells.values()
    }
    numbers = [_name(study, experiment.folder / "results.parquet") for experiment in study.experiments]
    about = {
        "name": study.title or study.name,
        "description": f"Results of a study of personalised federated learning ({len(archived.cells)} cells), and its "
        f"partitions of images among clients. {METADATA} lists every file of the archive.",
        "dateCreated": max((head.finished[:10] for head in archived.heads.values()), default=""),
    } | ({"license": archived.license} if archived.license else {})
    files = [
        file_object(name, archived.members[name].title, PARQUET, archived.members[name].size, archived.digests[name])
        for name in (*numbers, *partitions)
    ]
    records = [_record_set_of_numbers(archived, name) for name in numbers]
    records += [partition_record_set(_stem(name), name, metadata) for name, metadata in partitions.items()]
    return as_json(data_set(about, _responsible_ai(archived, partitions.values()), files, records)).encode()


def _responsible_ai(archived: Archived, partitions: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """What is known of the numbers, and of the partitions that they were measured on."""
    known = responsible_ai(partitions)
    diverged = sum(head.status != "ok" for head in archived.heads.values())
    data = ", ".join(sorted({planned.title for planned in archived.study.datasets.values()}))
    return known | {
        "dataCollection": f"{_measured(archived)}\n{known['dataCollection']}",
        "dataCollectionType": ["Experiments", *known["dataCollectionType"]],
        "dataCollectionMissingData": f"{diverged} of {len(archived.heads)} cells diverged, and have no score.",
        "dataUseCases": [BENCHMARK, *known["dataUseCases"]],
        "dataLimitations": [SETTINGS_ONLY, BITS, *known["dataLimitations"]],
        "personalSensitiveInformation": [PERSONAL.format(data), *_client_data(archived)],
    }


def _measured(archived: Archived) -> str:
    versions = sorted({head.versions["fedgrid"] for head in archived.heads.values()})
    seconds = sum(head.costs.seconds.total for head in archived.heads.values())
    return (
        f"Every number was computed by fedgrid {', '.join(versions)}, which trained {len(archived.heads)} cells in "
        f"{seconds / 3600:.2f} hours with the settings of the study in this archive."
    )


def _client_data(archived: Archived) -> Iterator[str]:
    """What models and states in the archive hold of training images."""
    kept = [name for name in archived.members if name.endswith((".models.safetensors", ".state.pt"))]
    if kept:
        yield from (f"Files of {contents} are included." for contents in client_data_in_artifacts(archived.cells))


def _record_set_of_numbers(archived: Archived, name: str) -> dict[str, Any]:
    return record_set(_stem(name), archived.members[name].title, name, COLUMNS)


def _name(study: Study, file: Path) -> str:
    return f"{RESULTS}/{file.relative_to(study.results).as_posix()}"


def _stem(name: str) -> str:
    """The name of a file's rows: its path below the results, without its ending."""
    return name.removeprefix(f"{RESULTS}/").removesuffix(".parquet")
