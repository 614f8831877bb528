"""The product rows × data sets × heterogeneity × seeds, every cell with its key."""

import functools
import importlib.util
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

from fedgrid.data.common.images import IMAGE, DatasetInfo
from fedgrid.errors import UserError, nearest
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
    with_weights,
)
from fedgrid.grid.plan.model import Cell, PlannedDataset, PlannedPartition
from fedgrid.grid.plan.planned_study import Experiment, Study
from fedgrid.grid.plan.search_cells import PlannedCells, Run, merged, planned_row, runs_of
from fedgrid.grid.plan.searches import Group, Search
from fedgrid.grid.study.model import (
    Configured,
    DataEntry,
    ExperimentSettings,
    Heterogeneity,
    ModelEntry,
    Part,
    Placed,
    Settings,
)
from fedgrid.grid.study.resolve import parse
from fedgrid.grid.study.sections import Origin, Section, StudyError, located


def planned_study(study: Section) -> Study:
    """The study of a YAML file, with those of its experiments that its `only` asks for; as `plan_study` otherwise."""
    return select(plan_study(study), study)


def plan_study(text: Section) -> Study:
    """Every cell of the study in a `text`, with its key and with what searches have chosen by now.

    UserError with file and line for mistakes and impossible cells.
    """
    settings, parsed = parse(text)
    study = Study(**vars(settings), experiments=[])
    experiments = [_experiment(described, parts, study) for described, parts in parsed]
    artifacts = _artifacts(experiments)

    def with_artifacts(cells: Sequence[Cell]) -> list[Cell]:
        return [replace(cell, artifacts=artifacts[cell.key]) for cell in cells]

    notices = (*study.notices, *_external_notices([parts for _, parts in parsed], experiments, study))
    experiments = [
        replace(one, cells=with_artifacts(one.cells), options=with_artifacts(one.options)) for one in experiments
    ]
    return apply_choices(replace(study, notices=notices, experiments=experiments))


def _external_notices(parts: Iterable[Sequence[Part]], experiments: Sequence[Experiment], study: Study) -> list[str]:
    """What a reader might not expect of the external results; UserError where they do not fit the study."""
    cells = [cell for experiment in experiments for cell in experiment.cells]
    notices = [
        notice
        for of_experiment, experiment in zip(parts, experiments, strict=True)
        for notice in check_external(external_rows(of_experiment), experiment, cells, study.data_root)
    ]
    return list(dict.fromkeys(notices))


def select(study: Study, text: Section) -> Study:
    """The planned study of a `text` with the experiments that its `only` asks for, or all; StudyError for unknown ones.

    A text of `only` may hold several names, with commas.
    """
    if not (only := text.get("only")):
        return study
    names = [name.strip() for name in only.split(",")] if isinstance(only, str) else only
    if not study.has_experiments:
        raise StudyError(text.origins["only"], "the study has no experiments to choose from")
    ids = [experiment.id for experiment in study.experiments]
    for name in names:
        if name not in ids:
            raise StudyError(text.origins["only"], f"no experiment '{name}'; {nearest(name, ids)}")
    return replace(study, experiments=[experiment for experiment in study.experiments if experiment.id in names])


def _artifacts(experiments: Iterable[Experiment]) -> dict[str, tuple[str, ...]]:
    """By key, what any experiment keeps of a cell: what one of them needs later is kept when another has it trained."""
    artifacts: dict[str, tuple[str, ...]] = {}
    for cell in (cell for experiment in experiments for cell in (*experiment.cells, *experiment.options)):
        artifacts[cell.key] = tuple(sorted({*artifacts.get(cell.key, ()), *cell.artifacts}))
    return artifacts


def _experiment(settings: ExperimentSettings, parts: Sequence[Part], study: Study) -> Experiment:
    """An experiment with the cells of all its parts, every one once."""
    cells: dict[tuple[str, str, str, int], tuple[Origin, Cell]] = {}
    searches: dict[Group, Search] = {}
    options: list[Cell] = []
    for part in parts:
        planned = _cells(part, study, lenient=bool(settings.id))
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
        **vars(settings),
        folder=study.folder / settings.id,
        cells=[cell for _, cell in cells.values()],
        external=[row.value for row in external_rows(parts)],
        searches=[*searches.values()],
        options=options,
    )


