"""What forms of venues ask of a study, from its plan and its cells."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import fedgrid
from fedgrid.analysis.pages.report import headline_context
from fedgrid.analysis.prose import origin
from fedgrid.analysis.prose.searches import chosen_settings
from fedgrid.analysis.scores.results import Results, load
from fedgrid.api.archive.provenance import environment
from fedgrid.files import read_metadata, read_table
from fedgrid.grid.plan.cell_metadata import CellMetadata
from fedgrid.grid.plan.model import Cell
from fedgrid.grid.plan.planned_study import Experiment, Study
from fedgrid.grid.study.catalog import description
from fedgrid.grid.study.model import FULL
from fedgrid.partition.common.rows import SPLITS

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class FinishedStudy:
    """A study whose cells all have results."""

    study: Study
    file: str
    "The study's file in the archive, from the folder of its project."
    cells: Mapping[str, Cell]
    "By key."
    heads: Mapping[str, CellMetadata]
    "What the files of these cells say, by key."
    size: int
    "Bytes of results, store and project."


def in_commands(file: str, scale: str) -> str:
    """A study's file as commands of fedgrid name it, with its scale."""
    return file if scale == FULL else f"{file} --scale {scale}"


def study_facts(finished: FinishedStudy) -> dict[str, Any]:
    """Values of the templates."""
    study, heads = finished.study, [*finished.heads.values()]
    results = [load(experiment.folder / "results.parquet") for experiment in study.experiments]
    seconds = [head.costs.seconds.total for head in heads]
    experiments = [_experiment(study, *pair) for pair in zip(study.experiments, results, strict=True)]
    protocols: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for experiment in experiments:
        protocols[tuple(experiment["protocol"])].append(experiment["title"])
    return {
        "writer": fedgrid.__version__,
        "title": study.title or study.name,
        "study": in_commands(finished.file, study.scale),
        "cells": len(heads),
        "diverged": [cell.description for key, cell in finished.cells.items() if finished.heads[key].status != "ok"],
        "megabytes": finished.size / 1e6,
        "hours": sum(seconds) / 3600,
        "longest": max(seconds, default=0.0),
        "memory": max((head.costs.peak_memory_bytes for head in heads), default=0) / 1e6,
        "device_memory": max((head.costs.peak_device_memory_bytes for head in heads), default=0) / 1e6,
        "environments": environment(heads)["cells"],
        "commits": sorted({origin.commit(each) for each in results if each.finished}),
        "methods": [*_methods(finished)],
        "models": [*_models(finished)],
        "training": _values(head.spec["training"] for head in heads),
        "data": [*_data(finished)],
        "partitions": [*_partitions(finished)],
        "seeds": sorted({cell.seed for cell in study.cells}),
        "runs": sorted({len(experiment.about.seeds) for experiment in study.experiments if experiment.cells}),
        "experiments": experiments,
        "protocols": [(titles, sentences) for sentences, titles in protocols.items()],
        "assumed": [*_assumed(study)],
    }


def _values(settings: Iterable[Settings]) -> dict[str, list[str]]:
    """By name, the different values of a setting in JSON."""
    values: dict[str, dict[str, None]] = defaultdict(dict)
    for each in settings:
        for name, value in each.items():
            values[name][json.dumps(value, ensure_ascii=False)] = None
    return {name: sorted(known) for name, known in sorted(values.items())}


def _methods(finished: FinishedStudy) -> Iterator[dict[str, Any]]:
    """Rows with their methods' papers, their settings in every cell, searched ones included, and their times."""
    rows: dict[str, list[str]] = defaultdict(list)
    for key, cell in finished.cells.items():
        rows[cell.row.label].append(key)
    for keys in rows.values():
        row, heads = finished.cells[keys[0]].row, [finished.heads[key] for key in keys]
        about = description("methods", row.component.reference)
        seconds = [head.costs.seconds.total for head in heads]
        yield {
            **{"title": row.title, "source": about["source"], "cells": len(heads)},
            "summary": about["summary"].removeprefix(f"{about['title']}: "),
            "settings": _values(head.spec["method"]["settings"] for head in heads),
            **{"seconds": fmean(seconds), "longest": max(seconds)},
        }


def _models(finished: FinishedStudy) -> Iterator[dict[str, Any]]:
    """Models with their settings and their numbers of parameters."""
    cells: dict[str, list[str]] = defaultdict(list)
    for key, cell in finished.cells.items():
        cells[cell.model.title].append(key)
    for title, keys in cells.items():
        sizes = [size for key in keys if (size := finished.heads[key].sizes)]
        yield {
            "title": title,
            "settings": _values(finished.heads[key].spec["model"]["settings"] for key in keys),
            "parameters": sorted({size.extractor + size.head for size in sizes}),
        }


def _data(finished: FinishedStudy) -> Iterator[dict[str, Any]]:
    """Data sets with the checksum of their images."""
    files = {cell.partition.data.title: cell.partition for cell in finished.cells.values()}
    for title, partition in files.items():
        metadata = read_metadata(partition.file)
        yield {
            "title": title,
            "source": description("data", partition.data.component.reference)["source"],
            "classes": len(metadata["classes"]),
            "checksum": metadata["data_checksum"],
        }


def _partitions(finished: FinishedStudy) -> Iterator[dict[str, Any]]:
    """Partitions with their numbers of clients and images, each seed's own."""
    partitions = {cell.partition.file: cell.partition for cell in finished.cells.values()}
    for file, partition in sorted(partitions.items()):
        table, metadata = read_table(file, ["split"])
        images = Counter(table["split"].to_pylist())
        yield {
            **{"data": partition.data.title, "sentence": partition.sentence, "seed": partition.seed},
            **{"clients": metadata["clients"], "images": [images[split] for split in SPLITS]},
        }


def _experiment(study: Study, experiment: Experiment, results: Results) -> dict[str, Any]:
    """An experiment's measure, what was found, what its searches tried and chose, and where its tables are."""
    headline = headline_context(results, None)
    return {
        "title": experiment.about.title or study.title or study.name,
        **{"source": experiment.about.source, "lacks": experiment.about.lacks},
        **{"protocol": headline["protocol"], "findings": headline["findings"]},
        "searches": [
            {
                **{"row": results.names[search.row], "column": results.column(*search.column)},
                **{"seeds": search.seeds, "values": _values(search.points)},
            }
            for search in results.study.searches
        ],
        "chosen": chosen_settings(results),
        "claims": len(experiment.about.claims),
        "tables": [_below(study, file) for file in sorted((experiment.folder / "tables").glob("*.md"))],
    }


def _assumed(study: Study) -> Iterator[tuple[str, str]]:
    """Settings that the paper leaves open, and why each has its value; those of one experiment with its name."""
    yield from study.assumed.items()
    for experiment in study.experiments:
        for name, reason in experiment.about.assumed.items():
            if study.assumed.get(name) != reason:
                yield f"{experiment.id}: {name}" if experiment.id else name, reason


def _below(study: Study, file: Path) -> str:
    return f"results/{file.relative_to(study.results).as_posix()}"
