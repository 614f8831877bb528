"""``fedgrid compare METHOD --against ARCHIVE``: a method beside a finished study, whose cells are taken over."""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from fedgrid import shipped
from fedgrid.errors import UserError, say_notice
from fedgrid.files import slug, write_text
from fedgrid.grid.plan.manifest_model import StudyDescription
from fedgrid.grid.plan.planned_study import Study
from fedgrid.grid.plan.product import planned_study
from fedgrid.grid.study.expansion import TRAINING
from fedgrid.grid.study.method_lists import listed_rows
from fedgrid.grid.study.sections import Origin, Section
from fedgrid.quantities import counted

if TYPE_CHECKING:
    from fedgrid.api.archive.reading import FinishedStudy

OF_ONE_COLUMN, OF_COLUMNS = ("ranking", "against"), ("accuracy", "against")
"Tables of a study of one data set and heterogeneity, and of several: all rows, and the method against each other one."
HEADING = "# The study of {} with a method more. Written by fedgrid compare; every line is yours to change."
RANKING = "ranking"
"The word for the archive of docs/ranking.md."
WIDTH = 120
"Characters of a line of the study."


def archive_of(words: list[str]) -> Path | None:
    """The archive that ``--against`` names, where it names one; UserError for one beside other words."""
    archives = [word for word in words if word == RANKING or word.endswith(".zip")]
    if archives and len(words) > 1:
        raise UserError(f"--against: {archives[0]} is a whole study, beside which nothing else can be named")
    return _file_of(archives[0]) if archives else None


def _file_of(word: str) -> Path:
    """The file of an archive, or of that of the ranking, which a clone has."""
    if word != RANKING:
        return Path(word)
    file = shipped.folder("benchmarks") / "cells/ranking.zip"
    if not file.is_file():
        raise UserError(
            f"--against: {word} is a file of the repository, benchmarks/cells/ranking.zip, which is not here"
        )
    return file


def join(archive: Path, row: str | dict[str, Any], out: Path, options: Collection[str]) -> Study:
    """Writes the study of an archive with one row more, and takes the archive's cells over into its store.

    `row` is the entry of the method, `options` are those of the command that were given though such a study has no use
    for them. Raises UserError where there are any, and where the archive is refused.
    """
    from fedgrid.api.archive.reading import read_archived_study  # pandas takes time to import
    from fedgrid.api.merging.merge import merge

    if options:
        raise UserError(f"--{min(options)}: that is for the study of {archive.name} to say")
    finished = read_archived_study(archive)
    content = _content(finished, row, out)
    study = planned_study(Section(content, Origin(str(out))))  # a study that is written can be run
    (merged,) = merge([archive], study.results)
    text = yaml.safe_dump(content, default_flow_style=None, sort_keys=False, allow_unicode=True, width=WIDTH)
    write_text(out, f"{HEADING.format(archive.name)}\n{text}")
    print(f"{study.results}: {counted(merged.new, 'cell')} of {archive.name} added, {merged.same:,} there already")
    if merged.conflicts:
        number = counted(len(merged.conflicts), "cell has", "cells have")
        say_notice(f"{number} other numbers here, which stay; fedgrid merge {archive} names them")
    return study


def _content(finished: "FinishedStudy", row: str | dict[str, Any], out: Path) -> dict[str, Any]:
    """The study of an archive with one row more, as plain values."""
    theirs = settled_rows(finished.content, finished.results.study)
    tables = OF_ONE_COLUMN if len(finished.results.columns) == 1 else OF_COLUMNS
    changes = {"name": slug(out.stem), "methods": [*theirs, row], "show": [{"table": table} for table in tables]}
    plain: dict[str, Any] = json.loads(json.dumps(finished.content | changes))
    return plain


def settled_rows(content: Section, study: StudyDescription) -> list[str | dict[str, Any]]:
    """The entries of a finished study's rows, with what its searches chose in place of these.

    Members of a family that it left out, as their settings did not go together, stay out.
    """
    chosen = {search.row: search.points[search.chosen] for search in study.searches if search.chosen is not None}
    entries: dict[str, dict[str, Any]] = {}
    for listed in listed_rows(content["methods"], content.origins["methods"]):
        if listed.settings or listed.label in study.methods:
            entries[listed.label] = listed.settings or entries.get(listed.label, {})
    settled = {label: _settled(entry, chosen.get(label, {})) for label, entry in entries.items()}
    return [{label: entry} if entry else label for label, entry in settled.items()]


def _settled(entry: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, Any]:
    """A row with the settings that were chosen for it, if any were; then nothing is searched for it any more."""
    if not chosen:
        return dict(entry)
    training = {name.removeprefix(TRAINING): value for name, value in chosen.items() if name.startswith(TRAINING)}
    own = {name: value for name, value in chosen.items() if not name.startswith(TRAINING)}
    settled = {**entry, **own, "search": False}
    return settled | {"training": {**settled.get("training", {}), **training}} if training else settled
