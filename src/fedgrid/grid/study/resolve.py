"""Parses a study: from the values of its YAML to one typed study, every component with all its settings."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from fedgrid.components import describe
from fedgrid.errors import nearest
from fedgrid.files import path_of
from fedgrid.grid.study.columns import data_entries, heterogeneities
from fedgrid.grid.study.configure import configured_component, named_entries, settings_of
from fedgrid.grid.study.experiments import LaidExperiment, lay_experiments
from fedgrid.grid.study.model import (
    About,
    Heterogeneity,
    MethodRow,
    ModelEntry,
    ParsedExperiment,
    ParsedStudy,
    Part,
    Placed,
    Reading,
    printed_names,
)
from fedgrid.grid.study.paths import input_path
from fedgrid.grid.study.printed import printed_file, printed_numbers
from fedgrid.grid.study.rows import method_rows
from fedgrid.grid.study.sections import Entries, Origin, Section, StudyError, located
from fedgrid.grid.study.seeds import table_seeds
from fedgrid.grid.study.validation import check_study
from fedgrid.settings import Compute

NEW_CLIENTS = "new_clients"
"A table, and the setting of training that it needs."


def parse(study: Section) -> ParsedStudy:
    """A study with all its experiments, at the scale that it asks for; StudyError for any mistake.

    Writes nothing: a study may be looked at while a run is going, and where nothing can be written.
    """
    study = check_study(study)
    laid, notices = lay_experiments(study)
    printed = printed_numbers(study)
    experiments = [_experiment(experiment, printed) for experiment in laid]
    left_out = dict.fromkeys(notice for one in experiments for part in one.parts for notice in part.notices)
    return ParsedStudy(
        name=study["name"],
        title=study.get("title", ""),
        results=_results(study["results"], study.origins["results"]),
        compute=Compute(**settings_of(describe(Compute), study["compute"])),
        scale=study["scale"],
        download=study["download"],
        data_root=_data_root(study),
        published=printed_file(study),
        assumed=study.get("assumed", {}),
        notices=(*notices, *left_out),
        experiments=experiments,
        only=_chosen(study, [experiment.id for experiment in laid]),
    )


def _experiment(laid: LaidExperiment, printed: dict[str, list[dict[str, str]]]) -> ParsedExperiment:
    listed = [] if laid.parts else [row.value for row in method_rows(laid.about).rows]
    parts = [_part(check_study(part)) for part in laid.parts]
    external = [row.value for part in parts for row in part.external]
    rows = [*listed, *(row.value for part in parts for row in part.rows)]
    _check_shown(laid.about.get("show", Entries()), rows, [row.title for row in external])
    about = _about(laid.about)
    elsewhere = [row for id, rows in printed.items() if id != laid.id and about.claims for row in rows]
    return ParsedExperiment(laid.id, about, parts, printed.get(laid.id, []), elsewhere, listed)


def _chosen(study: Section, ids: Sequence[str]) -> tuple[str, ...]:
    """The experiments that a study's `only` asks for, of all `ids`; a text may hold several, with commas."""
    only = study.get("only")
    if not only:
        return ()
    names = [name.strip() for name in only.split(",")] if isinstance(only, str) else only
    if ids == [""]:
        raise StudyError(study.origins["only"], "the study has no experiments to choose from")
    for name in names:
        if name not in ids:
            raise StudyError(study.origins["only"], f"no experiment '{name}'; {nearest(name, ids)}")
    return tuple(name for name in ids if name in names)


def _check_shown(show: Entries, rows: Sequence[MethodRow], external: Sequence[str]) -> None:
    """Raises StudyError where a table is to compare with a row, or show clients, that the experiment does not have."""
    first = {row.label: row for row in reversed(rows)}
    known = printed_names((label, row.component.name, row.title, row.component.file) for label, row in first.items())
    for entry in show:
        delta = entry.get("delta")
        if delta and delta not in (names := [*known.values(), *external]):
            problem = f"the experiment has no row '{delta}'; {nearest(delta, names)}"
            raise StudyError(entry.origins["delta"], problem)
        if entry.get("table") == NEW_CLIENTS and not any(row.training[NEW_CLIENTS] for row in rows):
            problem = f"no client joins after training; set training.{NEW_CLIENTS}, to 0.2 for example"
            raise StudyError(entry.origins["table"], problem)


def _about(section: Section) -> About:
    return About(
        title=section.get("title", ""),
        source=section.get("source", ""),
        lacks=section.get("lacks", ""),
        claims=tuple(section.get("claims", ())),
        show=tuple(section["show"]) if "show" in section else None,
        assumed=section.get("assumed", {}),
        reading=Reading(**section.get("report", {})),
        seeds=tuple(section["seeds"]),
        partition_seed=section.get("partition_seed"),
        train_seed=section.get("train_seed"),
    )


def _part(part: Section) -> Part:
    methods, dealt = method_rows(part), heterogeneities(part)
    return Part(
        origin=part.origin,
        rows=methods.rows,
        external=methods.external,
        data=data_entries(part),
        heterogeneity=dealt,
        model=_model(part),
        seeds=table_seeds(part),
        reading=Placed(Reading(**part["report"]), part.origins["report"]),
        artifacts=tuple(part["artifacts"]),
        notices=[*methods.notices, *_untried(methods.trying, dealt)],
        searches=methods.searches,
    )


def _untried(trying: Sequence[str], dealt: Sequence[Placed[Heterogeneity]]) -> Iterator[str]:
    """A sentence for each row that tries models on held-out images where partitions hold none out."""
    without = [kind.value.label for kind in dealt if not kind.value.component.settings.get("validation")]
    for title in trying if without else ():
        yield (
            f"{title} tries models on images held out for validation, and {', '.join(without)} holds none out: it "
            "tries them on training images, which favour a client's own; set validation: 0.2 beside the partition"
        )


def _data_root(study: Section) -> Path | None:
    """The folder of data sets on this machine: the study's `data_root`, else the environment variable FEDGRID_DATA."""
    folder, origin = study.get("data_root"), study.origins.get("data_root", Origin(key="FEDGRID_DATA"))
    folder = folder or os.environ.get("FEDGRID_DATA")
    if not folder:
        return None
    with located(origin):
        root = path_of(input_path(folder, origin), origin.key)
    if not root.is_dir():
        raise StudyError(origin, f"there is no folder {folder}")
    return root


def _results(text: str, origin: Origin) -> Path:
    """The folder of results, which is relative to the working folder: it is that of a run, not of its study's file."""
    with located(origin):
        folder = path_of(text, origin.key)
    if folder.exists() and not folder.is_dir():
        raise StudyError(origin, f"{folder} is not a folder")
    return folder


def _model(study: Section) -> Placed[ModelEntry]:
    (entry,) = named_entries(study["model"], study.origins["model"])
    component, about = configured_component("models", entry)
    facts = about["facts"]
    return Placed(ModelEntry(component, facts["smallest"], tuple(facts.get("modalities", ()))), entry.origin)
