"""What every method does: it trains in every edge case, draws nothing of its own, resumes, and has its identities."""

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from fedgrid.engine.federation.method import Identity, Method
from fedgrid.engine.federation.participation import everyone
from fedgrid.engine.federation.simulation import Simulation
from fedgrid.engine.local.executor import Diverged
from fedgrid.engine.rounds import federate
from fedgrid.engine.state.checkpoint import Progress, load_checkpoint
from fedgrid.engine.state.saving import Saving
from fedgrid.engine.state.state import State
from fedgrid.suite import simulations
from fedgrid.suite.expectations import (
    CALLS,
    CLIENTS,
    IDENTITIES,
    NOT_SCORED,
    STATE,
    Unmet,
    check,
    expect,
    expect_same,
    final_progress,
)
from fedgrid.tree import Tree

FEW = pytest.mark.representatives
RANDOM = (
    "random draws come from fed.random(purpose) and at.uniform(purpose, like=x) alone, and order from lists, not sets"
)
KEEP = "keep all that lasts between rounds in the State, not in the method, its module or the federation"
LEAST_GAIN = 0.2
KEPT = 0.75, 1.5
"The norm of a parameter after a round in which next to nothing is learnt, as a share of that before it."


def four_rounds(participation: float = 1.0) -> Simulation:
    """Unequal clients with one to three batches."""
    return simulations.ragged(rounds=4, eval_every=2, batch_size=8, participation=participation)


@cache
def undisturbed(method_name: str, participation: float = 1.0) -> Progress:
    """The run that several tests look at."""
    return run(method_name, four_rounds(participation))


def run(method_name: str, simulation: Simulation) -> Progress:
    """The progress after all rounds; NotFinite where a number was NaN or infinite."""
    return final_progress(simulations.run(method_name, simulation, **simulations.brief(method_name)))


@pytest.mark.representatives
@check("four rounds run, and their numbers stay finite", CALLS, always=True)
def test_four_rounds_stay_finite(method_name: str) -> None:
    """Before all that judge numbers: they cannot judge what is not finite, and have no reason of their own."""
    method, simulation = simulations.method(method_name, **simulations.brief(method_name)), four_rounds()
    state = method.setup(everyone(simulation, 0))
    check_start(state, simulation.data.clients)
    with suppress(Diverged):  # the run itself tells where
        check_returned(simulations.returned(method, simulation, 0, state)[1])
    undisturbed(method_name)


@check("a round returns a state of the same form, and changes nothing in place", STATE)
def test_a_round_returns_a_state_of_the_same_form(method_name: str) -> None:
    method = simulations.method(method_name, **simulations.brief(method_name))
    simulation = simulations.ragged(participation=0.5, batch_size=8)
    state = method.setup(everyone(simulation, 0))
    check_start(state, simulation.data.clients)
    for number in range(2):
        before = {name: tensor.clone() for name, tensor in simulations.entries(simulations.state_tree(state))}
        ids, after = simulations.returned(method, simulation, number, state)
        check_returned(after)
        for name, tensor in simulations.entries(simulations.state_tree(state)):
            same = torch.equal(tensor.nan_to_num(), before[name].nan_to_num())
            expect(same, f"`round` changed {name} in place; return another tensor with s.update(…)")
        check_form(simulations.state_tree(state), simulations.state_tree(after), len(ids), simulation.data.clients)
        for part in ("s.clients", "trained"):
            stacks: Mapping[str, Any] = after.clients if part == "s.clients" else after.trained or {}
            for name, tensor in simulations.entries(stacks, part):
                expect(len(tensor) == len(ids), f"{name} has {len(tensor)} rows for {len(ids)} participants")
        state = state.scatter(ids, after)


