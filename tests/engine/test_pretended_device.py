"""On a device: no tensor of the processor meets one of the device's, and the numbers are those of the processor.

The device is a pretended one, see `pretended`. What a method copies to and fro and how many operators it starts is held
by the table `device_counts.csv`, whose numbers may only fall. To write it anew, from the root of the repository::

    PYTHONPATH=src:tests python tests/engine/test_pretended_device.py > tests/engine/device_counts.csv
"""

import csv
import sys
import warnings
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from pretended import DEVICE, Counts, Mixed, fetched, last_round, machine
from tiers import every_third
from trajectories import brief, ending_after

from fedgrid.engine import artifacts
from fedgrid.engine.local.devices import fetched as fetched_together
from fedgrid.engine.local.devices import sent
from fedgrid.engine.local.loop import Loop
from fedgrid.engine.local.stacked import Stacked
from fedgrid.engine.local.task import LocalTask
from fedgrid.engine.rounds import federate
from fedgrid.engine.state.saving import Saving
from fedgrid.loading import names
from fedgrid.methods.fedavg import FedAvg
from fedgrid.settings import ARTIFACTS
from fedgrid.suite import simulations
from fedgrid.suite.simulations import assert_close_states

EXECUTORS = {"loop": Loop, "stacked": Stacked}
TABLE = Path(__file__).with_name("device_counts.csv")
TORCH = torch.__version__.partition("+")[0]
each_executor = pytest.mark.parametrize("executor", EXECUTORS)


def world(executor, **training):
    """Two rounds of three unequal clients, on the processor."""
    usual = {"rounds": 2, "batch_size": 8, "dtype": "float64", "executor": EXECUTORS[executor]()}
    return simulations.ragged(3, **usual | training)


def assert_same(ours, theirs):
    """The progress on the device is that on the processor, to rounding."""
    assert ours.rounds == theirs.rounds
    assert_close_states(fetched(ours.state), theirs.state)
    for own, other in zip(ours.record.rows, theirs.record.rows, strict=True):
        assert own[:3] == other[:3]
        assert own[3] == pytest.approx(other[3], rel=1e-9)


def compare(method, where):
    """A method's rounds on both devices."""
    with machine():
        ours = federate(method, simulations.moved(where, DEVICE))
        assert ours.status == "ok"
        assert_same(ours.progress, federate(method, where).progress)


# Every method, and what a study may ask of it


@pytest.mark.representatives
@each_executor
def test_the_numbers_are_those_of_the_processor(method_name, executor):
    with machine():
        assert_same(on_device(method_name, executor)[0], federate(brief(method_name), world(executor)).progress)


def validated(executor):
    """A world of which test images are held out for validation too."""
    where = world(executor)
    return replace(where, data=replace(where.data, validation=[index[:4] for index in where.data.test]))


CASES = {
    "partial participation": lambda executor: world(executor, participation=0.7, rounds=3),
    "batch norm": lambda executor: world(executor, norm="batch"),
    "adam": lambda executor: world(executor, optimizer="adam", lr=0.003),
    "clipped momentum": lambda executor: world(executor, momentum=0.9, clip=1.0, rounds=1),
    "random numbers": lambda executor: world(executor, model_dropout=0.3, augmentation="crop-flip", rounds=1),
    "validation images": validated,
    "under attack": lambda executor: world(executor, rounds=1, adversarial={"steps": 1}, evaluate=["clean", "fgsm"]),
}


PAIRS = [("fedcosr", "stacked"), ("fedrod", "loop"), ("perfedavg", "loop")]
"Methods that train and that iterate, with models of their own; pairs, since all of them with all cases take a minute."


@pytest.mark.parametrize(("name", "executor"), PAIRS)
@pytest.mark.parametrize("case", every_third([*CASES]))
def test_case(case, name, executor):
    compare(brief(name), CASES[case](executor))


