"""A data set, or its frozen features, as a job: from their source to the Parquet files of the plan.

Run as ``python -m fedgrid.jobs.dataset PLAN KEY``.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from fedgrid.command import plan_parser, run
from fedgrid.data.base import convert
from fedgrid.data.sources.digests import reading_again
from fedgrid.errors import UserError
from fedgrid.grid.plan import plan_file
from fedgrid.grid.plan.instances import creating_dataset, watched
from fedgrid.grid.plan.keys import key_of_data, key_of_features
from fedgrid.grid.plan.model import PlannedDataset
from fedgrid.grid.plan.planned_study import Study
from fedgrid.jobs.apart import job
from fedgrid.jobs.originals import check_first_sight, recorded_files
from fedgrid.jobs.signals import end_with_signals


def build(data: PlannedDataset, study: Study) -> None:
    """Writes the files of a data set; of features, those of their images have to be there.

    Raises UserError where the user's files are not those of the plan; they are read again for that.
    """
    if data.images:
        _build_features(data, data.images, study)
        return
    of_data, folders = data.component, [study.data_root, study.downloads]
    with recorded_files(folders) as files, creating_dataset(of_data) as kind, watched("data", of_data) as watch:

        def check(checksum: str) -> None:
            with reading_again():
                copy = kind.info(study.data_root).copy
                _check_unchanged(data, key_of_data(of_data, copy) == data.key)
            if watch:
                watch.check()
            check_first_sight(data, checksum, files)

        convert(kind, study.data_root, study.downloads, data.files, data.key, check)


def _build_features(data: PlannedDataset, images: PlannedDataset, study: Study) -> None:
    images.check()
    assert data.backbone is not None
    with reading_again():
        _check_unchanged(data, key_of_features(images, data.backbone) == data.key)
    if not study.downloads:
        os.environ["HF_HUB_OFFLINE"] = "1"  # weights then come from where an earlier download left them, or not at all
    from fedgrid.engine import features  # torch takes seconds to import

    features.build(images.files, data.files, data.backbone, study.compute.device, study.compute.threads, data.key)


def _check_unchanged(data: PlannedDataset, unchanged: bool) -> None:
    if not unchanged:
        raise UserError(f"data '{data.label}': edited since planning; run the same command again")


def from_plan(file: Path, key: str) -> None:
    """Builds the data set `key` of the plan in `file`."""
    study = plan_file.read(file).study
    build(study.datasets[key], study)


@job("fedgrid.jobs.dataset")
def main(argv: Sequence[str] | None = None) -> int:
    """Command line: PLAN KEY."""
    end_with_signals()
    parser = plan_parser("fedgrid.jobs.dataset", "Build a data set, or its features.")
    parser.add_argument("key", metavar="KEY", help="of the data set")
    parser.set_defaults(action=from_plan)
    return run(parser, argv)


if __name__ == "__main__":
    raise SystemExit(main())
