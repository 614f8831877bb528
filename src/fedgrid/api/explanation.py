"""What stands behind a number of a table: its cells, their settings, states, scores and files, and their code."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedgrid.analysis.scores.cells import checked_on
from fedgrid.api.finding import cells_behind, check_alike, file_of_key, looked_through, no_cell
from fedgrid.files import read_metadata
from fedgrid.grid.earlier.circumstances import Circumstances
from fedgrid.grid.plan import manifest
from fedgrid.grid.plan.cell_metadata import CellMetadata, cell_metadata
from fedgrid.grid.plan.choices import group_of
from fedgrid.grid.plan.keys import modules_of_cell
from fedgrid.grid.plan.model import Cell
from fedgrid.grid.plan.planned_study import Study
from fedgrid.grid.study.expansion import point_text
from fedgrid.grid.study.sources import NOT_COUNTED
from fedgrid.run import cell_states


def explain(studies: Iterable[tuple[str, Study]], selection: Sequence[str], with_code: bool) -> Iterator[str]:
    """What stands behind the cells of the first of some named studies that match all words, in lines.

    Without such a study, a key may be that of results that none of them plans. Raises UserError where the words fit
    nothing, or cells that differ in more than their seeds.
    """
    searched, cells = looked_through(studies, lambda study: cells_behind(study, selection), "explain")
    if cells:
        name, study = searched[-1]
        check_alike(name, selection, "explain", cells)
        yield from _explain_cells(study, selection, cells, name if len(searched) > 1 else "", with_code)
        return
    every = [study for _, study in searched]
    unplanned = file_of_key(every[0].store, selection, "cells/**/s*-{key}*.parquet")
    if unplanned is None:
        raise no_cell(every, selection, "explain")
    yield from _explain_results(unplanned, every)


def _explain_cells(
    study: Study, selection: Sequence[str], cells: list[Cell], study_name: str, with_code: bool
) -> Iterator[str]:
    """The cells of one number, which differ in their seeds; what a key is made of is that of the first one."""
    states_by_key, (cell, *others) = cell_states.read(study), cells
    seeds, done = ", ".join(str(cell.seed) for cell in cells), sum(cell.done for cell in cells)
    named = f"{cell.row.label}, {cell.partition.data.label}, {cell.heterogeneity}, seeds {seeds}"
    summary = f"{named}: {done} of {len(cells)} trained"
    yield summary if others else f"{cell.description}: {_state(states_by_key[cell.key])}"
    if study_name:
        yield f"study      {study_name}"
    keys = {cell.key for cell in cells}
    experiments = [e.id for e in study.experiments if any(cell.key in keys for cell in e.cells)]
    if any(experiments):
        yield f"shown in   {', '.join(experiments)}"
    rows = {other.row.label: None for other in study.cells if other.key in keys and other.row.label != cell.row.label}
    if rows:
        yield f"also in    the row{'s' * (len(rows) > 1)} {', '.join(rows)}, whose settings come to the same"
    yield from _settings(cell.spec)
    yield from _chosen(study, cell)
    scores, mean = _scores(study, cells, selection)
    if mean:
        yield f"mean       {mean}"
    for similar in cells:
        state = f", {_state(states_by_key[similar.key])}, key {similar.key}" if others else ""
        yield f"seed       {similar.train_seed}{state}"
        if not others:
            yield f"key        {similar.key}"
        yield f"file       {similar.file}"
        if similar.log.is_file():
            yield f"log        {similar.log}"
        if similar.key in scores:
            yield f"score      {scores[similar.key]}"
            yield from _origins(cell_metadata(similar.file))
    yield from _versions(cell for cell in cells if cell.key in scores)
    yield from _made_of(cell, bool(others), with_code)


def _chosen(study: Study, cell: Cell) -> Iterator[str]:
    """The search that chose the settings of a cell: its points with their scores, and where the choice is kept."""
    group = group_of(cell)
    search = next((s for e in study.experiments for s in e.searches if s.group == group), None)
    if search is None:
        return
    seeds = ", ".join(map(str, search.seeds))
    if search.chosen is None:
        yield f"search     has yet to choose among {len(search.points)} points, on seeds {seeds}; the first stands here"
        return
    yield f"search     chose {point_text(search.points[search.chosen])} on validation images, seeds {seeds}"
    for rung, choice in zip(search.rungs, search.choices(), strict=True):
        after = f"           after {rung.rounds} round{'s' * (rung.rounds > 1)}"
        for score in choice.scores:
            by_seed = ", ".join("none" if value is None else f"{100 * value:.2f} %" for value in score.by_seed)
            mark = "  kept" * (score.point in choice.kept)
            yield f"{after}  {point_text(search.points[score.point])}: {by_seed}{mark}"
        yield f"           {rung.file}"


def _made_of(cell: Cell, of_several: bool, with_code: bool) -> Iterator[str]:
    """What a cell's key is made of beside its settings: partition, data and code."""
    partition, data, component = cell.partition, cell.partition.data, cell.row.component
    if of_several:
        yield f"What the key {cell.key} is made of:"
    digest = f", rows {read_metadata(partition.file)['digest'][:16]}" if partition.file.is_file() else ", not built yet"
    yield f"partition  {partition.key}, {partition.description}, seed {partition.seed}{digest}"
    checksum = f", images {read_metadata(data.files['train'])['checksum'][:16]}" if data.built else ", not built yet"
    yield f"data       {data.key}, {data.title}{checksum}"
    counted = modules_of_cell(component.module, component.file, cell.model.module, cell.model.file)
    yield f"code       {cell.code}, of {len(counted)} modules{':' if with_code else '; --code lists them'}"
    if with_code:
        yield from (f"           {digest}  {name}" for name, digest in counted.items())
        yield "not counted, for it cannot change a number:"
        yield from (f"           {name}: {reason}" for name, reason in NOT_COUNTED.items())