@check("means are those of the participants, not of all clients", CALLS)
def test_models_keep_their_size_where_some_take_part(method_name: str) -> None:
    """At a tiny rate models stay as they are, unless a sum over participants is divided by another number."""
    method = simulations.method(method_name, **simulations.brief(method_name))
    simulation = simulations.ragged(participation=0.5, batch_size=8, lr=1e-6)
    start = method.setup(everyone(simulation, 0))
    ids, end = simulations.one_round(method, simulation, 0, start)
    before, after = (_norms(method, simulation, state, ids) for state in (start, end))
    for name, norm in before.items():
        share, rule = after[name] / norm, f"{len(ids)} of {simulation.data.clients} clients took part at a tiny rate"
        changed = f"{rule}, and {name} has {share:.2f} times its norm; fed.average(…) is the participants' mean"
        expect(KEPT[0] < share < KEPT[1], changed)


def _norms(method: Method, simulation: Simulation, state: State, ids: Tensor) -> dict[str, float]:
    """By parameter, the norm over the models that clients `ids` use; none of parameters that are zero."""
    with torch.no_grad():
        models = method.used(everyone(simulation, 1, state), state)
    norms = {name: float(t[ids].norm()) for name, t in simulations.entries(models or {}) if t.is_floating_point()}
    return {name: norm for name, norm in norms.items() if norm}


def check_start(state: State, clients: int) -> None:
    """What `setup` returned is a state, with a row for each client in every entry of `s.clients`."""
    expect(isinstance(state, State), f"`setup` returned {state!r:.40}, not a State")
    for name, tensor in simulations.entries(state.clients, "s.clients"):
        rows = len(tensor) if tensor.dim() else 1
        problem = f"`setup` gives {name} {rows} rows for {clients} clients; fed.replicate(…) makes one for each"
        expect(rows == clients, problem)


def check_returned(after: object) -> None:
    """What `round` returned is a state."""
    expect(isinstance(after, State), f"`round` returned {after!r:.40}, not a State; end it with return s.update(…)")


def check_form(before: dict[str, Any], after: dict[str, Any], participants: int, clients: int) -> None:
    """The second state has no other entries than the first, of the same types, and on the server no stacks of them."""
    first, second = dict(simulations.entries(before)), dict(simulations.entries(after))
    new = sorted(second.keys() - first.keys())
    expect(not new, f"`round` added {', '.join(new)}; `setup` gives every entry its first value")
    for name, tensor in second.items():
        types = f"{name} is {first[name].dtype} after `setup` and {tensor.dtype} after a round"
        expect(tensor.dtype == first[name].dtype, f"{types}; make tensors of the type that θ has")
        by_client = name.startswith("s.server") and first[name].shape[:1] == (clients,)
        lost = by_client and tensor.shape == (participants, *first[name].shape[1:])
        advice = "in a round some clients take part, and what belongs to each is kept by clients={…}"
        expect(not lost, f"{name} has {clients} rows after `setup` and {participants} after a round; {advice}")
        is_stack = name.startswith("s.server") and tensor.shape == (participants, *first[name].shape)
        expect(not is_stack, f"`round` puts a stack of {participants} into {name}; fed.average(…) makes one of them")


@pytest.mark.parametrize("edge", [*simulations.HARDEST, *(pytest.param(e, marks=FEW) for e in simulations.OTHERS)])
@check("it trains and is scored", CALLS)
def test_edge(method_name: str, edge: str) -> None:
    simulation = simulations.edge(edge)
    progress = run(method_name, simulation)
    done, rounds = progress.rounds, simulation.training.rounds
    expect(done == rounds, f"{rounds} rounds were to be run, and {done} were")
    check_scores(simulation, progress)
    for name, tensor in simulations.entries(progress.state.server, "s.server"):
        sentence = f"{name} holds NaN or infinite numbers after the last round; guard divisions by 0 and logarithms"
        expect(not tensor.is_floating_point() or bool(torch.isfinite(tensor).all()), sentence)