@each_executor
@pytest.mark.parametrize("name", ["fedavg", "fedproto", "knn_per"])
def test_a_cell_resumes_from_its_checkpoint(tmp_path, name, executor):
    where, saving = world(executor, rounds=3), Saving(tmp_path / "checkpoint", "key", every=0.0)
    with machine():
        with pytest.raises(simulations.Killed):
            federate(brief(name), simulations.moved(where, DEVICE), saving, ending_after(2))
        resumed = federate(brief(name), simulations.moved(where, DEVICE), saving).progress
        assert_same(resumed, federate(brief(name), where).progress)


@pytest.mark.parametrize("name", ["fedavg", "cfl", "fpl", "pfedgraph"])
def test_artifacts(name):
    def kept(where):
        progress = federate(brief(name), where, matrices=True).progress
        parts = artifacts.tables(ARTIFACTS, brief(name), where, progress)
        return {kind: reader.read_all() for kind, reader in parts.items()}

    where = world("loop")
    with machine():
        assert kept(simulations.moved(where, DEVICE)) == kept(where)


# What is out of place is found


class HostInRound(FedAvg):
    """Averages with weights that lie on the processor."""

    def round(self, fed, s):
        after = super().round(fed, s)
        weights = torch.ones(fed.size, fed.size, dtype=torch.float64)
        return after.update(trained=weights @ after.trained)


class HostInLoss(FedAvg):
    """Weighs classes by numbers that lie on the processor."""

    def loss(self, theta, batch, at):
        return (at.model(theta, batch.x) * torch.ones(at.model.classes, dtype=torch.float64)).mean()


class NumpyInRound(FedAvg):
    """Looks at what was trained with numpy."""

    def round(self, fed, s):
        after = super().round(fed, s)
        return after.update(quantities={"size": torch.from_numpy(after.trained["head.bias"].numpy()).sum(dim=1)})


@each_executor
@pytest.mark.parametrize(
    ("method", "message"),
    [(HostInRound, "mm of .* on the processor"), (HostInLoss, "mul of .* on the processor"), (NumpyInRound, "numpy")],
)
def test_a_method_that_forgets_the_device_is_caught(method, message, executor):
    where = world(executor)
    federate(method(), where)  # nobody notices on a processor
    with machine(), pytest.raises(RuntimeError, match=message):
        federate(method(), simulations.moved(where, DEVICE))


@each_executor
def test_an_engine_that_forgets_the_device_is_caught(monkeypatch, executor):
    images_at = LocalTask.images_at
    monkeypatch.setattr(LocalTask, "images_at", lambda *given: (index.cpu() for index in images_at(*given)))
    with machine(), pytest.raises(Mixed, match="index_select"):
        federate(FedAvg(), simulations.moved(world(executor), DEVICE))


# What it costs


@dataclass(frozen=True)
class Cost:
    """Of a method on three clients, whose batches, where clients are stacked, share operators."""

    round: int
    "Transfers in a round, before its evaluation."
    evaluation: int
    "Transfers in the evaluation after it."
    step: int
    "Transfers that one more batch of every client causes."
    operators: int
    "Operators that one more batch of every client starts."


@cache
def on_device(name, executor):
    """(progress, counts of the last round, of its evaluation) of a method, for several tests."""
    return last_round(brief(name), world(executor))


def steps_counted(name, executor, progress, steps):
    """Counts of a round with so many steps of two images, each client's first ones."""
    method = simulations.method(name, **simulations.brief(name, {"local_steps": steps}))
    with machine() as used, torch.no_grad():
        where = simulations.moved(world(executor, local_steps=steps, batch_size=2), DEVICE)
        with used.counted() as counts:
            simulations.one_round(method, where, progress.rounds, progress.state)
    return counts


def cost(name, executor):
    progress, in_round, in_evaluation = on_device(name, executor)
    two, three = (steps_counted(name, executor, progress, steps) for steps in (2, 3))
    step = three - two
    return Cost(in_round.transfers, in_evaluation.transfers, step.transfers, step.operators)


