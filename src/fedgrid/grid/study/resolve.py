"""Parses a study: from the values of its YAML to typed settings and parts, every component with all its settings."""

import itertools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from fedgrid.components import describe
from fedgrid.errors import nearest
from fedgrid.files import path_of
from fedgrid.grid.study import forms
from fedgrid.grid.study.columns import data_entries, heterogeneities
from fedgrid.grid.study.configure import configured_component, named_entries, settings_of
from fedgrid.grid.study.experiments import LaidExperiment, lay_experiments
from fedgrid.grid.study.forms import Protocol, StudyFile
from fedgrid.grid.study.model import (
    WITHOUT_FILE,
    About,
    ExperimentSettings,
    Heterogeneity,
    MethodRow,
    ModelEntry,
    Part,
    Placed,
    StudySettings,
    printed_names,
)
from fedgrid.grid.study.printed import printed_file, printed_numbers
from fedgrid.grid.study.rows import method_rows
from fedgrid.grid.study.sections import Origin, Section, StudyError, located
from fedgrid.grid.study.shown import Shown
from fedgrid.grid.study.validation import study_file, typed
from fedgrid.settings import KRUM, Compute, krum_problem

NEW_CLIENTS = "new_clients"
"A table, and the setting of training that it needs."


def parse(study: Section) -> tuple[StudySettings, list[tuple[ExperimentSettings, list[Part]]]]:
    """A study and all its experiments with their parts, at the scale that it asks for; StudyError for any mistake.

    Writes nothing: a study may be looked at while a run is going, and where nothing can be written.
    """
    file = study_file(study)
    laid, notices = lay_experiments(file)
    printed = printed_numbers(file.section)
    experiments = [_experiment(experiment, printed) for experiment in laid]
    left_out = dict.fromkeys(notice for _, parts in experiments for part in parts for notice in part.notices)
    settings = StudySettings(
        name=file.name,
        title=file.title,
        results=_results(file.results, file.section.origin_of("results")),
        compute=Compute(**settings_of(describe(Compute), file.compute)),
        scale=file.scale,
        download=file.download,
        data_root=_data_root(file),
        published=printed_file(file.section),
        assumed=file.assumed,
        notices=(*notices, *left_out),
    )
    return settings, experiments


def _experiment(
    laid: LaidExperiment, printed: dict[str, list[dict[str, str]]]
) -> tuple[ExperimentSettings, list[Part]]:
    listed = [] if laid.parts else [row.value for row in method_rows(typed(Protocol, laid.about)).rows]
    parts = [_part(typed(forms.Part, part)) for part in laid.parts]
    external = [row.value for part in parts for row in part.external]
    rows = [*listed, *(row.value for part in parts for row in part.rows)]
    about = typed(About, laid.about)
    _check_shown(about.show or (), rows, [row.title for row in external])
    others = [row for id, rows in printed.items() if id != laid.id and about.claims for row in rows]
    own = printed.get(laid.id, [])
    settings = ExperimentSettings(id=laid.id, about=about, published=own, published_elsewhere=others, listed=listed)
    return settings, parts


def _check_shown(show: Sequence[Shown], rows: Sequence[MethodRow], external: Sequence[str]) -> None:
    """Raises StudyError where a table is to compare with a row, or show clients, that the experiment does not have."""
    first = {row.label: row for row in reversed(rows)}
    known = printed_names((label, row.component.name, row.title, row.component.file) for label, row in first.items())
    for entry in show:
        if entry.delta and entry.delta not in (names := [*known.values(), *external]):
            problem = f"the experiment has no row '{entry.delta}'; {nearest(entry.delta, names)}"
            raise StudyError(entry.section.origins["delta"], problem)
        if entry.table == NEW_CLIENTS and not any(row.training.new_clients for row in rows):
            problem = f"no client joins after training; set training.{NEW_CLIENTS}, to 0.2 for example"
            raise StudyError(entry.section.origins["table"], problem)


def _part(part: forms.Part) -> Part:
    section = part.section
    methods, dealt = method_rows(part), heterogeneities(section)
    _check_participants(methods.rows, [kind.value for kind in dealt])
    return Part(
        origin=section.origin,
        rows=methods.rows,
        external=methods.external,
        data=data_entries(section),
        heterogeneity=dealt,
        model=_model(part),
        seeds=part.table_seeds,
        reading=Placed(part.report, section.origin_of("report")),
        artifacts=tuple(part.artifacts),
        notices=[*methods.notices, *_untried(methods.trying, dealt)],
        searches=methods.searches,
    )


def _check_participants(rows: Sequence[Placed[MethodRow]], dealt: Sequence[Heterogeneity]) -> None:
    """Raises StudyError for a row with Krum where a kind of heterogeneity has too few clients for it."""
    for row, kind in itertools.product(rows, dealt):
        training, clients = row.value.training, kind.component.settings.get("clients")
        if training.aggregation not in KRUM or not isinstance(clients, int):
            continue
        largest = training.participants(clients)
        if all(krum_problem(training, participants) for participants in range(1, largest + 1)):
            raise StudyError(row.origin, f"{krum_problem(training, largest)} ({kind.label})")


def _untried(trying: Sequence[str], dealt: Sequence[Placed[Heterogeneity]]) -> Iterator[str]:
    """A sentence for each row that tries models on held-out images where partitions hold none out."""
    without = [kind.value.label for kind in dealt if not kind.value.component.settings.get("validation")]
    for title in trying if without else ():
        yield (
            f"{title} tries models on images held out for validation, and {', '.join(without)} holds none out: it "
            "tries them on training images, which favour a client's own; set validation: 0.2 beside the partition"
        )


def _data_root(study: StudyFile) -> Path | None:
    """The folder of data sets on this machine: the study's `data_root`, else the environment variable FEDGRID_DATA."""
    origin = study.section.origins.get("data_root", Origin(key="FEDGRID_DATA"))
    folder = study.data_root or os.environ.get("FEDGRID_DATA")
    if not folder:
        return None
    with located(origin):
        root = path_of(origin.input_path(folder), origin.key)
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


def _model(part: Protocol) -> Placed[ModelEntry]:
    (entry,) = named_entries(part.section.get("model", part.model), part.section.origin_of("model"))
    component, about = configured_component("models", entry)
    facts = about["facts"]
    takes = {name: tuple(facts[name]) for name in ("modalities", "kinds") if name in facts}
    pretrained = facts.get("pretrained", False)
    if pretrained and component.settings["weights"] not in WITHOUT_FILE:
        component, _ = configured_component("models", entry.with_input_path("weights"))
    return Placed(ModelEntry(component, facts["smallest"], pretrained=pretrained, **takes), entry.origin)
