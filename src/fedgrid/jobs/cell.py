"""A cell as a job: from the files of its partition and data set to one Parquet file of results.

Run as ``python -m fedgrid.jobs.cell PLAN KEY``, or with ``--out OUT`` for `fedgrid run` and `fedgrid.train`.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fedgrid
from fedgrid.command import plan_parser
from fedgrid.data.sources.digests import digest as file_digest
from fedgrid.data.sources.digests import reading_again
from fedgrid.engine.compute import Computed, Sources, Tell, compute
from fedgrid.engine.federation.method import Method
from fedgrid.engine.local import devices
from fedgrid.engine.rounds import PARTS, Outcome
from fedgrid.engine.state.checkpoint import Progress, remove_checkpoint
from fedgrid.engine.state.kept_state import same_states
from fedgrid.engine.state.saving import Saving
from fedgrid.errors import Damaged, UserError, complain, say
from fedgrid.files import read_metadata, read_table, write_parts, write_table
from fedgrid.grid.earlier.other_rounds import longer_run
from fedgrid.grid.plan import plan_file
from fedgrid.grid.plan.cell_metadata import CellMetadata, Commit, Costs, KeptState, Platform, Seconds, Sizes
from fedgrid.grid.plan.keys import modules_of_cell
from fedgrid.grid.plan.model import Cell
from fedgrid.grid.study.audit import Watch
from fedgrid.grid.study.canonical import digest
from fedgrid.grid.study.catalog import description
from fedgrid.grid.study.fingerprint import check_files
from fedgrid.jobs import gpus, models_file
from fedgrid.jobs.apart import job
from fedgrid.jobs.attempts import Attempts, notes_of, this_machine
from fedgrid.jobs.machine import peak_memory
from fedgrid.jobs.other_rounds import attempts_before, continued, is_finished, origin, take
from fedgrid.jobs.reporting import Report
from fedgrid.jobs.signals import TERMINATED, heeding_signals, ignore_signals
from fedgrid.jobs.status import Status, noted
from fedgrid.loading import locate
from fedgrid.models.base import PARTS as PARTS_OF_MODEL
from fedgrid.models.base import Network
from fedgrid.partition.common.statistics import domains_of_clients
from fedgrid.settings import Compute


def train(
    cell: Cell, out: Path, settings: Compute, saving: Saving, tell: Tell | None = None, commit: Commit | None = None
) -> Outcome:
    """Trains a cell and writes its results to `out`, which name the code's `commit`; the checkpoint is then removed.

    On a machine with GPUs it first takes a place on one of them, and waits for it; see `fedgrid.jobs.gpus`.
    """
    share = gpus.cells_on_a_gpu(settings) if settings.device in gpus.SHARED else 1
    with gpus.acquire_gpu(settings.device, share):
        settings = replace(settings, gpu_share=share)
        counted, watch = _checked_code(cell), _watch(cell)
        _check_weights(cell)
        cell.partition.data.check()
        cell.partition.check()
        table, about = read_table(cell.partition.file, ["client", "domain"])
        domains = domains_of_clients(table, about["clients"])
        kept = cell.kept_beside(out)
        saving = replace(saving, state=kept.get("state"))
        device = devices.name_of(devices.chosen(settings.device))
        machine = this_machine(settings.threads, settings.executor, device, ["timm"] if _is_pretrained(cell) else [])
        attempts = Attempts(saving.file, machine)
        # a model of the user's own is named by its file
        spec = cell.spec | {"model": cell.model.spec | {"name": cell.model.reference}}
        sources = Sources(spec, cell.row.component.reference, cell.partition.file, cell.partition.data.files)
        with watch as watched:

            def tell_watched(progress: Progress, remark: str) -> None:
                attempts.begin(progress.rounds)
                if watched:
                    watched.check()
                if tell:
                    tell(progress, remark)

            try:
                computed = compute(sources, settings, saving, tell_watched, cell.artifacts)
            except SystemExit as error:  # with exit code 0 it would look like success
                raise UserError(f"{cell.row.title} exited its process inside a round (sys.exit)") from error
            ignore_signals()  # what is left takes less time than doing a round again
            _checked_code(cell, type(computed.method))
            _keep_artifacts(cell, computed, kept, counted)
        metadata = _metadata(cell, machine, counted, computed)
        metadata = replace(metadata, domains=domains, commit=commit, images=cell.partition.data.images_checksum)
        metadata = attempts.noted_in(metadata, attempts_before(cell) if metadata.continued else [])
        write_table(out, computed.outcome.progress.record.table(), metadata.plain())
        _remove_checkpoints(cell, saving.file)
        return computed.outcome


def _remove_checkpoints(cell: Cell, file: Path) -> None:
    """Removes what a finished cell does not continue from any more: its checkpoint in a file, and its earlier state."""
    with suppress(OSError):  # they do no harm
        remove_checkpoint(file)
        notes_of(file).unlink(missing_ok=True)
        remove_checkpoint(cell.set_aside)


def _keep_artifacts(cell: Cell, computed: Computed, files: Mapping[str, Path], counted: dict[str, str]) -> None:
    """Writes what the study keeps beside a cell's results, to a file for each kind."""
    for kind, parts in computed.artifacts().items():
        write_parts(files[kind], parts, {"kind": kind})
    if "models" in files:
        about = _identity(cell, counted) | _about_models(cell, computed)
        models_file.write(files["models"], computed.models(), about, computed.method.carries)


