"""The product rows × data sets × heterogeneity × seeds, every cell with its key."""

import functools
import os
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from itertools import product
from pathlib import Path

from fedgrid.data.common.images import DatasetInfo
from fedgrid.errors import UserError
from fedgrid.grid.plan import instances
from fedgrid.grid.plan.checks import check_attacks, check_fit, check_validation, kind_of_data
from fedgrid.grid.plan.choices import apply_choices
from fedgrid.grid.plan.external import check_external, external_rows
from fedgrid.grid.plan.instances import info_of
from fedgrid.grid.plan.keys import (
    HUB,
    RANDOM,
    check_helpers,
    code_of,
    fingerprint_of_cell,
    key_of_cell,
    key_of_data,
    key_of_features,
    key_of_partition,
)
from fedgrid.grid.plan.model import Cell, PlannedDataset, PlannedPartition
from fedgrid.grid.plan.planned_study import Experiment, Study
from fedgrid.grid.plan.search_cells import PlannedCells, Run, merged, planned_row, runs_of
from fedgrid.grid.plan.searches import Group, Search
from fedgrid.grid.study.model import (
    Configured,
    DataEntry,
    Heterogeneity,
    MethodRow,
    ParsedExperiment,
    ParsedStudy,
    Part,
    Placed,
    Settings,
    StudySettings,
)
from fedgrid.grid.study.resolve import parse
from fedgrid.grid.study.sections import Origin, Section, StudyError, located


def planned_study(study: Section) -> Study:
    """The study of a YAML file, with those of its experiments that its `only` asks for; as `plan_study` otherwise."""
    parsed = parse(study)
    return select(plan_study(parsed), parsed.only)


def plan_study(parsed: ParsedStudy) -> Study:
    """Every cell of a study, with its key and with what searches have chosen by now.

    UserError with file and line for impossible cells.
    """
    shared = {setting.name: getattr(parsed, setting.name) for setting in fields(StudySettings)}
    study = Study(**shared, experiments=[])
    experiments = [_experiment(experiment, study) for experiment in parsed.experiments]
    artifacts = _artifacts(experiments)

    def with_artifacts(cells: Sequence[Cell]) -> list[Cell]:
        return [replace(cell, artifacts=artifacts[cell.key]) for cell in cells]

    notices = (*study.notices, *_external_notices(parsed, experiments))
    experiments = [
        replace(one, cells=with_artifacts(one.cells), options=with_artifacts(one.options)) for one in experiments
    ]
    return apply_choices(replace(study, notices=notices, experiments=experiments))


def _external_notices(parsed: ParsedStudy, experiments: Sequence[Experiment]) -> list[str]:
    """What a reader might not expect of the external results; UserError where they do not fit the study."""
    cells = [cell for experiment in experiments for cell in experiment.cells]
    notices = [
        notice
        for of_parsed, experiment in zip(parsed.experiments, experiments, strict=True)
        for notice in check_external(external_rows(of_parsed), experiment, cells, parsed.data_root)
    ]
    return list(dict.fromkeys(notices))


def select(study: Study, only: Sequence[str]) -> Study:
    """The study with some of its experiments; with all where `only` is empty."""
    return (
        replace(study, experiments=[experiment for experiment in study.experiments if experiment.id in only])
        if only
        else study
    )


def _artifacts(experiments: Iterable[Experiment]) -> dict[str, tuple[str, ...]]:
    """By key, what any experiment keeps of a cell: what one of them needs later is kept when another has it trained."""
    artifacts: dict[str, tuple[str, ...]] = {}
    for cell in (cell for experiment in experiments for cell in (*experiment.cells, *experiment.options)):
        artifacts[cell.key] = tuple(sorted({*artifacts.get(cell.key, ()), *cell.artifacts}))
    return artifacts


def _experiment(parsed: ParsedExperiment, study: Study) -> Experiment:
    """An experiment with the cells of all its parts, every one once."""
    cells: dict[tuple[str, str, str, int], tuple[Origin, Cell]] = {}
    searches: dict[Group, Search] = {}
    options: list[Cell] = []
    for part in parsed.parts:
        planned = _cells(part, study, lenient=bool(parsed.id))
        searches |= {search.group: search for search in planned.searches}
        options += planned.options
        for cell in planned.table:
            first, other = cells.setdefault(cell.table_position, (part.origin, cell))
            if other.key != cell.key:
                raise StudyError(
                    part.origin,
                    f"{cell.description} would be two different cells, {other.key} of {first.label} and {cell.key} of "
                    f"{part.origin.label}; give a row, the data or the heterogeneity of one of them another label",
                )
    return Experiment(
        parsed.id,
        study.folder / parsed.id,
        parsed.about,
        [cell for _, cell in cells.values()],
        parsed.published,
        parsed.published_elsewhere,
        parsed.listed,
        [row.value for row in external_rows(parsed)],
        [*searches.values()],
        options,
    )