def check_scores(simulation: Simulation, progress: Progress) -> None:
    """Whoever has training and test images is scored at the end; scores are finite, accuracies from 0 to 1."""
    train, test = simulation.data.train, simulation.data.test
    tested = {client for client in simulation.scored.tolist() if len(train[client]) and len(test[client])}
    scored = [set(clients) for _, metric, clients, _ in progress.record.rows if metric == "accuracy_received"]
    rule = f"every client with training and test images is scored ({_listed(tested)})"
    expect(bool(scored), NOT_SCORED)
    expect(scored[-1] == tested, f"{rule}, but {_listed(scored[-1])} were; `received` returns a row for every client")
    for round_, metric, _, values in progress.record.rows:
        finite = all(math.isfinite(value) for value in values)
        expect(finite, f"{metric} of round {round_} is not finite; `predict` has to give finite scores")
        fraction = not metric.startswith("accuracy") or all(0 <= value <= 1 for value in values)
        expect(fraction, f"{metric} of round {round_} is not between 0 and 1")


def _listed(clients: set[int]) -> str:
    return f"clients {', '.join(map(str, sorted(clients)))}" if clients else "no client"


@pytest.mark.representatives
@check("two runs with the same seed are equal", CLIENTS, always=True)
def test_two_runs_are_equal(method_name: str) -> None:
    first, second = undisturbed(method_name), run(method_name, four_rounds())
    check_equal(first, second, f"two runs with the same seed have to agree bit for bit ({RANDOM})")


def check_equal(first: Progress, second: Progress, rule: str) -> None:
    """Both recorded the same numbers and ended in the same state; `rule` begins the sentence."""
    difference = _rows_difference(first.record.rows, second.record.rows)
    expect(not difference, f"{rule}, but {difference}")
    expect_same(simulations.state_tree(first.state), simulations.state_tree(second.state), rule)


def _rows_difference(first: simulations.Rows, second: simulations.Rows) -> str:
    """The first of the recorded numbers in which two runs differ, in words; empty where they do not."""
    for one, other in zip(first, second, strict=False):
        if one != other:
            return f"{one[1]} of round {one[0]} is {_numbers(one[3])} in one and {_numbers(other[3])} in the other"
    return "" if len(first) == len(second) else f"one recorded {len(first)} metrics, the other {len(second)}"


def _numbers(values: list[float], most: int = 5) -> str:
    return ", ".join(f"{value:.6g}" for value in values[:most]) + (", …" if len(values) > most else "")


@check("another seed gives other numbers", CLIENTS)
def test_a_seed_changes_the_result(method_name: str) -> None:
    by_seed = [simulations.ragged(rounds=1, batch_size=8, seed=seed) for seed in (0, 1)]
    first, second = (run(method_name, simulation).record.rows for simulation in by_seed)
    rule = "two seeds have other initial models and orders of batches, but recorded the same numbers"
    expect(first != second, f"{rule}; start from fed.initial() and train with fed.train or fed.iterate")


@pytest.mark.parametrize("participation", [0.5, pytest.param(1.0, marks=FEW)], ids=["some take part", "all take part"])
@check("a run that is killed in every round and resumed is the undisturbed one", STATE)
def test_a_run_that_is_killed_in_every_round_is_the_undisturbed_one(
    method_name: str, tmp_path: Path, participation: float
) -> None:
    """In every round but the first, when the one before it is saved; whoever goes on knows nothing but the file."""
    saving, whole = Saving(tmp_path / "cell.checkpoint", "key", every=0.0), undisturbed(method_name, participation)

    def attempt(tell: Any = None) -> Progress:
        method = simulations.method(method_name, **simulations.brief(method_name))
        return federate(method, four_rounds(participation), saving, tell).progress

    for number in (2, 3, 4):

        def kill(progress: Progress, remark: str, number: int = number) -> None:
            if progress.rounds == number:
                raise simulations.Killed

        with pytest.raises(simulations.Killed):
            attempt(kill)
        kept, _ = load_checkpoint(saving.file, "key", torch.device("cpu"))
        assert kept is not None and kept.rounds == number - 1
    rule = "a run that is killed and resumed has to agree with an undisturbed one"
    check_equal(attempt(), whole, f"{rule} ({KEEP})")


@check("it equals other methods in the limiting cases that it names", IDENTITIES)
def test_identities(method_name: str) -> None:
    cls = simulations.method_class(method_name)
    for identity in cls.identities:
        check_identity(cls, identity)