def _about_models(cell: Cell, computed: Computed) -> dict[str, Any]:
    """What a reader of a cell's models must know of their method, input and output."""
    images = read_metadata(cell.partition.data.files["train"])
    outcome, network = computed.outcome, computed.simulation.model
    frozen = _frozen(cell, network)
    return {
        "fedgrid": fedgrid.__version__,
        "reference": cell.row.component.reference,
        "model_reference": cell.model.reference,
        "score": computed.method.score,
        "status": outcome.status,
        "rounds": outcome.progress.rounds,
        "data": cell.partition.data.title,
        "images": {name: images[name] for name in ("shape", "mean", "std", "scale", "dtype", "kind") if name in images},
        "classes": images["classes"],
        "texts": _about_texts(images, network),
        **({"frozen": frozen} if frozen else {}),
        "dtype": cell.spec["training"]["dtype"],
    }


def _is_pretrained(cell: Cell) -> bool:
    """Whether the model of a cell is a network of timm that starts from given weights."""
    return bool(description("models", cell.model.reference)["facts"].get("pretrained"))


def _frozen(cell: Cell, network: Network) -> list[str]:
    """Digests of what is constant in a network that starts from given weights; of others nothing is."""
    if not _is_pretrained(cell):
        return []
    from fedgrid.models.common.partly_trained import digests  # no module of a cell that its key does not cover

    return digests(network.modules.values())


def _about_texts(facts: Mapping[str, Any], network: Network) -> dict[str, Any] | None:
    """How long texts are, in captions and words, and their vocabulary, where a network takes any."""
    if not (network.textual or network.modalities):
        return None
    return {"captions": facts.get("captions", [1, facts["shape"][1]]), "vocabulary": facts["vocabulary"]}


def _watch(cell: Cell) -> AbstractContextManager[Watch | None]:
    """Watches code outside the package, so that what the key does not cover is refused before there are results."""
    watch: Watch | None = None
    for kind, (module, file) in _components(cell).items():
        if file and watch:
            watch.cover(module, file, kind)
        elif file:
            watch = Watch(module, file, kind)
    return watch or nullcontext()


def _components(cell: Cell) -> dict[str, tuple[str, Path | None]]:
    """Module of the method and the model, and the file of one outside the package: in the code that the run keeps."""
    references = {"methods": cell.row.component.reference, "models": cell.model.reference}
    return {kind: locate(kind, reference)[1:] for kind, reference in references.items()}


def _checked_code(cell: Cell, method: type[Method] | None = None) -> dict[str, str]:
    """The modules that the key covers; UserError where one, or what the class `method` reads, is not as planned."""
    (module, file), (model, of_model) = _components(cell).values()
    with reading_again():
        counted = modules_of_cell(module, str(file) if file else None, model, str(of_model) if of_model else None)
    if digest(counted) != cell.code:
        raise UserError("the code has been edited since this cell was planned; run the same command again")
    if method and file:
        check_files(method, module, file)
    return counted


def _check_weights(cell: Cell) -> None:
    """Raises UserError where the model's file of weights is not as planned."""
    if cell.model.weights:
        file = Path(cell.model.settings["weights"]).expanduser()
        with reading_again():
            if file_digest(file) != cell.model.weights:
                raise UserError(f"{file} has been edited since this cell was planned; run the same command again")


def _metadata(cell: Cell, machine: Platform, counted: dict[str, str], computed: Computed) -> CellMetadata:
    simulation, outcome = computed.simulation, computed.outcome
    progress = outcome.progress
    # summed over all attempts of a cell that was interrupted; starting and loading are not part of it
    seconds = Seconds(sum(progress.seconds.values()), **progress.seconds, phases=progress.phases)
    return CellMetadata(
        **_identity(cell, counted),
        status=outcome.status,
        reason=outcome.reason,
        score=computed.method.score,
        sizes=_sizes(simulation.model),
        rounds=progress.rounds,
        reads=sorted(progress.reads),
        costs=Costs(seconds, peak_memory(), devices.peak_memory(simulation.device)),
        clock=dict(zip(PARTS, map(list, zip(*progress.clock, strict=True)), strict=False)),
        versions=machine.versions,
        hardware=machine.hardware | {"executor": type(simulation.executor).__name__.lower()},
        finished=datetime.now(UTC).isoformat(timespec="seconds"),
        state=KeptState(**asdict(outcome.state)) if outcome.state else None,
        continued=continued(cell, progress.continued) if progress.continued else None,
    )


