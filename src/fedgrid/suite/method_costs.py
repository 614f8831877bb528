"""What a method states of its costs is what the engine counts."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import Any

import pytest
import torch

from fedgrid.engine.local.executor import TrainingStats
from fedgrid.engine.local.loop import Loop
from fedgrid.engine.local.solvers import Descent
from fedgrid.engine.rounds import federate
from fedgrid.grid.costs.formulas import formula_value, with_settings
from fedgrid.suite import simulations
from fedgrid.suite.expectations import STATED, check, expect, final_progress
from fedgrid.suite.method import four_rounds, undisturbed

TRAFFIC = ("0", "|θ|", "2·|θ|", "3·|θ|", "|φ|", "|π|", "2·|φ|", "2·|π|", "C·k", "|C_i|·k", "|θ| + C·k", "|θ| + |C_i|·k")
WORK = ("E", "2E", "3E", "4E", "E + 1", "2E + 1", "0", "1", "2")
"Formulas that many methods have, one of which a sentence may propose."


@check("up and down are the bytes that travel", STATED)
def test_traffic_is_what_the_method_says(method_name: str) -> None:
    """Bytes of the last round, in which all classes are known, are 4 × the numbers of its formulas."""
    cls, simulation = simulations.method_class(method_name), four_rounds()
    rows = undisturbed(method_name).record.rows
    symbols = defaults(cls) | sizes_of_parts(simulation.model.initial(0)) | {"k": simulation.model.width}
    assert (simulation.data.counts.sum(dim=0) > 0).all(), "this test needs a simulation with all classes"
    for way, formula in (("up", cls.up), ("down", cls.down)):
        if "M" in formula:
            continue  # vectors whose number depends on the data
        ((_, _, clients, values),) = [row for row in rows if row[:2] == (simulation.training.rounds, f"bytes_{way}")]
        for client, value in zip(clients, values, strict=True):
            own = int((simulation.data.counts[client] > 0).sum())
            numbers = symbols | {"|C_i|": own, "C": simulation.model.classes}
            stated = formula_value(formula, numbers)
            statement = f"{way} = '{formula}' states {stated:,.0f} numbers in a round, but client {client} "
            does = {"up": "sent", "down": "received"}[way]
            calls = {"up": "fed.upload counts", "down": "fed.broadcast and fed.send count"}[way]
            proposal = proposed(value / 4, TRAFFIC, numbers)
            counted = f"{does} {value / 4:,.0f}{proposal}; {calls} what travels, and nothing else may"
            expect(value == 4 * stated, statement + counted)


def sizes_of_parts(theta: Any) -> dict[str, float]:
    """|φ|, |π| and |θ| of a model's parameters."""
    phi, pi = (sum(t.numel() for t in theta.part(name).values()) for name in ("extractor", "head"))
    return {"|θ|": phi + pi, "|φ|": phi, "|π|": pi}


def defaults(cls: type) -> dict[str, float]:
    """A formula may name settings."""
    actual = {field.name: field.default for field in fields(cls)}
    return {name: value for name, value in actual.items() if isinstance(value, int | float)}


def proposed(value: float, formulas: Iterable[str], numbers: Mapping[str, float]) -> str:
    """A formula that is worth so much, as an addition to a sentence; empty where none of these is."""
    fitting = [formula for formula in formulas if abs(formula_value(formula, numbers) - value) < 1e-3]
    return f", which would be '{fitting[0]}'" if fitting else ""


@check("work is the number of passes with gradients", STATED)
def test_work_is_what_the_method_says(method_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Images that gradients are taken at in the last round, over a client's images, are the number of its formula."""
    cls, passes = simulations.method_class(method_name), Passes(monkeypatch)
    simulation = simulations.ragged(3, rounds=3, local_epochs=2, batch_size=99)
    one_round = cls.round

    def counted_round(self: Any, fed: Any, s: Any) -> Any:
        passes.images.clear()
        return one_round(self, fed, s)

    monkeypatch.setattr(cls, "round", counted_round)
    monkeypatch.setattr("fedgrid.engine.rounds.evaluate", lambda *a: None)
    final_progress(federate(cls(), simulation))
    formula = with_settings(cls.work, {field.name: field.default for field in fields(cls)})
    numbers = {"batches": 1, "E": simulation.training.local_epochs}  # a batch holds all images
    for client, index in enumerate(simulation.data.train):
        actual, stated = passes.images.get(client, 0) / len(index), formula_value(formula, numbers)
        statement = f"work = '{cls.work}' states {stated:g} passes in a round of E = 2 epochs"
        counted = f"{actual:.3g}{proposed(actual, WORK, numbers)}; fed.train and torch.func.grad in a step are counted"
        expect(abs(actual - stated) <= 1 / len(index), f"{statement}, but client {client} made {counted}")


class Passes:
    """Counts the images of each client that gradients are taken at."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.images: dict[int, float] = {}
        self.gradients = 0
        self.client, self.together = 0, 1
        client, add, step = Loop._client, TrainingStats.add, Descent.advance

        def noting(loop: Loop, task: Any, position: int, *rest: Any) -> Any:
            self.client, self.together, self.gradients = task.ids[position], task.together, 0
            return client(loop, task, position, *rest)

        def adding(stats: TrainingStats, rows: Any, entry: Any, samples: int) -> None:
            images = self.images.get(self.client, 0)
            self.images[self.client], self.gradients = images + samples * self.gradients / self.together, 0
            add(stats, rows, entry, samples)

        monkeypatch.setattr(Loop, "_client", noting)
        monkeypatch.setattr(TrainingStats, "add", adding)
        monkeypatch.setattr(Descent, "advance", self._counted(step))
        for name in ("grad", "grad_and_value"):
            monkeypatch.setattr(torch.func, name, self._counted(getattr(torch.func, name)))

    def _counted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def one_more(*arguments: Any, **named: Any) -> Any:
            self.gradients += 1
            return function(*arguments, **named)

        return one_more
