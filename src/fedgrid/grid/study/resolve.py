"""Parses a study: from the values of its YAML to one typed study, every component with all its settings."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from fedgrid.components import describe
from fedgrid.errors import nearest
from fedgrid.files import path_of
from fedgrid.grid.study.columns import data_entries, heterogeneities
from fedgrid.grid.study.configure import configured_component, settings_of
from fedgrid.grid.study.experiments import Laid, lay_experiments
from fedgrid.grid.study.model import (
    About,
    MethodRow,
    ModelEntry,
    ParsedExperiment,
    ParsedStudy,
    Part,
    Placed,
    Reading,
    printed_names,
)
from fedgrid.grid.study.nodes import Node, Origin
from fedgrid.grid.study.printed import printed_numbers
from fedgrid.grid.study.rows import method_rows
from fedgrid.grid.study.validation import check_study
from fedgrid.settings import Compute


def parse(study: Node) -> ParsedStudy:
    """A study with all its experiments, at the scale that it asks for; UserError, with its place, for any mistake.

    Writes nothing: a study may be looked at while a run is going, and where nothing can be written.
    """
    study = check_study(study)
    laid, notices = lay_experiments(study)
    printed = printed_numbers(study)
    compute = settings_of(describe(Compute), study.get("compute") or Node({}))
    with study.origin_of("results").located():
        results = path_of(study.at("results"), "results")
    return ParsedStudy(
        name=study.at("name"),
        title=study.at("title") or "",
        results=results,
        compute=Compute(**compute),
        experiments=[_experiment(one, printed.get(one.id, [])) for one in laid],
        scale=study.at("scale"),
        download=study.at("download"),
        data_root=_data_root(study),
        published=study.at("published") or "",
        assumed=study.at("assumed") or {},
        only=_chosen(study.get("only"), [one.id for one in laid]),
        notices=notices,
    )


def _experiment(laid: Laid, published: list[dict[str, str]]) -> ParsedExperiment:
    listed = [] if laid.parts else [row.value for row in method_rows(laid.about)]
    parts = [_part(check_study(part)) for part in laid.parts]
    _check_shown(laid.about.get("show"), [*listed, *(row.value for part in parts for row in part.rows)])
    return ParsedExperiment(laid.id, _about(laid.about), parts, published, listed)


def _chosen(asked: Node | None, ids: Iterable[str]) -> tuple[str, ...]:
    """The experiments that a study's `only` asks for, of all `ids`; a text may hold several, with commas."""
    if asked is None or not asked.value:
        return ()
    names = [name.strip() for name in asked.value.split(",")] if isinstance(asked.value, str) else asked.plain
    known = list(ids)
    if known == [""]:
        raise asked.origin.mistake("the study has no experiments to choose from")
    for name in names:
        if name not in known:
            raise asked.origin.mistake(f"there is no experiment '{name}'; {nearest(name, known)}")
    return tuple(name for name in known if name in names)


def _check_shown(show: Node | None, rows: Sequence[MethodRow]) -> None:
    """Raises UserError where a table is to compare with a row that the experiment does not have."""
    first = {row.label: row for row in reversed(rows)}
    known = printed_names((label, row.component.name, row.title, row.component.file) for label, row in first.items())
    for entry in show.items if show else ():
        delta = entry.get("delta")
        if delta and delta.plain not in known.values():
            problem = f"the experiment has no row '{delta.plain}'; {nearest(delta.plain, known.values())}"
            raise delta.origin.mistake(problem)


def _about(node: Node) -> About:
    show = node.at("show")
    return About(
        title=node.at("title") or "",
        source=node.at("source") or "",
        lacks=node.at("lacks") or "",
        claims=tuple(node.at("claims") or ()),
        show=None if show is None else tuple(show),
        assumed=node.at("assumed") or {},
        reading=Reading(**node.at("report") or {}),
        seeds=tuple(node.at("seeds")),
        partition_seed=node.at("partition_seed"),
        train_seed=node.at("train_seed"),
    )


def _part(node: Node) -> Part:
    reading = node.get("report") or Node({}, node.origin.child("report"))
    return Part(
        origin=node.origin,
        rows=method_rows(node),
        data=data_entries(node),
        heterogeneity=heterogeneities(node),
        model=_model(node.mapping["model"]),
        seeds=_seeds(node),
        reading=Placed(Reading(**reading.plain), reading.origin),
        artifacts=tuple(node.at("artifacts") or ()),
    )


def _data_root(study: Node) -> Path | None:
    """Where data sets lie on this machine: the study's `data_root`, else the environment variable FEDGRID_DATA."""
    given = study.at("data_root")
    origin = study.origin_of("data_root") if given else Origin(key="FEDGRID_DATA")
    folder = given or os.environ.get("FEDGRID_DATA")
    if not folder:
        return None
    with origin.located():
        root = path_of(folder, origin.key)
    if not root.is_dir():
        raise origin.mistake(f"there is no folder {folder}")
    return root


def _seeds(study: Node) -> list[tuple[int, int, int]]:
    """Seed, seed of the partition and seed of training, of each seed."""
    seeds, partition_seed, train_seed = (study.at(name) for name in ("seeds", "partition_seed", "train_seed"))
    if len(seeds) > 1 and None not in (partition_seed, train_seed):
        problem = "with both partition_seed and train_seed fixed, all seeds would be one and the same run"
        raise study.origin_of("seeds").mistake(problem)
    return [
        (seed, seed if partition_seed is None else partition_seed, seed if train_seed is None else train_seed)
        for seed in seeds
    ]


def _model(entry: Node) -> Placed[ModelEntry]:
    component, about = configured_component("models", entry)
    facts = about["facts"]
    return Placed(ModelEntry(component, facts["smallest"], tuple(facts.get("modalities", ()))), entry.origin)
