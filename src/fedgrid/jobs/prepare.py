"""The jobs before training: a data set, its frozen features, a partition, each from a JSON job to Parquet files.

Run as ``python -m fedgrid.jobs.prepare {data,features,partition} JOB``.
"""

import argparse
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedgrid.data import base as data
from fedgrid.errors import UserError, complain
from fedgrid.files import write_json, write_table
from fedgrid.loading import load
from fedgrid.partition.common.rows import digest_of
from fedgrid.partition.common.statistics import statistics


def build_data(job: Mapping[str, Any]) -> None:
    """Writes the files of a data set: job {spec: {name, settings}, files, root, download}, the last two may be null."""
    root, download = (Path(job[key]) if job[key] else None for key in ("root", "download"))
    spec = job["spec"]
    data.convert(load("data", spec["name"])(**spec["settings"]), root, download, _paths(job["files"]))


def build_features(job: Mapping[str, Any]) -> None:
    """Writes features of a data set: job {images, files, backbone: settings, download, device, threads}."""
    if not job["download"]:
        os.environ["HF_HUB_OFFLINE"] = "1"  # weights then come from where an earlier download left them, or not at all
    from fedgrid.engine import features  # torch takes seconds to import

    places = _paths(job["images"]), _paths(job["files"])
    features.build(*places, job["backbone"], job["device"], job["threads"])


def build_partition(job: Mapping[str, Any]) -> None:
    """Writes a partition and, beside it as JSON, its statistics: job {spec: {name, settings, seed, …}, data, file}."""
    spec, out = job["spec"], Path(job["file"])
    kind = load("partition", spec["name"])(**spec["settings"])
    pool, facts = data.read_labels(_paths(job["data"]))
    table = kind.split(pool, spec["seed"])
    about = kind.about(pool, spec["seed"]) | {
        "data": facts["name"],
        "data_checksum": pool.checksum,
        "classes": facts["classes"],
        "domains": facts["domains"],
        "digest": digest_of(table),
        "spec": spec,
    }
    found = statistics(table, about["clients"], pool.classes)
    write_json(out.with_suffix(".json"), about | {"statistics": found})
    write_table(out, table, about)


def _paths(files: Mapping[str, str]) -> dict[str, Path]:
    return {part: Path(file) for part, file in files.items()}


JOBS = {"data": build_data, "features": build_features, "partition": build_partition}


def main(argv: list[str] | None = None) -> int:
    """Exit code 2 and one sentence for a user's mistake."""
    parser = argparse.ArgumentParser(
        prog="fedgrid.jobs.prepare", description="Build a data set, its features or a partition."
    )
    parser.add_argument("what", choices=tuple(JOBS))
    parser.add_argument("job", help="JSON")
    arguments = parser.parse_args(argv)
    try:
        JOBS[arguments.what](json.loads(arguments.job))
    except (UserError, OSError) as error:
        return complain(error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
