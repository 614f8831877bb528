"""What a study was when it was last planned: its cells and how its tables are to be read, as one JSON file.

The file is written only when it changes, so its time is a true input of the tables.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import fedgrid
from fedgrid.files import write_text
from fedgrid.grid.cells import Cell, Method, Split, Variant
from fedgrid.grid.identity import digest, fingerprint
from fedgrid.grid.study import Study
from fedgrid.loading import load
from fedgrid.partition.base import Partition

TESTED = {
    "own": "the clients' own test images",
    "official": "the official test images, the same for all clients",
    "weighted": "the official test images, each class weighted by its share in a client's training images",
}
"What accuracy is measured on, by a partition's setting `test`."
ANALYSIS = ("collect", "tables", "figures", "report")


def files(study: Study) -> tuple[Path, Path]:
    """Where the study's manifest is kept, and the fingerprint of the code of its tables and figures."""
    return study.folder / "manifest.json", study.folder / "analysis.json"


def write(study: Study) -> None:
    """Writes those of `files` that changed."""
    manifest, analysis = files(study)
    _write_if_changed(manifest, json.dumps(content(study), indent=1, ensure_ascii=False))
    _write_if_changed(analysis, json.dumps(_analysis(), indent=1))


def _analysis() -> dict[str, str]:
    codes = {name: fingerprint(f"fedgrid.analysis.{name}") for name in ANALYSIS}
    templates = sorted((Path(fedgrid.__file__).parent / "analysis" / "templates").iterdir())
    codes |= {file.name: digest(file.read_text(encoding="utf-8")) for file in templates if file.is_file()}
    return codes


def title(split: Split) -> str:
    """The title of a partition's picture."""
    return f"{split.data.title}: {_words(split.variant)}, seed {split.seed}"


def content(study: Study) -> dict[str, Any]:
    """The manifest as plain values."""
    kinds = {cell.heterogeneity: cell.split.variant for cell in study.cells}
    return {
        "study": {
            "name": study.name,
            "title": study.text.get("title", study.name),
            **study.text["report"],
            "rounds": max(method.training["rounds"] for method in study.methods),
            "protocol": dict(study.training),
            "data": {data.label: data.title for data in study.data},
            "heterogeneity": {name: _words(kind) for name, kind in kinds.items()},
            "tested": list({TESTED[_instance(s.variant).tested(s.seed)]: None for s in study.splits}),
            "model": ", ".join([study.model.name, *(f"{k}={v}" for k, v in study.model.settings.items())]),
            "methods": {m.label: _method(m, study.training) for m in study.methods},
            "seeds": study.text["seeds"],
        },
        "cells": [_cell(cell) for cell in study.cells],
    }


def _method(method: Method, common: Mapping[str, Any]) -> dict[str, Any]:
    own = {f"training.{name}": value for name, value in method.training.items() if value != common[name]}
    return {"method": method.variant.name, "title": method.title, "settings": {**method.variant.settings, **own}}


def _cell(cell: Cell) -> Mapping[str, Any]:
    data = cell.split.data
    return {
        "key": cell.key,
        "needs": [cell.key, cell.split.key, data.key] + ([data.images.key] if data.images else []),
        "path": str(cell.file),
        "partition": str(cell.split.file),
        "label": cell.method.label,
        "method": cell.method.variant.name,
        "data": data.label,
        "heterogeneity": cell.heterogeneity,
        "seed": cell.seed,
    }


def _words(partition: Variant) -> str:
    return _instance(partition).sentence()


def _instance(partition: Variant) -> Partition:
    return load("partition", partition.name)(**partition.settings)


def _write_if_changed(path: Path, text: str) -> None:
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        write_text(path, text)