def require_no_more(label, actual, allowed):
    """A cost may not rise; where it has fallen, a warning asks for a new table."""
    mended = f"{label}: {actual}, where {TABLE.name} has {allowed}"
    if any(getattr(actual, field.name) > getattr(allowed, field.name) for field in fields(Cost)):
        raise AssertionError(f"{mended}; if that must be, write the table anew, see {Path(__file__).name}")
    if actual != allowed:
        warnings.warn(f"{mended}: write the table anew, see {Path(__file__).name}", stacklevel=2)


def short(name):
    """A method's name, or that of its file."""
    return Path(name).stem


@cache
def table():
    """(version of torch, costs by method and executor)."""
    first, *lines = TABLE.read_text(encoding="utf-8").splitlines()
    actual = {
        (row.pop("method"), row.pop("executor")): Cost(**{key: int(value) for key, value in row.items()})
        for row in csv.DictReader(lines)
    }
    return first.rpartition(" ")[2], actual


def needed():
    version, costs = table()
    if version != TORCH:
        pytest.skip(f"the table of costs is of torch {version}, this is {TORCH}: it may use other operators")
    return costs


def examples():
    return sorted(Path(__file__).parents[1].glob("methods/examples/*.py"))


def test_the_table_has_every_method():
    expected = {(short(name), executor) for name in [*names("methods"), *examples()] for executor in EXECUTORS}
    assert set(table()[1]) == expected


@pytest.mark.representatives
@each_executor
def test_a_method_costs_no_more_than_it_did(method_name, executor):
    allowed = needed().get((short(method_name), executor))
    if allowed is None:
        pytest.skip("a method of a file that the table does not know")
    require_no_more(f"{short(method_name)}, {executor}", cost(method_name, executor), allowed)


def test_arrays_are_sent_in_one_copy_and_tensors_fetched_in_one():
    arrays = [np.array([[1, 2], [3, 4]]), np.zeros(0, dtype=np.int64), np.array([1 << 62])]
    with machine() as used, used.counted() as counts:
        parts = sent(arrays, DEVICE)
        one, two = fetched_together([parts[0][0] > 1, parts[0][1]])
    assert (counts.sent, counts.fetched) == (1, 1)
    assert one.tolist() == [0.0, 1.0] and two.tolist() == [3.0, 4.0] and one.dtype == torch.float64
    assert all(np.array_equal(part.host, array) for part, array in zip(parts, arrays, strict=True))


class Curious(FedAvg):
    """Looks at the loss of every batch."""

    def loss(self, theta, batch, at):
        value = super().loss(theta, batch, at)
        return value if value.item() < 1e9 else 0 * value


def test_a_method_that_looks_at_its_loss_costs_more():
    _, usual, _ = on_device("fedavg", "loop")
    _, curious, _ = last_round(Curious(), world("loop"))
    assert curious - usual == Counts(sent=0, fetched=5, operators=0)  # the clients' batches: 1 + 2 + 2


def test_a_cost_that_rises_is_an_error_and_one_that_falls_a_warning():
    allowed = Cost(4, 4, 4, 4)
    require_no_more("equal", allowed, allowed)
    for field in fields(Cost):
        with pytest.raises(AssertionError, match="write the table anew"):
            require_no_more("more", replace(allowed, **{field.name: 5}), allowed)
        with pytest.warns(UserWarning, match="write the table anew"):
            require_no_more("less", replace(allowed, **{field.name: 3}), allowed)


def written():
    """The table, as it is now."""
    torch.set_num_threads(1)
    yield f"# counted with torch {TORCH}"
    yield ",".join(["method", "executor", *(field.name for field in fields(Cost))])
    for name in [*names("methods"), *map(str, examples())]:
        for executor in EXECUTORS:
            yield ",".join(map(str, [short(name), executor, *asdict(cost(name, executor)).values()]))


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in written())
