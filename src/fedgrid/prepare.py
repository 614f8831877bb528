"""The jobs before training: a data set and a partition, each from a JSON job to Parquet files.

Run as ``python -m fedgrid.prepare {data,partition} JOB``.
"""

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedgrid.data import base as data
from fedgrid.errors import UserError, complain
from fedgrid.loading import load
from fedgrid.partition import base as partition


def build_data(job: Mapping[str, Any]) -> None:
    """Writes the files of a data set: job {name, files, root, download}, the last two may be null."""
    root, download = (Path(job[key]) if job[key] else None for key in ("root", "download"))
    data.convert(load("data", job["name"])(), root, download, _paths(job["files"]))


def build_partition(job: Mapping[str, Any]) -> None:
    """Writes a partition: job {spec: {name, settings, data, seed}, data: files, file}."""
    spec = job["spec"]
    kind = load("partition", spec["name"])(**spec["settings"])
    labels, facts = data.read_labels(_paths(job["data"]))
    partition.write(kind, labels, facts, spec["seed"], spec, Path(job["file"]))


def _paths(files: Mapping[str, str]) -> dict[str, Path]:
    return {part: Path(file) for part, file in files.items()}


def main(argv: list[str] | None = None) -> int:
    """Exit code 2 and one sentence for a user's mistake."""
    parser = argparse.ArgumentParser(prog="fedgrid.prepare", description="Build a data set or a partition.")
    parser.add_argument("what", choices=("data", "partition"))
    parser.add_argument("job", help="JSON")
    arguments = parser.parse_args(argv)
    try:
        {"data": build_data, "partition": build_partition}[arguments.what](json.loads(arguments.job))
    except UserError as error:
        return complain(error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
