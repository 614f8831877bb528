"""The rounds of one cell: participation, the method's round, accounting, evaluation, checkpoints."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from fedgrid.engine.evaluation import RoundScores, evaluate, sizes
from fedgrid.engine.federation.failures import failures, started, stragglers
from fedgrid.engine.federation.federation import Federation
from fedgrid.engine.federation.method import Method
from fedgrid.engine.federation.modalities import apart, round_of, views
from fedgrid.engine.federation.participation import (
    NEW,
    SAMPLE,
    drawn,
    everyone,
    in_parts,
    is_evaluated,
    on_device,
    scored,
)
from fedgrid.engine.federation.simulation import Simulation
from fedgrid.engine.federation.traffic import Traffic
from fedgrid.engine.final_models import LastRound
from fedgrid.engine.local.attacks import attacked_in, of_evaluation
from fedgrid.engine.local.devices import fetched
from fedgrid.engine.local.executor import Diverged
from fedgrid.engine.state.checkpoint import (
    Progress,
    Record,
    load_checkpoint,
    rows_of,
    save_checkpoint,
)
from fedgrid.engine.state.kept_state import load_state, save_state
from fedgrid.engine.state.population import Population
from fedgrid.engine.state.saving import KeptState, Saving, Terminated
from fedgrid.engine.state.state import State
from fedgrid.errors import UserError
from fedgrid.settings import aggregation_problem, averages_missing, krum_problem
from fedgrid.tree import Tree, all_finite

PARTS = ("train", "server", "evaluate")
"What the seconds of a cell are split into: work of clients in a round, the rest of the round, evaluation."
MOST_NUMBERS = 2**25
"In the matrices between clients that a cell may keep: 256 MiB, which stay in memory and are in every checkpoint."


@dataclass(frozen=True)
class Outcome:
    """The end of a cell: ``ok``, or ``diverged`` with the reason and the results so far."""

    progress: Progress
    status: str = "ok"
    reason: str = ""
    last: LastRound | None = None
    "What only the last round has, if it was done."
    state: KeptState | None = None


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
    _check_malicious(method, simulation)
    cooperates = type(method).cooperation is not Method.cooperation
    report, method = tell or (lambda progress, remark: None), apart(method, simulation)
    clock, last, state = time.monotonic(), None, None
    simulation.reads.clear()
    progress, remark = _resumed(saving, simulation, matrices) if saving else (None, "")
    if progress is None:
        population = _setup(method, simulation, rows_of(saving.file) if saving else None, matrices and cooperates)
        progress = _first(population, matrices)
    report(progress, remark)
    try:
        if not progress.record.rows:
            _record_start(method, simulation, progress)
        while progress.rounds < simulation.training.rounds:
            if saving and saving.state and progress.rounds == simulation.training.rounds - 1:
                state = _keep(progress, saving.state, saving.key, simulation)
            progress, last = _round(method, simulation, progress)
            report(progress, "")
            if saving and time.monotonic() - clock >= saving.every and progress.rounds < simulation.training.rounds:
                save_checkpoint(saving.file, saving.key, progress)
                clock = time.monotonic()
    except Diverged as error:
        if saving and saving.state and state is None:
            state = _keep(progress, saving.state, saving.key, simulation)
        return Outcome(progress, "diverged", str(error), last, state)
    except (Terminated, KeyboardInterrupt):
        if saving and progress.rounds:
            save_checkpoint(saving.file, saving.key, progress)
            report(progress, f"broken off: the checkpoint {saving.file} holds {progress.rounds} rounds")
        raise
    return Outcome(progress, last=last, state=state)


def _check_malicious(method: Method, simulation: Simulation) -> None:
    """Raises UserError where the method or the number of participants is not one for the attack or the aggregation."""
    training, members = simulation.training, len(simulation.members)
    problems = [aggregation_problem(training), krum_problem(training, training.participants(members))]
    if not method.averages_uploads:
        problems.append(averages_missing(training, method.title or type(method).__name__))
    for problem in filter(None, problems):
        raise UserError(problem)


def _resumed(saving: Saving, simulation: Simulation, matrices: bool) -> tuple[Progress | None, str]:
    """The progress of a checkpoint or, without one, of the state to start from; None where there is neither."""
    progress, remark = load_checkpoint(saving.file, saving.key, simulation.device, matrices)
    if progress is None and saving.origin:
        origin, rounds, rows_file = saving.origin, simulation.training.rounds, rows_of(saving.file)
        progress, remark = load_state(origin.file, origin.key, rounds, rows_file, simulation.device, matrices)
    if progress:
        simulation.reads.update(progress.reads)
        progress.record = _due(progress.record, simulation)
    return progress, remark


def _due(record: Record, simulation: Simulation) -> Record:
    """What this run records of these rounds: under attack, a shorter one scores earlier rounds."""
    training = simulation.training
    attacks = tuple(f"{name}_" for name in of_evaluation(training, simulation.data.colour))
    return Record(
        [
            row
            for row in record.rows
            if attacked_in(training, row[0]) or not row[1].removeprefix(SAMPLE).startswith(attacks)
        ]
    )


def _keep(progress: Progress, file: Path, key: str, simulation: Simulation) -> KeptState:
    """Keeps a state of the cell `key` in `file`."""
    save_state(file, key, replace(progress, reads=frozenset(simulation.reads)), simulation.training.rounds)
    return KeptState(progress.rounds, tuple(sorted(simulation.reads)))


def _first(population: Population, matrices: bool) -> Progress:
    """A cell before its first round."""
    return Progress(population, Record(), dict.fromkeys(PARTS, 0.0), 0, [] if matrices else None)


def _setup(method: Method, simulation: Simulation, file: Path | None, matrices: bool) -> Population:
    """All clients before the first round; `file` is for rows that have no room in memory."""
    if matrices:
        _check_matrices(1, simulation)  # before a setup that may itself make matrices
    state = method.setup(everyone(simulation, 0))
    if matrices:
        _check_matrices(len(method.cooperation(State(state.server))), simulation)
    return Population.of(state, simulation.data.clients, file)


def _check_matrices(matrices: int, simulation: Simulation) -> None:
    """Raises UserError where so many matrices after each evaluated round are too many numbers to keep."""
    training, clients = simulation.training, simulation.data.clients
    evaluated = sum(is_evaluated(training, done) for done in range(1, training.rounds + 1))
    numbers = matrices * clients**2 * evaluated
    if numbers > MOST_NUMBERS:
        raise UserError(
            f"artifacts: 'cooperation' would store {numbers:,} numbers or more ({8 * numbers / 2**30:.2f} GiB; "
            f"clients: {clients:,}; evaluated rounds: {evaluated:,}), and at most {MOST_NUMBERS:,} are kept; leave "
            "'cooperation' out, or choose fewer clients or a larger training.eval_every"
        )


def _record_start(method: Method, simulation: Simulation, progress: Progress) -> None:
    for metric, values in sizes(simulation).items():
        progress.record.add(0, metric, range(simulation.data.clients), values)
    if simulation.malicious:
        progress.record.add(0, "malicious", sorted(simulation.malicious), torch.ones(len(simulation.malicious)))
    with _timed(progress.seconds, "evaluate"):
        _score(method, simulation, 0, progress.population, progress.record)


def _round(method: Method, simulation: Simulation, before: Progress) -> tuple[Progress, LastRound]:
    """One round; `before` stays as it is, so that a round that is broken off leaves no trace."""
    clients, done = started(simulation, drawn(simulation, before.rounds), before.rounds), before.rounds + 1
    ids, traffic = on_device(clients, simulation), Traffic.none(simulation.data.clients, simulation.device)
    seconds, phases, record, matrices = dict(before.seconds), dict(before.phases), before.record.copy(), before.matrices
    on_clients = simulation.executor.seconds
    with _timed(seconds, "server"):
        work, seen = stragglers(simulation, clients, before.rounds), before.population.gather(clients)
        fed = Federation(simulation, ids, before.rounds, traffic, seen, phases, work)
        state = round_of(method, fed) if fed.size else seen
        population = before.population.scatter(clients, seen, state) if fed.size else before.population
        if not all_finite(state.server):
            raise Diverged(before.rounds, "the server's state")
    on_clients = simulation.executor.seconds - on_clients
    seconds["server"] -= on_clients
    seconds["train"] += on_clients
    round_metrics = {"bytes_up": traffic.up[ids], "bytes_down": traffic.down[ids]} | failures(fed) | state.quantities
    for name, values in zip(round_metrics, fetched(list(round_metrics.values())), strict=True):
        record.add(done, name, clients.tolist(), values)
    with _timed(seconds, "evaluate"):
        try:
            _score(method, simulation, done, population, record, fed, state.trained)
            if done == simulation.training.rounds and simulation.new_clients:
                _score_new(method, simulation, done, population, record)
        except Diverged as error:
            raise Diverged(before.rounds, f"{error.what}, in the evaluation,") from error
    if matrices is not None and is_evaluated(simulation.training, done):
        after_round = method.cooperation(State(population.server)).items()
        matrices = matrices + [(done, name, matrix.cpu()) for name, matrix in after_round]
    reads, clock = frozenset(simulation.reads), (*before.clock, tuple(seconds[part] for part in PARTS))
    after = Progress(population, record, seconds, done, matrices, phases, reads, clock, before.continued)
    return after, LastRound(fed, state.trained)


def _score(
    method: Method,
    simulation: Simulation,
    done: int,
    population: Population,
    record: Record,
    fed: Federation | None = None,
    trained: Tree | None = None,
) -> None:
    """Records the scores that are due after so many rounds, in the last of which `fed` took part."""
    clients, prefix = scored(simulation, done)
    scores = RoundScores()
    for part in in_parts(simulation, done, clients, population):
        for view in views(method, part, fed, trained):
            evaluate(*view, scores)
    for metric, numbers, values in scores.entries():
        record.add(done, prefix + metric, numbers, values)


def _score_new(method: Method, simulation: Simulation, done: int, population: Population, record: Record) -> None:
    """Records the scores of new clients: as they join after the last round, and after local training in it."""
    new, scores = np.array(sorted(simulation.new_clients)), RoundScores()
    for part in in_parts(simulation, done, new, population):
        joining = replace(part, round=done - 1)
        trained = round_of(method, joining).trained
        for view in views(method, part, joining, trained):
            evaluate(*view, scores)
    for metric, numbers, values in scores.entries():
        record.add(done, NEW + metric, numbers, values)


@contextmanager
def _timed(seconds: dict[str, float], name: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    seconds[name] += time.perf_counter() - start