def _state(state: cell_states.State) -> str:
    """How a cell is doing."""
    name = {"done": "trained", "missing": "to be trained"}.get(state.name, state.name)
    return f"{name}, {state.remark}" if state.remark else name


def _scores(study: Study, cells: list[Cell], selection: Sequence[str]) -> tuple[dict[str, str], str]:
    """By key of a finished cell, its score, and the mean, as the experiment has them that is named, or shows most."""
    done = {cell.key for cell in cells if cell.done}
    if not done:
        return {}, ""
    from fedgrid.analysis.prose.cell_scores import score_texts  # it imports pandas, which takes half a second

    words, experiments = {word.casefold() for word in selection}, study.experiments
    shown = [(e.id.casefold() in words, len(done & {cell.key for cell in e.cells})) for e in experiments]
    return score_texts(manifest.content(study, experiments[shown.index(max(shown))]), done)


def _versions(cells: Iterable[Cell]) -> Iterator[str]:
    """What finished cells were computed with, and when."""
    finished: dict[str, list[str]] = {}
    for head in (cell_metadata(cell.file) for cell in cells):
        versions = ", ".join(f"{name} {version}" for name, version in head.versions.items())
        finished.setdefault(f"{versions}; {head.hardware['device']}", []).append(head.finished)
    for made_with, times in finished.items():
        yield f"made with  {made_with}; {' to '.join(sorted({min(times), max(times)}))}"


def _origins(head: CellMetadata) -> Iterator[str]:
    """Where results come from that were not trained from scratch, or not with today's code: latest adoption first."""
    if head.continued:
        yield f"continued  after round {head.continued.after}, from the kept state of {head.continued.key}"
    if head.taken:
        yield f"taken      from the {head.taken.rounds} rounds of {head.taken.key}"
    for attempt in head.attempts:
        yield f"attempt    after round {attempt.after}: {Circumstances.of(attempt)}"
    for entry in reversed(head.adopted):
        earlier = f"{entry['earlier']['key']} of code {entry['earlier']['code']}"
        checked = f"{checked_on(len(entry['checked']), entry['of'])} on {entry['date'][:10]}"
        yield f"adopted    from {earlier}, {checked}; {Circumstances(**entry['circumstances'])}"


def _settings(spec: Mapping[str, Any]) -> Iterator[str]:
    for part in ("method", "model"):
        settings = ", ".join(f"{name}={value}" for name, value in spec[part]["settings"].items())
        yield f"{part:10} {spec[part]['name']}{f': {settings}' if settings else ''}"
    yield f"training   {', '.join(f'{name}={value}' for name, value in spec['training'].items())}"


def _explain_results(file: Path, studies: Iterable[Study]) -> Iterator[str]:
    """What a finished cell says of its key, and which of its modules are others now."""
    metadata = cell_metadata(file)
    yield f"{file}: of another study, or of other code or data"
    yield f"key        {metadata.key}"
    yield from _settings(metadata.spec)
    yield f"seed       {metadata.spec['seed']}"
    yield f"code       {metadata.code}, of {len(metadata.modules)} modules; {_compared(metadata, studies)}"


def _compared(metadata: CellMetadata, studies: Iterable[Study]) -> str:
    """How a finished cell's code differs from that of the studies' cells of the same method."""
    cells = (cell for study in studies for cell in study.cells)
    cell = next((cell for cell in cells if cell.row.component.name == metadata.spec["method"]["name"]), None)
    if cell is None:
        return "no study here has a cell of this method to compare it with"
    component = cell.row.component
    now = modules_of_cell(component.module, component.file, cell.model.module, cell.model.file)
    changed = [name for name, code in metadata.modules.items() if now.get(name) != code]
    return f"other than now: {', '.join(changed)}" if changed else "the same as now: settings or data differ"