def _identity(cell: Cell, counted: dict[str, str]) -> dict[str, Any]:
    return {"key": cell.key, "spec": cell.spec, "code": cell.code, "modules": counted}


def _sizes(network: Network) -> Sizes:
    """Parameters of both parts of a network (of all its extractors), its features and its classes."""
    parameters = dict.fromkeys(PARTS_OF_MODEL, 0)
    for part, module in network.modules.items():
        parameters[part.partition(".")[0]] += sum(t.numel() for t in module.parameters())
    return Sizes(**parameters, features=network.width, classes=network.classes)


def _has_intact_results(cell: Cell, out: Path) -> bool:
    """Whether a cell is finished, and its results and what is kept beside them are as they were written."""
    try:
        if not is_finished(cell, out):
            return False
        read_table(out)
        for kind, file in cell.kept_beside(out).items():
            _check_artifact(kind, file)
    except UserError as error:
        if out == cell.file or isinstance(error, Damaged):  # a file of the store is made again
            return False
        raise
    return True


def _check_artifact(kind: str, file: Path) -> None:
    """Raises Damaged where an artifact is not what was written."""
    if kind == "models":
        models_file.read(file).check()
    elif kind != "state":
        read_table(file)
    elif not same_states(file, file):  # as it is where a state is damaged
        raise Damaged(file, "not what was written")


def run(file: Path, key: str, out: Path | None) -> int:
    """Trains a cell of the plan in `file`; returns the exit code, and notes in the store how it ended.

    With `out`, for somebody who waits for these results: progress goes to standard error, and why there are none is
    noted alone. Raises the interruption of a signal once that is noted.
    """
    try:
        planned = plan_file.read(file)
    except UserError as error:
        return complain(error)
    cell = planned.study.known[key]
    status = Status(cell.status, cell.row.training.rounds)
    try:
        with noted(status, [cell.row.component.reference, cell.model.reference]):
            remark = _obtain_results(cell, planned, status, out)
    except (UserError, OSError) as error:
        return 2 if out else complain(error)
    if not out:
        say(remark, sys.stdout)
    return 0


def _obtain_results(cell: Cell, planned: plan_file.Plan, status: Status, chosen: Path | None) -> str:
    """Has the results of a cell in the `chosen` file, or in the store; says where they come from."""
    out, rounds = chosen or cell.file, cell.row.training.rounds
    checkpoint = cell.checkpoint if out == cell.file else out.with_name(f"{out.name}.checkpoint")
    if _has_intact_results(cell, out):  # by a process that outlived an earlier run
        ignore_signals()
        _remove_checkpoints(cell, checkpoint)
        return "already finished by a process of an earlier run"
    if not planned.from_nothing and (longer := longer_run(cell)):
        ignore_signals()
        take(cell, out, longer)
        _remove_checkpoints(cell, checkpoint)
        return f"took the first {rounds} rounds of {longer.file}"
    status.running()
    if not planned.study.downloads:
        os.environ["HF_HUB_OFFLINE"] = "1"  # a model's weights then come from where an earlier download left them
    settings, start = planned.study.compute, None if planned.from_nothing else origin(cell, out)
    saving = Saving(checkpoint, cell.key, settings.checkpoint_every, start)
    about = description("methods", cell.row.component.reference)["facts"] if chosen else {"score": "received"}
    title, stream = (cell.row.title, sys.stderr) if chosen else ("", sys.stdout)
    with Report(title, rounds, about["score"], stream) as report:

        def tell(progress: Progress, remark: str) -> None:
            report.tell(progress, remark)
            status.running(progress.rounds, sum(progress.seconds.values()))

        outcome = train(cell, out, settings, saving, tell, planned.commit)
    return f"{outcome.status} {outcome.reason}".strip()


@job("fedgrid.jobs.cell")
def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 2 and one sentence for a user's mistake, which with OUT is only noted, and 75 after a signal."""
    parser = plan_parser("fedgrid.jobs.cell", "Train a cell.")
    parser.add_argument("key", metavar="KEY", help="of the cell")
    parser.add_argument("--out", type=Path, help="the file of its results, for somebody who waits for them")
    arguments = parser.parse_args(argv)
    code = heeding_signals(lambda: run(**vars(arguments)))
    if code == TERMINATED and not arguments.out:
        say("interrupted; run the same command to continue", sys.stdout)
    return code


if __name__ == "__main__":
    sys.exit(main())
