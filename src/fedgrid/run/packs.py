"""Packs: cells that share one job of a cluster, and with it one allocation and one warm worker.

A pack is planned where a run starts and kept as a file, for the nodes must not plan it anew while its cells come to
their ends. Its name is the digest of its cells' keys.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fedgrid.files import write_json
from fedgrid.grid.cells import Cell
from fedgrid.grid.estimates import Request, request
from fedgrid.grid.identity import digest
from fedgrid.grid.study import Study


def plan(study: Study) -> dict[str, Path]:
    """Packs of `compute.pack` unfinished cells: for every cell in one, the mark that its pack leaves at the end."""
    waiting = [cell for cell in study.by_key.values() if not cell.done]
    size, marks = study.text["compute"]["pack"], {}
    for first in range(0, len(waiting), size) if size > 1 else ():
        cells = waiting[first : first + size]
        kept = file(study.store, digest([cell.key for cell in cells]))
        mark = kept.with_suffix(".done")
        mark.unlink(missing_ok=True)  # of a run whose results are gone
        write_json(kept, _content(cells, study))
        marks |= {cell.key: mark for cell in cells}
    return marks


def file(store: Path, name: str) -> Path:
    """Where a pack's plan is kept."""
    return store / "packs" / f"{name}.json"


def read(store: Path, name: str) -> Mapping[str, Any]:
    """A pack's plan."""
    return json.loads(file(store, name).read_text(encoding="utf-8"))


def asked(store: Path, name: str) -> Request:
    """What a scheduler is asked for to run a pack."""
    return Request(**read(store, name)["request"])


def _content(cells: Sequence[Cell], study: Study) -> dict[str, Any]:
    compute = study.text["compute"]
    return {
        "request": asdict(request(cells, study, compute["gpu_share"])),
        "needs": sorted({str(file) for cell in cells for file in cell.needs}),
        "cells": [_job(cell, compute) for cell in cells],
        "threads": compute["threads"],
    }


def _job(cell: Cell, compute: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "arguments": cell.arguments(compute),
        "files": [str(file) for file in cell.files],
        "log": str(cell.log),
    }
