"""The rounds of one cell: participation, the method's round, accounting, evaluation, checkpoints."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from fedgrid.engine.evaluation import evaluate, sizes
from fedgrid.engine.executor import Diverged
from fedgrid.engine.federation import Federation
from fedgrid.engine.method import Method
from fedgrid.engine.modalities import apart, views
from fedgrid.engine.progress import Progress, Record, load_checkpoint, save_checkpoint
from fedgrid.engine.simulation import Simulation
from fedgrid.engine.state import State
from fedgrid.engine.traffic import Traffic
from fedgrid.errors import UserError
from fedgrid.randomness import generator
from fedgrid.tree import leaves

PARTS = ("train", "server", "evaluate")
"What the seconds of a cell are split into: work of clients in a round, the rest of the round, evaluation."


class Terminated(BaseException):
    """The process was asked to end (SIGTERM), by a scheduler whose time limit is near, say."""


@dataclass(frozen=True)
class Saving:
    """Where and how often a cell is saved; `every` is in seconds."""

    file: Path
    key: str
    every: float


@dataclass(frozen=True)
class Outcome:
    """The end of a cell: ``ok``, or ``diverged`` with the reason and the results so far."""

    progress: Progress
    status: str = "ok"
    reason: str = ""


@torch.no_grad()
def federate(
    method: Method,
    simulation: Simulation,
    saving: Saving | None = None,
    tell: Callable[[Progress, str], None] | None = None,
    matrices: bool = False,
) -> Outcome:
    """Runs all rounds, from a checkpoint where there is one; `tell` is called with a remark or after each round.

    `matrices`: what `Method.cooperation` gives is kept after every evaluated round.
    """
    report, method = tell or (lambda progress, remark: None), apart(method, simulation)
    clock = time.monotonic()
    progress, remark = load_checkpoint(saving.file, saving.key, simulation.device, matrices) if saving else (None, "")
    if progress is None:
        start, seconds = everyone(simulation, 0), dict.fromkeys(PARTS, 0.0)
        progress = Progress(method.setup(start), Record(), seconds, 0, [] if matrices else None)
    report(progress, remark)
    try:
        if progress.rounds == 0:
            _record_start(method, simulation, progress)
        while progress.rounds < simulation.training.rounds:
            progress = _round(method, simulation, progress)
            report(progress, "")
            if saving and time.monotonic() - clock >= saving.every and progress.rounds < simulation.training.rounds:
                save_checkpoint(saving.file, saving.key, progress)
                clock = time.monotonic()
    except Diverged as error:
        return Outcome(progress, "diverged", str(error))
    except (Terminated, KeyboardInterrupt):
        if saving and progress.rounds:
            save_checkpoint(saving.file, saving.key, progress)
            report(progress, f"broken off: the checkpoint {saving.file} holds {progress.rounds} rounds")
        raise
    return Outcome(progress)


def participants(simulation: Simulation, round_: int) -> Tensor:
    """Ascending numbers of the clients that take part in a round; a client without training images never does."""
    able = [client for client, index in enumerate(simulation.data.train) if len(index)]
    if not able:
        raise UserError("partition: no client has a training image")
    count = max(1, math.floor(simulation.training.participation * len(able) + 1e-9))  # 0.29 of 100 are 29, not 28.99…
    drawn = generator("participation", simulation.seed, round_).permutation(len(able))[:count]
    return torch.tensor(sorted(able[position] for position in drawn), device=simulation.device)


def everyone(simulation: Simulation, round_: int, state: State | None = None) -> Federation:
    """All clients, between rounds.

    What is sent there is not counted: the next round counts it for those who take part, and who sits it out is sent
    nothing in truth, only scored as if.
    """
    clients, device = simulation.data.clients, simulation.device
    ids, traffic = torch.arange(clients, device=device), Traffic.none(clients, device)
    return Federation(simulation, ids, round_, traffic, state or State())


def _record_start(method: Method, simulation: Simulation, progress: Progress) -> None:
    for metric, values in sizes(simulation).items():
        progress.record.add(0, metric, range(simulation.data.clients), values)
    with _timed(progress.seconds, "evaluate"):
        for view in views(method, everyone(simulation, 0, progress.state), None, None):
            evaluate(*view, _recorder(progress.record, 0))


def _round(method: Method, simulation: Simulation, before: Progress) -> Progress:
    """One round; `before` stays as it is, so that a round that is broken off leaves no trace."""
    ids, done = participants(simulation, before.rounds), before.rounds + 1
    traffic = Traffic.none(simulation.data.clients, simulation.device)
    seconds, phases, record, matrices = dict(before.seconds), dict(before.phases), before.record.copy(), before.matrices
    fed = Federation(simulation, ids, before.rounds, traffic, before.state.gather(ids), phases)
    on_clients = simulation.executor.seconds
    with _timed(seconds, "server"):
        after = method.round(fed, fed.state)
        state = before.state.scatter(ids, after)
        if not all(t.isfinite().all() for t in leaves(state.server) if t.is_floating_point()):
            raise Diverged(before.rounds, "the server's state")
    on_clients = simulation.executor.seconds - on_clients
    seconds["server"] -= on_clients
    seconds["train"] += on_clients
    record.add(done, "bytes_up", ids.tolist(), traffic.up[ids])
    record.add(done, "bytes_down", ids.tolist(), traffic.down[ids])
    for name, values in after.quantities.items():
        record.add(done, name, ids.tolist(), values)
    if done % simulation.training.eval_every == 0 or done == simulation.training.rounds:
        with _timed(seconds, "evaluate"):
            try:
                for view in views(method, everyone(simulation, done, state), fed, state.trained):
                    evaluate(*view, _recorder(record, done))
            except Diverged as error:
                raise Diverged(before.rounds, f"{error.what}, in the evaluation,") from error
        if matrices is not None:
            found = method.cooperation(state).items()
            matrices = matrices + [(done, name, matrix.cpu()) for name, matrix in found]
    return Progress(State(state.server, state.clients), record, seconds, done, matrices, phases)


def _recorder(record: Record, round_: int) -> Callable[[str, list[int], Tensor], None]:
    return lambda metric, clients, values: record.add(round_, metric, clients, values)


@contextmanager
def _timed(seconds: dict[str, float], name: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    seconds[name] += time.perf_counter() - start
