"""A partition as a job: from the labels of a data set to who holds what, as Parquet, and its statistics as JSON.

Run as ``python -m fedgrid.jobs.partition PLAN KEY SEED``.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from fedgrid.command import plan_parser, run
from fedgrid.data.common.store import Labels, read_labels
from fedgrid.data.sources.digests import digests, reading_again
from fedgrid.errors import UserError, say
from fedgrid.files import as_json, read_metadata, write_table, write_text
from fedgrid.grid.plan import instances, plan_file
from fedgrid.grid.plan.keys import code_of, key_of_partition
from fedgrid.grid.plan.left_out import images_left_out, sentence
from fedgrid.grid.plan.manifest_model import LEFT_OUT
from fedgrid.grid.plan.model import PlannedDataset, PlannedPartition
from fedgrid.grid.plan.planned_study import Study
from fedgrid.jobs import dataset
from fedgrid.jobs.apart import job
from fedgrid.jobs.signals import end_with_signals
from fedgrid.partition.common.dealt_rows import flaw_of
from fedgrid.partition.common.rows import digest_of
from fedgrid.partition.common.statistics import statistics
from fedgrid.partition.importing.matching import ImagePool
from fedgrid.partition.importing.report import lines_of


def build(partition: PlannedPartition) -> None:
    """Writes a partition and, beside it, its statistics; the files of its data set have to be there.

    Raises UserError where a published partition or the code is not that of the plan.
    """
    partition.data.check()
    pool, facts = read_labels(partition.data.files)
    component, data, seed = partition.component, partition.data, partition.seed
    with instances.creating_partition(component) as kind:
        if kind.needs_images:
            pool = _image_pool(pool, data.images or data)
        with instances.watched("partition", component):
            table, about = kind.split(pool, seed), kind.about(pool, seed)
            with reading_again():
                code = code_of("partition", component)
                unchanged = key_of_partition(kind, component, code, data, seed) == partition.key
    if not unchanged:
        raise UserError(f"heterogeneity '{partition.label}': edited since planning; run the same command again")
    if component.file and (flaw := flaw_of(table, about, pool)):
        raise UserError(f"partition '{component.reference}': {flaw}")
    about |= {
        "key": partition.key,
        "seed": seed,
        "data": facts["name"],
        "data_checksum": pool.checksum,
        "classes": facts["classes"],
        "domains": facts["domains"] or list(pool.modalities),
        "digest": digest_of(table),
        "spec": partition.spec,
    }
    if kind.balances_domains:
        numbers = images_left_out(table, about["test"], pool)
        about[LEFT_OUT] = numbers | {"words": sentence(numbers)}
    summary = statistics(table, about["clients"], pool.classes)
    write_text(partition.file.with_suffix(".json"), as_json(about | {"statistics": summary}))
    write_table(partition.file, table, about)


def _image_pool(pool: Labels, images: PlannedDataset) -> ImagePool:
    """A pool with its images, which have to be in the store; the user's folder is looked through on demand."""
    images.check()
    labels = {field.name: getattr(pool, field.name) for field in fields(Labels)}
    return ImagePool(
        **labels,
        files=images.files,
        names=lambda: [name for name, _ in _pictures(images, len(pool.labels))],
        file_digests=lambda: _picture_digests(_pictures(images, len(pool.labels))),
    )


def _pictures(images: PlannedDataset, number: int) -> list[tuple[str, Path]]:
    """Path relative to the folder, and path, of each picture in the order of the store; none of other data sets.

    Raises UserError where the folder is not the one that the store's images were made of.
    """
    with instances.creating_dataset(images.component) as data:
        pictures = data.named_pictures()
        if pictures and (len(pictures) != number or data.info(None).copy != images.copy):
            top = _top(pictures)
            raise UserError(f"data '{images.label}': {top} has changed since its images were stored; run again")
    return pictures


def _picture_digests(pictures: Sequence[tuple[str, Path]]) -> list[str]:
    known = digests([file for _, file in pictures], _top(pictures)) if pictures else {}
    return [known[name] for name, _ in pictures]


def _top(pictures: Sequence[tuple[str, Path]]) -> Path:
    """The folder of all pictures."""
    name, file = pictures[0]
    return file.parents[name.count("/")]


def prepare(planned: PlannedPartition, study: Study) -> None:
    """Builds the data set, its features and the partition where the store lacks them."""
    for stage in planned.data.stages:
        if not stage.built:
            dataset.build(stage, study)
    if not planned.file.is_file():
        build(planned)


def untested_sentence(about: Mapping[str, Any]) -> str:
    """How many clients have no test images of their own, where a partition says so; empty if all have."""
    if not about.get("untested"):
        return ""
    return f"{about['untested']:,} of {about['clients']:,} clients have no test images: they train and are not scored"


def from_plan(file: Path, key: str, seed: int) -> None:
    """Builds the partition `key` with `seed` of the plan in `file`, and says what one might not expect of it."""
    partition = plan_file.read(file).study.partitions[key, seed]
    build(partition)
    about = read_metadata(partition.file)
    remarks = [*lines_of(about["origin"]["report"])] if "origin" in about else []
    remarks += [about[LEFT_OUT]["words"]] if LEFT_OUT in about else []
    remarks += [untested_sentence(about)]
    for line in filter(None, remarks):
        say(f"partition '{partition.label}': {line}", sys.stderr)


@job("fedgrid.jobs.partition")
def main(argv: Sequence[str] | None = None) -> int:
    """Command line: PLAN KEY SEED."""
    end_with_signals()
    parser = plan_parser("fedgrid.jobs.partition", "Build a partition.")
    parser.add_argument("key", metavar="KEY", help="of the partition")
    parser.add_argument("seed", type=int, metavar="SEED", help="of the partition")
    parser.set_defaults(action=from_plan)
    return run(parser, argv)


if __name__ == "__main__":
    raise SystemExit(main())
