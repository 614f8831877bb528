"""A data set, or its frozen features, as a job: from their source to the Parquet files of the plan.

Run as ``python -m fedgrid.jobs.dataset PLAN KEY``.
"""

import os
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from fedgrid.command import run
from fedgrid.data.base import convert
from fedgrid.grid import plan
from fedgrid.grid.cells import instance
from fedgrid.grid.planned import PlannedDataset, Study


def build(data: PlannedDataset, study: Study) -> None:
    """Writes the files of a data set; of features, those of their images have to be there."""
    if not data.images:
        convert(instance(data.component), study.data_root, study.downloads, data.files)
        return
    assert data.backbone is not None
    if not study.downloads:
        os.environ["HF_HUB_OFFLINE"] = "1"  # weights then come from where an earlier download left them, or not at all
    from fedgrid.engine import features  # torch takes seconds to import

    features.build(data.images.files, data.files, data.backbone, study.compute.device, study.compute.threads)


def from_plan(file: Path, key: str) -> None:
    """Builds the data set `key` of the plan in `file`."""
    study = plan.read(file).study
    build(study.datasets[key], study)


def main(argv: Sequence[str] | None = None) -> int:
    """Command line: PLAN KEY."""
    parser = ArgumentParser(prog="python -m fedgrid.jobs.dataset", description="Build a data set, or its features.")
    parser.add_argument("file", type=Path, metavar="PLAN", help="the plan of the run")
    parser.add_argument("key", metavar="KEY", help="of the data set")
    parser.set_defaults(action=from_plan)
    return run(parser, argv)


if __name__ == "__main__":
    raise SystemExit(main())
