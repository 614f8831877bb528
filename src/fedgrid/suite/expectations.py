"""What a check says: its title, where to read on, and one sentence for an expectation that is not met."""

import itertools
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from fedgrid import shipped
from fedgrid.components import Component, describe
from fedgrid.engine.rounds import Outcome
from fedgrid.engine.state.checkpoint import Progress
from fedgrid.suite.simulations import AT_ALL, Differ, difference

Test = TypeVar("Test", bound=Callable[..., None])
_seeds = itertools.count()
START, CALLS, STATE, CLIENTS, KEY, IDENTITIES, STATED = (
    f"{shipped.folder('docs') / 'writing-a-method.md'}, section “{title}”"
    for title in (
        *("Writing a method", "What the engine calls", "State", "Losses and steps", "What its key covers"),
        *("Identities", "What tables and pages show of it"),
    )
)
MODEL = "python -c 'from fedgrid.models.base import Model; help(Model)'"
PARTITION = "python -c 'from fedgrid.partition.base import SampledPartition; help(SampledPartition)'"
DATA = "python -c 'from fedgrid.data.base import DataSet; help(DataSet)'"
"Where the checks send their readers: sections of the page on methods, and docstrings of base classes."

NOT_SCORED = "no client is scored, for no model is used: neither `global_model` nor `received` returns one"


class Unmet(AssertionError):
    """An expectation that a component does not meet; the message is one sentence: what was expected, what happened."""


class NotFinite(Unmet):
    """Numbers of a run that are NaN or infinite, with which no check can judge the component."""


SOURCES: Mapping[str, str] = {
    "in round 0": "before any training, so look at `setup` and `predict`",
    "in the evaluation": "so look at `predict`, and at the models that `round` returns",
    "the server's state": "so look at what `round` returns in s.server",
}
"Where to look, by a part of what the engine says; of a training it names the function itself."
GUARD = "guard divisions by 0, logarithms and roots, and take smaller steps where numbers grow from round to round"


def describe_divergence(reason: str) -> str:
    """One sentence: which numbers are not finite and in which round, as the engine says it, and what to do."""
    source = next((f", {source}" for part, source in SOURCES.items() if part in reason), "")
    return f"training ended early: {reason}{source}; {GUARD}"


def final_progress(outcome: Outcome) -> Progress:
    """The progress of a run that did all its rounds; NotFinite where it ended early."""
    if outcome.status != "ok":
        raise NotFinite(describe_divergence(outcome.reason))
    return outcome.progress


@dataclass(frozen=True)
class Check:
    """What a report says of a test of the suite."""

    title: str
    "What holds where it passes."
    see: str
    "Where to read on after a failure."
    always: bool
    "Whether `fedgrid check` runs it without ``--full`` too, although it is marked ``representatives``."


def check(title: str, see: str, always: bool = False) -> Callable[[Test], Test]:
    """Gives a test its `Check`."""

    def marked(test: Test) -> Test:
        vars(test)["check"] = Check(title, see, always)
        return test

    return marked


def check_of(test: Any) -> Check:
    """The `Check` of a test."""
    marked: Check = vars(test)["check"]
    return marked


def expect(met: bool, sentence: str) -> None:
    """Raises Unmet with the sentence unless the expectation is met."""
    if not met:
        raise Unmet(sentence)


def expect_same(
    ours: Mapping[str, Any], theirs: Mapping[str, Any], rule: str, differ: Differ = AT_ALL, advice: str = ""
) -> None:
    """Two trees agree, bit for bit or as `differ` says; the sentence is the `rule`, what differs and `advice`."""
    found = difference(ours, theirs, differ)
    expect(not found, f"{rule}, but {found}{advice}")


@contextmanager
def expected(what: str) -> Iterator[None]:
    """Puts what was expected in front of the sentence of an expectation within that is not met."""
    try:
        yield
    except Unmet as error:
        raise Unmet(f"{what}: {error}") from error


def check_documented(component: type[Component]) -> None:
    """Every setting has a string below it that says what it does, for help texts and pages."""
    missing = [parameter["name"] for parameter in describe(component)["parameters"] if not parameter["doc"]]
    expect(not missing, f"below the settings {', '.join(missing)} a string has to say what they do")


@contextmanager
def no_global_draws(instead: str) -> Iterator[None]:
    """Fails where what is within draws from the global generators, which are seeded otherwise each time."""
    seed = next(_seeds)
    np.random.seed(seed)
    random.seed(seed)
    before = np.random.get_state()[1].copy(), random.getstate()  # type: ignore[index]
    yield
    expect(bool((np.random.get_state()[1] == before[0]).all()), f"it draws from NumPy's global generator; {instead}")  # type: ignore[index]
    expect(random.getstate() == before[1], f"it draws from Python's module random; {instead}")