def _cells(part: Part, study: Study, lenient: bool) -> PlannedCells:
    """The cells of a part, with its searches; where it is `lenient`, those of data that cannot be had say so."""
    data = [_plan_entry(entry, study) for entry in part.data]
    check_attacks(part, data)
    check_fit(part, data)
    check_validation(part)
    pairs = zip(part.data, data, strict=True)
    at_hand = [_at_hand(planned, study, entry.origin, lenient) for entry, (planned, _) in pairs]
    if problem := problem_of_model(part.model.value, study.download):
        at_hand = [replace(planned, unavailable=planned.unavailable or problem) for planned in at_hand]
    with located(part.model.origin):
        model = with_weights(part.model.value)
    kinds = [kind.value for kind in part.heterogeneity]
    rows = [row.value for row in part.rows]
    runs = [run for row in rows for run in runs_of(row, part)]
    cells = iter(grid(runs, at_hand, kinds, model))
    planned = merged([planned_row(row, part, [next(cells) for _ in runs_of(row, part)]) for row in rows])
    if problem and not lenient and not all(cell.done for cell in (*planned.table, *planned.options)):
        raise StudyError(part.model.origin, problem)
    return planned


def _plan_entry(entry: Placed[DataEntry], study: Study) -> tuple[PlannedDataset, DatasetInfo]:
    """Where a data set or its features are kept, and what they hold; UserError for features of more than images."""
    data = entry.value
    with located(entry.origin):
        info = info_of(data.component, study.data_root)
        key = key_of_data(data.component, info.copy)
        images = PlannedDataset(study.store, data.label, data.component, key, info.copy)
        if not data.backbone:
            return images, info
        if info.modalities or info.kind != IMAGE:
            what = kind_of_data(info.modalities, info.kind)
            raise UserError(f"data.features: '{images.label}' is {what}, and features are made of images")
        key = key_of_features(images, data.backbone)
        return replace(images, key=key, images=images, backbone=data.backbone), replace(info, shape=(1, 1, 1))


def _at_hand(data: PlannedDataset, study: Study, origin: Origin, lenient: bool) -> PlannedDataset:
    """The data set, with the reason where it is unavailable; a UserError unless `lenient`."""
    problem = problem_of_data(data, study.data_root, study.download)
    if problem and not lenient:
        raise StudyError(origin, problem)
    return replace(data, unavailable=problem)


def plan_partition(kind: Heterogeneity, code: str, data: PlannedDataset, seed: int) -> PlannedPartition:
    """Where a partition is kept; `code` is the fingerprint of its code."""
    with instances.creating_partition(kind.component) as partition:
        key, head = key_of_partition(partition, kind.component, code, data, seed), partition.sentence()
    sentence, tested = instances.description_of(kind.component, seed)
    title = kind.label if kind.named else head
    return PlannedPartition(kind.component, data, seed, key, kind.label, kind.store_folder, title, sentence, tested)


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
    cells: list[list[Cell]] = [[] for _ in runs]
    for run, of_run in zip(runs, cells, strict=True):
        of_row = code(run.row.component.module, run.row.component.file)
        for (d, p), (seed, partition_seed, train) in product(columns, run.seeds):
            partition = planned[d, p, partition_seed]
            key = key_of_cell(run.row, partition, model, train, of_row)
            of_run.append(Cell(run.row, partition, model, seed, train, of_row, key, run.artifacts))
    return cells


def problem_of_data(data: PlannedDataset, root: Path | None, download: bool) -> str:
    """What a data set lacks that is neither built, nor at hand, nor to be downloaded, in a sentence; empty: nothing."""
    if data.built:
        return ""
    if data.backbone and data.backbone["backbone"] != RANDOM and importlib.util.find_spec("timm") is None:
        return f"the features of '{data.label}' need timm: pip install 'fedgrid[features]'"
    if any(stage.built for stage in data.stages):
        return ""
    with instances.creating_dataset((data.images or data).component) as kind:
        by_hand, available, library = kind.by_hand, kind.is_available(root), kind.missing_library(root)
        extra = kind.extra
    if by_hand and not available:
        return f"'{data.label}' is not at hand: put {by_hand}"
    if library and (available or download):
        return f"'{data.label}' needs {library}: pip install 'fedgrid[{extra}]'"
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


def problem_of_model(model: ModelEntry, download: bool) -> str:
    """What a model lacks that starts from given weights, in a sentence; empty: nothing."""
    name, settings = model.component.name, model.component.settings
    if not model.pretrained:
        return ""
    if importlib.util.find_spec("timm") is None:
        return f"the model '{name}' needs timm: pip install 'fedgrid[features]'"
    if download or _weights_at_hand(settings):
        return ""
    return (
        f"the model '{name}' needs the published weights of {settings['backbone']}, and download is false; name a file "
        "of them (model.weights) or allow the download"
    )


def _weights_at_hand(backbone: Settings) -> bool:
    """Whether the weights need no download: there are none, they are a file, or the hub's cache may hold them."""
    if backbone["backbone"] == RANDOM or backbone["weights"] != HUB:
        return True
    home = os.environ.get("HF_HOME", "~/.cache/huggingface")
    hub = Path(os.environ.get("HF_HUB_CACHE", f"{home}/hub")).expanduser()
    return any(hub.glob(f"models--timm--{backbone['backbone']}*/snapshots/*"))