def _cells(part: Part, study: Study, lenient: bool) -> PlannedCells:
    """The cells of a part, with its searches; where it is `lenient`, those of data that cannot be had say so."""
    data = [_plan_entry(entry, study) for entry in part.data]
    check_attacks(part, data)
    check_fit(part, data)
    check_validation(part)
    pairs = zip(part.data, data, strict=True)
    at_hand = [_at_hand(planned, study, entry.origin, lenient) for entry, (planned, _) in pairs]
    kinds = [kind.value for kind in part.heterogeneity]
    rows = [row.value for row in part.rows]
    runs = [run for row in rows for run in runs_of(row, part)]
    cells = iter(grid(runs, at_hand, kinds, part.model.value.component))
    return merged([planned_row(row, part, [next(cells) for _ in runs_of(row, part)]) for row in rows])


def _plan_entry(entry: Placed[DataEntry], study: Study) -> tuple[PlannedDataset, DatasetInfo]:
    with located(entry.origin):
        data = entry.value
        images, info = plan_dataset(study.store, data.label, data.component, study.data_root)
        return plan_features(images, info, data.backbone) if data.backbone else (images, info)


def _at_hand(data: PlannedDataset, study: Study, origin: Origin, lenient: bool) -> PlannedDataset:
    """The data set, with the reason where it is unavailable; a UserError unless `lenient`."""
    problem = problem_of_data(data, study.data_root, study.download)
    if problem and not lenient:
        raise StudyError(origin, problem)
    return replace(data, unavailable=problem)


def plan_dataset(store: Path, label: str, data: Configured, root: Path | None) -> tuple[PlannedDataset, DatasetInfo]:
    """Where a data set is kept, as the local files under `root` or the original give it, and what it holds."""
    info = info_of(data, root)
    return PlannedDataset(store, label, data, key_of_data(data, info.copy), info.copy), info


def plan_features(images: PlannedDataset, info: DatasetInfo, backbone: Settings) -> tuple[PlannedDataset, DatasetInfo]:
    """Where the features of a data set are kept, and what they hold; UserError where it is not of images alone."""
    if info.modalities:
        raise UserError(
            f"data.features: '{images.label}' is {kind_of_data(info.modalities)}, and features are made of images"
        )
    key = key_of_features(images, backbone)
    return replace(images, key=key, images=images, backbone=backbone), replace(info, shape=(1, 1, 1))


def plan_partition(kind: Heterogeneity, code: str, data: PlannedDataset, seed: int) -> PlannedPartition:
    """Where a partition is kept; `code` is the fingerprint of its code."""
    with instances.creating_partition(kind.component) as partition:
        key, head = key_of_partition(partition, kind.component, code, data, seed), partition.sentence()
    sentence, tested = instances.description_of(kind.component, seed)
    description = kind.label if kind.named else head
    return PlannedPartition(
        kind.component, data, seed, key, kind.label, kind.store_folder, description, sentence, tested
    )


def plan_cell(
    row: MethodRow,
    code: str,
    partition: PlannedPartition,
    model: Configured,
    seed: int,
    train_seed: int,
    artifacts: tuple[str, ...] = (),
) -> Cell:
    """A cell with its key; `code` is the fingerprint of all code that can change its numbers."""
    key = key_of_cell(row, partition, model, train_seed, code)
    return Cell(row, partition, model, seed, train_seed, code, key, artifacts)


def grid(
    runs: Sequence[Run], data: Sequence[PlannedDataset], partitions: Sequence[Heterogeneity], model: Configured
) -> list[list[Cell]]:
    """The cells of each run; data vary slowest, seeds fastest."""
    for row in {id(run.row): run.row for run in runs}.values():
        check_helpers(row, model)
    kinds = [(kind, code_of("partition", kind.component)) for kind in partitions]
    columns = list(product(range(len(data)), range(len(kinds))))
    planned = {
        (d, p, s): plan_partition(*kinds[p], data[d], s)
        for (d, p), s in product(columns, {s for run in runs for _, s, _ in run.seeds})
    }
    # rows may be of the same method
    code = functools.cache(lambda module, file: fingerprint_of_cell(module, file, model.module, model.file))

    def cells(run: Run) -> list[Cell]:
        component = run.row.component
        of_run = (component.module, component.file)
        return [
            plan_cell(run.row, code(*of_run), planned[d, p, of_partition], model, seed, train, run.artifacts)
            for (d, p), (seed, of_partition, train) in product(columns, run.seeds)
        ]

    return [cells(run) for run in runs]


def problem_of_data(data: PlannedDataset, root: Path | None, download: bool) -> str:
    """What a data set lacks that is neither built, nor at hand, nor to be downloaded, in a sentence; empty: nothing."""
    if any(stage.built for stage in data.stages):
        return ""
    with instances.creating_dataset((data.images or data).component) as kind:
        by_hand, available = kind.by_hand, kind.is_available(root)
    if by_hand and not available:
        return f"'{data.label}' is not at hand: put {by_hand}"
    if download:
        return ""
    if not available:
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
