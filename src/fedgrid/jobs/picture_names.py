"""The images of a data set as an imported partition may name them: those of a folder by their files too."""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from fedgrid.data.common.store import Labels
from fedgrid.data.sources.digests import digests
from fedgrid.errors import UserError
from fedgrid.grid.plan import instances
from fedgrid.grid.plan.model import PlannedDataset
from fedgrid.partition.importing.matching import ImagePool


def image_pool(pool: Labels, images: PlannedDataset) -> ImagePool:
    """A pool with its images, which have to be in the store; the user's folder is looked through on demand."""
    images.check()
    labels = {field.name: getattr(pool, field.name) for field in fields(Labels)}
    return ImagePool(
        **labels,
        files=images.files,
        names=lambda: [name for name, _ in _pictures(images, len(pool.labels))],
        file_digests=lambda: _digests(_pictures(images, len(pool.labels))),
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


def _digests(pictures: Sequence[tuple[str, Path]]) -> list[str]:
    known = digests([file for _, file in pictures], _top(pictures)) if pictures else {}
    return [known[name] for name, _ in pictures]


def _top(pictures: Sequence[tuple[str, Path]]) -> Path:
    """The folder of all pictures."""
    name, file = pictures[0]
    return file.parents[name.count("/")]