def check_identity(cls: type[Method], identity: Identity) -> None:
    """Both methods end with the same models, bit for bit or to rounding."""
    training: dict[str, Any] = {"batch_size": 8, "dtype": "float32" if identity.exact else "float64"}
    simulation = simulations.ragged(identity.clients, **training | dict(identity.training))
    stated = words_of(identity)
    ours = models(_made(cls, identity.settings, stated), simulation, identity.models, stated)
    other = _made(simulations.method_class(identity.other), identity.other_settings, stated)
    theirs = models(other, simulation, identity.models, stated)
    tolerance = 0.0 if identity.exact else 1e-10
    difference = simulations.difference(ours, theirs, simulations.by_more_than(tolerance, tolerance))
    if not difference:
        return
    rounding = not simulations.difference(ours, theirs, simulations.by_more_than(1e-5, 1e-5))
    exactly = "bit for bit" if identity.exact else "up to the rounding of float64"
    hint = "; that may be rounding: if the two add in another order, state exact=False" * (rounding and identity.exact)
    which = {"used": "that clients use", "trained": "after local training", "global": "of the servers"}[identity.models]
    raise Unmet(f"{stated} says that the models {which} are equal {exactly}, but {difference}{hint}")


def words_of(identity: Identity) -> str:
    """The identity as its file states it, as far as a reader needs it to find it."""
    changes = f", {dict(identity.settings)}" if identity.settings else ""
    models_ = f", models={identity.models!r}" if identity.models != "used" else ""
    return f"Identity({identity.other!r}{changes}{models_})"


def _made(cls: type[Method], settings: Mapping[str, Any], stated: str) -> Method:
    unknown = sorted(settings.keys() - {field.name for field in fields(cls)})
    expect(not unknown, f"{stated} sets {', '.join(unknown)}, which {cls.__name__} does not have")
    return cls(**settings)


def models(method: Method, simulation: Simulation, kind: str, stated: str) -> Tree:
    """The models that `method` ends with: those that clients use, the global one, or those that were trained last."""
    states: list[Any] = [None]
    outcome = federate(method, simulation, tell=lambda progress, _: states.append(progress.state))
    state = final_progress(outcome).state
    name = type(method).__name__
    if kind == "global":
        return _present(method.global_model(state), f"{stated}: {name} has no global model", "used")
    with torch.no_grad():
        if kind == "trained":
            last = simulations.one_round(method, simulation, simulation.training.rounds - 1, states[-2])[1]
            return _present(last.trained, f"{stated}: {name} returns a state without trained=", "used")
        used = method.used(everyone(simulation, simulation.training.rounds, state), state)
    return _present(used, f"{stated}: {name} has no model that clients use", "trained")


def _present(models: Tree | None, problem: str, instead: str) -> Tree:
    if models is None:
        raise Unmet(f"{problem}; compare other models, such as models='{instead}'")
    return models


@pytest.mark.representatives
@check("it learns ten images by heart", CALLS, always=True)
def test_it_learns(method_name: str) -> None:
    """One client with ten images: whatever a method does, the model that it uses gets better on them."""
    simulation = simulations.simulation([simulations.draw(range(10))], batch_size=10, rounds=75, lr=0.13, eval_every=75)
    settings = simulations.brief(method_name, simulations.THOROUGH)
    rows = final_progress(simulations.run(method_name, simulation, **settings)).record.rows
    used = "accuracy_adapted" if any(metric == "accuracy_adapted" for _, metric, *_ in rows) else "accuracy_received"
    gained = [values[0] for _, metric, _, values in rows if metric == used]
    expect(bool(gained), NOT_SCORED)
    first, *_, last = gained
    rule = f"one client with ten images, one of each class, has to gain more than {LEAST_GAIN:.0%} on them in 75 rounds"
    advice = "is what was trained also what `received` or `adapted` returns?"
    expect(last > first + LEAST_GAIN, f"{rule}, but {used} went from {first:.0%} to {last:.0%}; {advice}")
