"""The free suite: every method that is found passes it, or is no method."""

import ast
import dataclasses
import io
import math
import tokenize
from functools import cache
from pathlib import Path

import pytest
import simulations
import torch

from fedgrid.engine.federation.method import SCORES
from fedgrid.engine.federation.participation import everyone
from fedgrid.engine.local.executor import TrainingStats
from fedgrid.engine.local.loop import Loop
from fedgrid.engine.local.solvers import Descent
from fedgrid.engine.rounds import Saving, federate
from fedgrid.engine.state.checkpoint import load_checkpoint
from fedgrid.grid.costs.formulas import worth
from fedgrid.loading import load, locate
from fedgrid.tree import leaves

FEW = pytest.mark.representatives
LIMITS = {"fedprox": 15, "ditto": 35, "apfl": 40, "fedbabu": 40}
FORBIDDEN = (
    ".to(",
    ".cuda(",
    "manual_seed",
    "open(",
    ".step(",
    ".backward(",
    "torch.rand",
    "Generator",
    "DataLoader",
    "batches(",
)


def four_rounds(participation=1.0):
    """Unequal clients with one to three batches."""
    return simulations.ragged(rounds=4, eval_every=2, batch_size=8, participation=participation)


@cache
def undisturbed(method_name, participation=1.0):
    """What several tests look at."""
    return run(method_name, four_rounds(participation))


def run(method_name, simulation):
    """The progress after all rounds."""
    return simulations.run(method_name, simulation, **simulations.brief(method_name)).progress


@pytest.mark.parametrize("edge", [*simulations.HARDEST, *(pytest.param(e, marks=FEW) for e in simulations.OTHERS)])
def test_edge(method_name, edge):
    simulation = simulations.edge(edge)
    outcome = simulations.run(method_name, simulation, **simulations.brief(method_name))
    assert outcome.status == "ok"
    assert outcome.progress.rounds == simulation.training.rounds
    rows = outcome.progress.record.rows
    tested = {
        i
        for i, (train, test) in enumerate(zip(simulation.data.train, simulation.data.test, strict=True))
        if len(train) and len(test)
    }
    last = [set(clients) for round_, metric, clients, _ in rows if metric == "accuracy_received"][-1]
    assert last == tested
    for _, metric, _, values in rows:
        assert all(math.isfinite(value) for value in values), metric
        assert not metric.startswith("accuracy") or all(0 <= value <= 1 for value in values)
    assert all(torch.isfinite(t).all() for t in leaves(outcome.progress.state.server) if t.is_floating_point())


@pytest.mark.representatives
def test_two_runs_are_equal(method_name):
    first, second = undisturbed(method_name), run(method_name, four_rounds())
    assert first.record.rows == second.record.rows
    simulations.assert_equal_states(first.state, second.state)


def test_a_seed_changes_the_result(method_name):
    first, second = (
        run(method_name, simulations.ragged(rounds=1, batch_size=8, seed=seed)).record.rows for seed in (0, 1)
    )
    assert first != second


@pytest.mark.parametrize("participation", [0.5, pytest.param(1.0, marks=FEW)])
def test_a_run_that_is_killed_in_every_round_is_the_undisturbed_one(method_name, tmp_path, participation):
    """In every round but the first, when the one before it is saved; whoever goes on knows nothing but the file."""
    saving, whole = Saving(tmp_path / "cell.checkpoint", "key", every=0.0), undisturbed(method_name, participation)

    def attempt(tell=None):
        method = simulations.method(method_name, **simulations.brief(method_name))
        return federate(method, four_rounds(participation), saving, tell).progress

    for number in (2, 3, 4):

        def kill(progress, remark, number=number):
            if progress.rounds == number:
                raise simulations.Killed

        with pytest.raises(simulations.Killed):
            attempt(kill)
        kept, _ = load_checkpoint(saving.file, "key", torch.device("cpu"))
        assert kept.rounds == number - 1
    resumed = attempt()
    assert resumed.record.rows == whole.record.rows
    simulations.assert_equal_states(resumed.state, whole.state)


def test_identities(method_name):
    cls = load("methods", method_name)
    for identity in cls.identities:
        kind = {} if identity.exact else {"dtype": "float64"}
        simulation = simulations.ragged(identity.clients, **{"batch_size": 8} | kind | identity.training)
        ours = models(cls(**identity.settings), simulation, identity.models)
        others = models(simulations.method(identity.other, **identity.other_settings), simulation, identity.models)
        assert set(ours) == set(others)
        for name in ours:
            if identity.exact:
                assert torch.equal(ours[name], others[name]), identity
            else:
                torch.testing.assert_close(ours[name], others[name], rtol=1e-10, atol=1e-10, msg=str(identity))


def models(method, simulation, kind):
    """The models that `method` ends with: those that clients use, the global one, or those that were trained last."""
    states = [None]
    state = federate(method, simulation, tell=lambda progress, _: states.append(progress.state)).progress.state
    if kind == "global":
        return method.global_model(state)
    with torch.no_grad():
        if kind == "trained":
            return simulations.one_round(method, simulation, simulation.training.rounds - 1, states[-2])[1].trained
        return method.used(everyone(simulation, simulation.training.rounds, state), state)


