"""The product rows × data sets × heterogeneity × seeds, every cell with its key."""

import functools
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import cast

from fedgrid.data.base import DataSet
from fedgrid.data.common.images import DatasetInfo
from fedgrid.errors import UserError
from fedgrid.grid.plan.keys import (
    HUB,
    RANDOM,
    code_of,
    fingerprint_of_cell,
    instance,
    key_of_cell,
    key_of_data,
    key_of_features,
    key_of_partition,
)
from fedgrid.grid.plan.model import Cell, PlannedDataset, PlannedPartition
from fedgrid.grid.study.model import Configured, Heterogeneity, MethodRow, Settings
from fedgrid.partition.base import Partition

CLEAN = "clean"
"What models are scored on without an attack."
ON_VALIDATION = ("validated", "validation")
"Values of a study's `report` that need images held out for validation."
Seeds = tuple[int, int, int]
"Seed, seed of the partition, seed of training."


def plan_dataset(store: Path, label: str, data: Configured, root: Path | None) -> tuple[PlannedDataset, DatasetInfo]:
    """Where a data set is kept, as the local files under `root` or the original give it, and what it holds."""
    info = cast(DataSet, instance(data)).info(root)
    return PlannedDataset(store, label, data, key_of_data(data, info.copy), info.copy), info


def plan_features(images: PlannedDataset, info: DatasetInfo, backbone: Settings) -> tuple[PlannedDataset, DatasetInfo]:
    """Where the features of a data set are kept, and what they hold; UserError where it is not of images alone."""
    if info.modalities:
        raise UserError(f"data.features: '{images.label}' is {_of(info.modalities)}, and features are made of images")
    key = key_of_features(images, backbone)
    return replace(images, key=key, images=images, backbone=backbone), replace(info, shape=(1, 1, 1))


def plan_partition(kind: Heterogeneity, code: str, data: PlannedDataset, seed: int) -> PlannedPartition:
    """Where a partition is kept; `code` is the fingerprint of its code."""
    partition = cast(Partition, instance(kind.component))
    key = key_of_partition(partition, kind.component, code, data, seed)
    sentence = partition.sentence()
    words = kind.label if kind.named else sentence
    return PlannedPartition(
        kind.component, data, seed, key, kind.label, kind.place, words, sentence, partition.tested(seed)
    )


def plan_cell(
    row: MethodRow, code: str, partition: PlannedPartition, model: Configured, seed: int, train_seed: int
) -> Cell:
    """A cell with its key; `code` is the fingerprint of all code that can change its numbers."""
    return Cell(row, partition, model, seed, train_seed, code, key_of_cell(row, partition, model, train_seed, code))


def grid(
    rows: Sequence[MethodRow],
    data: Sequence[PlannedDataset],
    partitions: Sequence[Heterogeneity],
    model: Configured,
    seeds: Sequence[Seeds],
) -> list[Cell]:
    """All cells; rows vary slowest, seeds fastest."""
    kinds = [(kind, code_of(kind.component)) for kind in partitions]
    planned = {
        (d, p, s): plan_partition(*kinds[p], data[d], s)
        for d, p, s in product(range(len(data)), range(len(kinds)), {s for _, s, _ in seeds})
    }
    # rows may be of the same method
    code = functools.cache(lambda module, file: fingerprint_of_cell(module, file, model.module))
    return [
        plan_cell(row, code(row.component.module, row.component.file), planned[d, p, of_partition], model, seed, train)
        for row, d, p, (seed, of_partition, train) in product(rows, range(len(data)), range(len(kinds)), seeds)
    ]


def check_fit(
    label: str, info: DatasetInfo, partitions: Sequence[Configured], model: str, facts: Settings, seeds: Sequence[int]
) -> None:
    """Raises UserError where the data set cannot be dealt out so, or does not suit the model with these `facts`."""
    smallest, modalities = facts["smallest"], tuple(facts.get("modalities", ()))
    if modalities != info.modalities:
        raise UserError(f"model: '{model}' is for {_of(modalities)}, '{label}' is {_of(info.modalities)}")
    if min(info.shape[:2]) < smallest:
        side = "×".join(map(str, info.shape[:2]))
        raise UserError(f"model: '{model}' needs images of {smallest}×{smallest} at least, '{label}' has {side}")
    for kind in partitions:
        cast(Partition, instance(kind)).plan(info, list(seeds))


def _of(modalities: Sequence[str]) -> str:
    return f"data of the modalities {' and '.join(modalities)}" if modalities else "data of images alone"


def check_attacks(training: Mapping[str, Settings], data: Sequence[tuple[PlannedDataset, DatasetInfo]]) -> None:
    """Raises UserError where images are to be attacked, by rows' `training`, and a data set holds other things too."""
    others = {one.label: "frozen features" for one, _ in data if one.backbone}
    others |= {one.label: _of(info.modalities) for one, info in data if info.modalities}
    for label, settings in training.items():
        attacked = [name for name in settings["evaluate"] if name != CLEAN]
        asking = "adversarial" if settings["adversarial"] else f"evaluate: {attacked[0]}" if attacked else ""
        for name, what in others.items() if asking else ():
            raise UserError(f"methods.{label}.training.{asking} needs images alone, and '{name}' is {what}")


def check_validation(asked: Mapping[str, str], partitions: Sequence[Configured], seeds: Sequence[int]) -> None:
    """Raises UserError where what is `asked` of cells, by key, needs validation images that a partition lacks."""
    asking = [f"{key}: '{value}'" for key, value in asked.items() if value in ON_VALIDATION]
    if not asking:
        return
    for number, kind in enumerate(partitions):
        if not all(cast(Partition, instance(kind)).validated(seed) for seed in seeds):
            lacking = f"heterogeneity.{number} ('{kind.name}') holds none"
            mend = "name a file that does" if kind.name == "file" else "set its validation, to 0.2 for example"
            raise UserError(f"{asking[0]} needs validation images, and {lacking}; {mend}")


def lacking(data: PlannedDataset, root: Path | None, download: bool) -> str:
    """What a data set lacks that is neither built, nor at hand, nor to be downloaded, in a sentence; empty: nothing."""
    if any(stage.built for stage in data.stages):
        return ""
    kind = cast(DataSet, instance((data.images or data).component))
    if kind.by_hand and not kind.found(root):
        return f"'{data.label}' is not at hand: put {kind.by_hand}"
    if download:
        return ""
    if not kind.found(root):
        return (
            f"'{data.label}' is not at hand and download is false; put it under data_root "
            "(or FEDGRID_DATA) or allow the download"
        )
    if data.backbone and not _weights_at_hand(data.backbone):
        return (
            f"the features of '{data.label}' need the published weights of {data.backbone['backbone']}, and download "
            "is false; name a file of them (features.weights) or allow the download"
        )
    return ""


def _weights_at_hand(backbone: Settings) -> bool:
    """Whether the weights need no download: there are none, they are a file, or the hub's cache may hold them."""
    if backbone["backbone"] == RANDOM or backbone["weights"] != HUB:
        return True
    return any(_hub_cache().glob(f"models--timm--{backbone['backbone']}*/snapshots/*"))


def _hub_cache() -> Path:
    """Where the Hugging Face hub's library keeps downloads."""
    home = os.environ.get("HF_HOME", "~/.cache/huggingface")
    return Path(os.environ.get("HF_HUB_CACHE", f"{home}/hub")).expanduser()
