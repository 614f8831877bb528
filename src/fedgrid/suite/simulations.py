"""Small federations in memory: real digits dealt out to clients by hand; how their results are compared."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import cache
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from fedgrid.data.common.images import SIGNAL, TABULAR, TEXT, Images
from fedgrid.data.digits import Digits
from fedgrid.engine.federation.federation import Federation
from fedgrid.engine.federation.malicious import with_malicious
from fedgrid.engine.federation.method import Method
from fedgrid.engine.federation.participation import everyone, new_clients, participants
from fedgrid.engine.federation.simulation import Simulation, dtype_of
from fedgrid.engine.federation.traffic import Traffic
from fedgrid.engine.local.client_data import ClientData
from fedgrid.engine.local.executor import Diverged, Executor, Trained
from fedgrid.engine.local.loop import Loop
from fedgrid.engine.local.optimizers import Optimizer
from fedgrid.engine.local.task import LocalTask, Loss, Step
from fedgrid.engine.rounds import Outcome, federate
from fedgrid.engine.state.state import State
from fedgrid.loading import load
from fedgrid.models.mlp import MLP
from fedgrid.settings import Training
from fedgrid.suite import made_samples
from fedgrid.tree import Tree

Rows = list[tuple[int, str, list[int], list[float]]]
"Recorded numbers: round, metric, clients and their values."


class Killed(Exception):
    """Stands for the end of a process, of which the engine hears nothing."""


class NamingLoop(Loop):
    """Names the function with which clients were trained whose numbers are no longer finite."""

    def train(self, task: LocalTask, loss: Loss, optimizer: Optimizer, part: str) -> Trained:
        with _naming(loss, task.round):
            return super().train(task, loss, optimizer, part)

    def iterate(self, task: LocalTask, step: Step) -> Trained:
        with _naming(step, task.round):
            return super().iterate(task, step)


@contextmanager
def _naming(function: Callable[..., Any], round_: int) -> Iterator[None]:
    try:
        yield
    except Diverged as error:
        name = getattr(function, "__name__", type(function).__name__)
        raise Diverged(round_, f"{error.what}, trained with `{name}`,") from error


@cache
def digits() -> Images:
    """The images of scikit-learn's digits."""
    return Digits().load(None, None).parts["train"]


@cache
def pixels() -> Tensor:
    """All images [n, 1, 8, 8], the same tensor for every simulation."""
    return torch.from_numpy(digits().pixels).permute(0, 3, 1, 2).contiguous()


def draw(labels_wanted: Iterable[int], start: int = 0) -> list[int]:
    """Indices of images with the given labels, from image `start` on, none twice."""
    labels, drawn = digits().labels, list[int]()
    for wanted in labels_wanted:
        drawn.append(next(i for i in range(start, len(labels)) if labels[i] == wanted and i not in drawn))
    return drawn


def simulation(
    train: Sequence[Sequence[int]],
    test: Sequence[Sequence[int]] | None = None,
    seed: int = 0,
    classes: int = 10,
    executor: Executor | None = None,
    model_dropout: float = 0.0,
    norm: str = "none",
    **training: Any,
) -> Simulation:
    """A simulation whose client i trains on the images train[i] and is tested on test[i] (default: the same)."""
    settings = Training(**cast(dict[str, Any], {"rounds": 3, "batch_size": 4, "lr": 0.05} | training))
    dtype = dtype_of(settings)
    centre, spread = (torch.full((1, 1, 1, 1), 16 * value, dtype=dtype) for value in (Digits.mean[0], Digits.std[0]))
    labels = torch.from_numpy(digits().labels)
    training_images = [torch.tensor(index, dtype=torch.long) for index in train]
    test_images = [torch.tensor(index, dtype=torch.long) for index in test or train]
    images = ClientData(
        pixels(),
        labels,
        training_images,
        test_images,
        classes,
        centre,
        spread,
        white=16.0,
        samples=np.arange(len(labels)),
    )
    network = MLP(hidden=16, features=8, dropout=model_dropout, norm=norm).network((8, 8, 1), classes)
    new = new_clients(images, settings.new_clients, seed)
    executor = executor or NamingLoop()
    return with_malicious(Simulation(images, network, settings, executor, seed, torch.device("cpu"), new))


def ragged(clients: int = 5, **training: Any) -> Simulation:
    """Clients of unequal size (7, 10, 13, …) with skewed, different labels."""
    pieces = np.array_split(by_label(), clients)
    train = [piece[: 7 + 3 * i].tolist() for i, piece in enumerate(pieces)]
    test = [piece[-9:].tolist() for piece in pieces]
    return simulation(train, test, **training)