@pytest.mark.representatives
def test_it_learns(method_name):
    """One client with ten images: whatever a method does, the model that it uses gets better on them."""
    simulation = simulations.simulation([simulations.draw(range(10))], batch_size=10, rounds=75, lr=0.13, eval_every=75)
    rows = simulations.run(method_name, simulation, **simulations.thorough(method_name)).progress.record.rows
    used = "accuracy_adapted" if any(metric == "accuracy_adapted" for _, metric, *_ in rows) else "accuracy_received"
    first, *_, last = [values[0] for _, metric, _, values in rows if metric == used]
    assert last > first + 0.2


def test_traffic_is_what_the_method_says(method_name):
    """Bytes of the last round, in which all classes are known, are 4 × the numbers of its formulas."""
    cls, simulation = load("methods", method_name), four_rounds()
    rows = undisturbed(method_name).record.rows
    phi, pi = (
        sum(t.numel() for t in simulation.model.initial(0).part(name).values()) for name in ("extractor", "head")
    )
    symbols = defaults(cls) | {"|θ|": phi + pi, "|φ|": phi, "|π|": pi, "k": simulation.model.width}
    assert (simulation.data.counts.sum(dim=0) > 0).all(), "this test needs a simulation with all classes"
    for way, formula in (("up", cls.up), ("down", cls.down)):
        if "M" in formula:
            continue  # vectors whose number depends on the data: test_contrast counts them
        ((_, _, clients, values),) = [row for row in rows if row[:2] == (simulation.training.rounds, f"bytes_{way}")]
        for client, value in zip(clients, values, strict=True):
            own = int((simulation.data.counts[client] > 0).sum())
            numbers = symbols | {"|C_i|": own, "C": simulation.model.classes}
            assert value == 4 * worth(formula, numbers), (way, formula)


def defaults(cls):
    """A formula may name settings."""
    return {field.name: field.default for field in dataclasses.fields(cls) if isinstance(field.default, int | float)}


def test_work_is_what_the_method_says(method_name, monkeypatch):
    """Images that gradients are taken at in the last round, over a client's images, are the number of its formula."""
    cls, passes = load("methods", method_name), Passes(monkeypatch)
    simulation = simulations.ragged(3, rounds=3, local_epochs=2, batch_size=99)
    one_round = cls.round
    monkeypatch.setattr(cls, "round", lambda self, fed, s: passes.clear() or one_round(self, fed, s))
    monkeypatch.setattr("fedgrid.engine.rounds.evaluate", lambda *a: None)
    federate(cls(), simulation)
    numbers = defaults(cls) | {"batches": 1, "E": simulation.training.local_epochs}  # a batch holds all images
    for client, index in enumerate(simulation.data.train):
        assert passes.images[client] / len(index) == pytest.approx(worth(cls.work, numbers), abs=1 / len(index))


class Passes:
    """Counts the images of each client that gradients are taken at."""

    def __init__(self, monkeypatch):
        self.images, self.gradients = {}, 0
        client, add, step = Loop._client, TrainingStats.add, Descent.advance

        def noting(loop, task, position, *rest):
            self.client, self.together, self.gradients = task.ids[position], task.together, 0
            return client(loop, task, position, *rest)

        def adding(stats, rows, entry, samples):
            images = self.images.get(self.client, 0)
            self.images[self.client], self.gradients = images + samples * self.gradients / self.together, 0
            return add(stats, rows, entry, samples)

        def counted(function):
            def one_more(*arguments, **named):
                self.gradients += 1
                return function(*arguments, **named)

            return one_more

        monkeypatch.setattr(Loop, "_client", noting)
        monkeypatch.setattr(TrainingStats, "add", adding)
        monkeypatch.setattr(Descent, "advance", counted(step))
        for name in ("grad", "grad_and_value"):
            monkeypatch.setattr(torch.func, name, counted(getattr(torch.func, name)))

    def clear(self):
        self.images.clear()


def test_the_file_reads_like_a_method(method_name):
    """Short, and without what belongs to the engine."""
    name, module, file = locate("methods", method_name)
    cls = load("methods", method_name)
    path = file or Path(__import__("importlib").util.find_spec(module).origin)
    text = path.read_text(encoding="utf-8")
    assert code_lines(text) <= LIMITS.get(name, 80)
    code = ast.unparse(ast.parse(text))
    assert not [word for word in FORBIDDEN if word in code]
    assert ast.get_docstring(ast.parse(text)), "open with the citation and the idea"
    assert cls.source and cls.family and cls.shares and cls.score in SCORES and cls.work


def code_lines(text):
    """Lines that hold code: no blank lines, comments, docstrings or strings below a field."""
    bare = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, node.end_lineno + 1)
    }
    skipped = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    lines = {line for t in tokens if t.type not in skipped for line in range(t.start[0], t.end[0] + 1)}
    return len(lines - bare)
