"""Partitions, made and read."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from fedgrid.api.study_file import plan
from fedgrid.errors import UserError
from fedgrid.files import replacing
from fedgrid.grid.study.sections import Section, StudyError
from fedgrid.partition.common.publish import checked
from fedgrid.partition.common.statistics import statistics
from fedgrid.run.direct import DirectJobs

ANY_METHOD = "local"
"A partition does not depend on the method, and a study needs one."


@dataclass(frozen=True)
class ReadPartition:
    """Which client holds which images.

    `rows` has one row for each image: client, split (train, validation or test), index (the image's number in the data
    set, from 0, the training part first and then the test part), label and domain. Client −1 stands for all clients.
    `statistics` are sizes, classes and distances between clients, as `fedgrid inspect --json` prints them.
    """

    file: Path
    rows: pd.DataFrame
    metadata: Mapping[str, Any]
    statistics: Mapping[str, Any]


def make_partition(
    data: str | Mapping[str, Any],
    heterogeneity: Mapping[str, Any],
    seed: int = 0,
    results: str | os.PathLike[str] = "results",
    data_root: str | os.PathLike[str] | None = None,
) -> ReadPartition:
    """Makes a partition of a data set, unless the store in `results` has it already.

    `data` and `heterogeneity` are as in a study: ``"digits"`` and ``{"partition": "dirichlet", "beta": 0.1, "clients":
    8}``. `data_root` is the folder of data sets (default: the environment variable FEDGRID_DATA); what it lacks is
    downloaded to the store. Raises UserError for wrong settings, unavailable data or an impossible partition.
    """
    about = {"name": "partition", "data": data, "heterogeneity": [heterogeneity], "seeds": [seed]}
    root = {"data_root": str(data_root)} if data_root else {}
    study = plan(Section(about | root | {"methods": [ANY_METHOD], "results": str(results)}))
    partition = study.cells[0].partition
    jobs = DirectJobs(study)
    jobs.prepare(partition)
    jobs.finish()
    return read_partition(partition.file)


def import_partition(
    file: str | os.PathLike[str],
    data: str | Mapping[str, Any],
    out: str | os.PathLike[str],
    settings: Mapping[str, Any] = {},
    results: str | os.PathLike[str] = "results",
    data_root: str | os.PathLike[str] | None = None,
) -> ReadPartition:
    """Matches a partition of another program with the images of a data set and writes it to `out`, a Parquet file.

    `file` is a CSV or Parquet table, a JSON dictionary or PFLlib's folder (docs/exchange.md); `settings` are those of
    the partition `imported`. In a study, ``partition: {import: FILE}`` gives the same partition. Metadata and
    statistics go into a JSON file beside `out`. Raises UserError for a file of another form or of other images, and if
    `out` exists with other content.
    """
    try:
        made = make_partition(data, {"partition": "imported", "path": str(file), **settings}, 0, results, data_root)
    except StudyError as error:
        origin, problem = error.args
        raise UserError(problem) if origin.key.startswith("heterogeneity") else error from None  # it names the file
    copy_new(made.file, Path(out))
    copy_new(made.file.with_suffix(".json"), Path(out).with_suffix(".json"))
    return read_partition(out)


def copy_new(file: Path, target: Path) -> None:
    """Copies a file; UserError where another one is there."""
    content = file.read_bytes()
    if target.exists() and (not target.is_file() or target.read_bytes() != content):
        raise UserError(f"{target} already exists and differs; delete it or choose another name")
    with replacing(target) as temporary:
        temporary.write_bytes(content)


def read_partition(file: str | os.PathLike[str]) -> ReadPartition:
    """The partition in a file of the store or one that was published; UserError where it is none or damaged."""
    table, metadata = checked(Path(file))
    summary = statistics(table, metadata["clients"], len(metadata["classes"]))
    return ReadPartition(Path(file), table.to_pandas(), metadata, summary)