def of_kind(kind: str, **training: Any) -> Simulation:
    """Clients as those of `ragged`, whose samples are texts, signals or rows of a table."""
    images = ragged(3, batch_size=8, **training)
    data, network = made_samples.of_kind(images.data, kind)
    return replace(images, data=data, model=network)


def moved(where: Simulation, device: torch.device) -> Simulation:
    """The same simulation on another device."""
    data, tensors, lists = vars(where.data), ("images", "labels", "centre", "spread"), ("train", "test", "validation")
    changes = {name: data[name].to(device) for name in tensors}
    changes |= {name: [index.to(device) for index in data[name]] for name in lists if data[name]}
    return replace(where, data=replace(where.data, **changes), device=device)


@cache
def by_label() -> np.ndarray:
    """All images in the order of their labels, pairs of which are shuffled."""
    order = np.random.default_rng(7).permutation(len(digits().labels))
    pairs: np.ndarray = order[np.argsort(digits().labels[order] // 2, kind="stable")]
    return pairs


EDGES: dict[str, Callable[[], Simulation]] = {
    "a client without images": lambda: simulation([[], draw([0, 1, 2]), draw([3, 4, 5])]),
    "a client with one image": lambda: simulation([draw([7]), draw([0, 1, 2, 3, 4])]),
    "one class only": lambda: simulation([draw([3, 3, 3, 3, 3]), draw([5, 5, 5])]),
    "tests without a class": lambda: simulation([draw([0, 1]), draw([3])], [draw([0]), [9]]),
    "a client without tests": lambda: simulation([draw([0, 1]), draw([3])], [[], draw([3])]),
    "a batch of one": lambda: simulation([draw(range(5)), draw(range(9))], batch_size=4),
    "a batch larger than any client": lambda: ragged(3, batch_size=512),
    "two clients": lambda: ragged(2),
    "one client": lambda: ragged(1),
    "identical clients": lambda: simulation([draw(range(6))] * 3),
    "few participants": lambda: ragged(participation=0.3, rounds=6, batch_size=8),
    "more clients than images of a class": lambda: simulation([draw([i % 10], start=i) for i in range(13)], rounds=2),
    "batch norm": lambda: ragged(3, norm="batch", batch_size=8),
    "batch norm and a batch of one": lambda: simulation([draw(range(5)), draw([3])], norm="batch"),
    "no local epoch": lambda: ragged(3, local_epochs=0),
    "adam": lambda: ragged(3, optimizer="adam", lr=0.003, batch_size=8),
    "momentum and decay": lambda: ragged(3, momentum=0.9, weight_decay=1e-4, lr=0.01, batch_size=8),
    "sparse evaluation": lambda: ragged(3, eval_every=2, batch_size=8),
    "a number of steps": lambda: ragged(3, local_steps=3),
    "lost uploads": lambda: ragged(4, dropout=0.5, batch_size=8),
    "nobody starts": lambda: ragged(3, dropout=1.0, dropout_at="start", rounds=2),
    "stragglers": lambda: ragged(3, stragglers=0.7, straggler_work=0.3, batch_size=8),
    "new clients": lambda: ragged(4, new_clients=0.5, batch_size=8),
    "texts": lambda: of_kind(TEXT),
    "signals": lambda: of_kind(SIGNAL),
    "rows of a table": lambda: of_kind(TABULAR),
    "flipped labels": lambda: ragged(4, malicious=0.5, batch_size=8),
    "under attack": lambda: ragged(3, adversarial={"steps": 2}, evaluate=["clean", "fgsm", "pgd20"], batch_size=8),
}


HARDEST = (
    "a client without images",
    "a client with one image",
    "tests without a class",
    "few participants",
    "more clients than images of a class",
    "batch norm and a batch of one",
)
"Edge cases that every method meets in `make test`."
OTHERS = [edge for edge in EDGES if edge not in HARDEST]


@cache
def edge(name: str) -> Simulation:
    """The simulation of an edge case, the same for all methods."""
    return EDGES[name]()


def method(name: str, **settings: Any) -> Method:
    """The method of a name or a file, with the given hyperparameters."""
    return method_class(name)(**settings)


def method_class(name: str) -> type[Method]:
    """The class of the method of a name or a file."""
    return cast(type[Method], load("methods", name))


BRIEF: Mapping[str, Any] = {"local_steps": 5}
"Hyperparameters of methods that count the steps of their clients themselves, and cost time."
THOROUGH: Mapping[str, Any] = {"server_epochs": 50}
"Hyperparameters of methods whose server trains at a small rate, of which a handful of images is too little."


def brief(name: str, settings: Mapping[str, Any] = BRIEF) -> dict[str, Any]:
    """Those of `settings` that a method has."""
    own = {field.name for field in fields(method_class(name))}
    return {setting: value for setting, value in settings.items() if setting in own}


def run(name: str, where: Simulation, **settings: Any) -> Outcome:
    """All rounds of a method; the outcome."""
    return federate(method(name, **settings), where)


def one_round(method: Method, where: Simulation, number: int, state: State) -> tuple[Tensor, State]:
    """The participants of a round, and the state of all clients after it."""
    ids, after = returned(method, where, number, state)
    return ids, state.scatter(ids, after)


def returned(method: Method, where: Simulation, number: int, state: State) -> tuple[Tensor, State]:
    """The participants of a round, and the state that the method returns, which has their rows."""
    ids = participants(where, number)
    fed = Federation(where, ids, number, Traffic.none(where.data.clients, where.device), state.gather(ids))
    return ids, method.round(fed, fed.state)


def final(name: str, where: Simulation, **settings: Any) -> State:
    """The state after all rounds; no model is evaluated in between, which changes no state."""
    sparse = replace(where, training=replace(where.training, eval_every=where.training.rounds))
    return run(name, sparse, **settings).progress.state


def used(name: str, where: Simulation, **settings: Any) -> Tree | None:
    """The models that all clients use after all rounds."""
    with torch.no_grad():
        state = final(name, where, **settings)
        return method(name, **settings).used(everyone(where, where.training.rounds, state), state)


ROUNDING = 1e-9
"Relative difference of two float64 computations that is rounding."


def entries(tree: Mapping[str, Any], name: str = "") -> Iterator[tuple[str, Tensor]]:
    """The tensors of a tree, each with its full name."""
    for key, value in tree.items():
        full = f"{name}.{key}" if name else key
        if isinstance(value, Mapping):
            yield from entries(value, full)
        else:
            yield full, value


def state_tree(state: State) -> dict[str, Any]:
    """Both parts of a state as one tree, under the names that a method gives them."""
    return {"s.server": state.server, "s.clients": state.clients}


Differ = Callable[[Tensor, Tensor], bool]
"Whether two tensors differ."


def by_more_than(rtol: float, atol: float) -> Differ:
    """Whether any two numbers of tensors differ by more than these tolerances; NaN equals NaN."""
    return lambda a, b: not torch.allclose(a, b, rtol=rtol, atol=atol, equal_nan=True)


AT_ALL = by_more_than(0, 0)


def difference(ours: Mapping[str, Any], theirs: Mapping[str, Any], differ: Differ = AT_ALL) -> str:
    """The first entry in which two trees differ (bit for bit, unless `differ` is given), in words; else empty."""
    first, second = dict(entries(ours)), dict(entries(theirs))
    if list(first) != list(second):
        return f"one has {', '.join(first) or 'nothing'}, the other {', '.join(second) or 'nothing'}"
    for name, a in first.items():
        b = second[name]
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"{name} is {_form(a)} in one and {_form(b)} in the other"
        if differ(a, b):
            return f"{name} differs{_by(a, b)}"
    return ""


def _form(t: Tensor) -> str:
    return f"{str(t.dtype).removeprefix('torch.')} {list(t.shape)}"


def _by(a: Tensor, b: Tensor) -> str:
    if not a.is_floating_point():
        return f" in {int((a != b).sum())} of {a.numel()} numbers"
    if not torch.equal(a.isnan(), b.isnan()):
        return ": it holds NaN in other places"
    return f" by up to {float((a.nan_to_num() - b.nan_to_num()).abs().max()):.2g}"


def beyond_rounding(tolerance: float = ROUNDING) -> Differ:
    """Whether tensors differ by more than this, relative to their largest number, or hold NaN in other places."""

    def differ(a: Tensor, b: Tensor) -> bool:
        if not b.is_floating_point() or not b.numel():
            return not torch.equal(a, b)
        known, apart = b.nan_to_num(), (a.nan_to_num() - b.nan_to_num()).abs().max()
        largest = known.abs().max().clamp(min=1e-3)
        return not torch.equal(a.isnan(), b.isnan()) or bool(apart > tolerance * largest)

    return differ


def assert_equal_states(first: State, second: State, rtol: float = 0.0, atol: float = 0.0) -> None:
    """Every tensor of two states agrees, bit for bit unless tolerances are given."""
    where = difference(state_tree(first), state_tree(second), by_more_than(rtol, atol))
    assert not where, where


def assert_close(ours: Any, theirs: Any, tolerance: float = ROUNDING) -> None:
    """Every tensor agrees relative to its largest number, and holds NaN in the same places."""
    where = difference({"": ours}, {"": theirs}, beyond_rounding(tolerance))
    assert not where, where


def assert_close_states(first: State, second: State, tolerance: float = ROUNDING) -> None:
    """Every tensor of two states agrees to rounding."""
    assert_close(state_tree(first), state_tree(second), tolerance)
