"""Steps that are captured once and replayed: the numbers of `Stacked`, without a GPU, by the double of a graph."""

from dataclasses import replace

import pytest
import torch
from pretended import DEVICE, fetched, machine
from recorded import Recorded
from tiers import every_third
from torch import Tensor

from fedgrid.engine.local import captured, stacked
from fedgrid.engine.local.captured import Captured
from fedgrid.engine.local.frozen import NotFrozen, form_of, is_tested, key_of
from fedgrid.engine.local.stacked import Stacked
from fedgrid.engine.local.workspaces import NUMBERS_OF_CLIENTS, TrainingWorkspace, bytes_of
from fedgrid.engine.rounds import federate
from fedgrid.errors import UserError
from fedgrid.loading import names
from fedgrid.methods.fedavg import FedAvg
from fedgrid.settings import Adversarial
from fedgrid.suite import simulations
from fedgrid.tree import Tree, leaves, squared_distance

ROUNDS = 5
SETTINGS = {
    "momentum": {"momentum": 0.9},
    "clip, decay and momentum": {"clip": 0.5, "weight_decay": 0.01, "momentum": 0.5},
    "Adam": {"optimizer": "adam", "lr": 0.003},
    "epochs": {"local_epochs": 2},
    "steps": {"local_steps": 3},
    "participation": {"participation": 0.6},
    "stragglers": {"stragglers": 0.5, "straggler_work": 0.5},
    "dropout": {"dropout": 0.4},
    "dropout at the start": {"dropout": 0.4, "dropout_at": "start"},
    "new clients": {"new_clients": 0.4},
    "sampled evaluation": {"eval_every": 3, "eval_sample": 2},
    "evaluation under attack": {"evaluate": ["clean", "fgsm", "pgd20"]},
    "augmentation": {"augmentation": "crop-flip"},
    "adversarial": {"adversarial": Adversarial(steps=2)},
    "dropout in the model": {"model_dropout": 0.5},
    "batch norm": {"norm": "batch"},
    "group norm": {"norm": "group"},
}


def progress(method, executor, **training):
    where = simulations.ragged(executor=executor, **({"dtype": "float64", "rounds": ROUNDS} | training))
    return federate(method, where).progress


def compare(method, **training):
    """Compares captured with stacked, bit for bit, and returns what it counted."""
    executor = Captured(capture=Recorded)
    now, before = progress(method, executor, **training), progress(method, Stacked(), **training)
    assert [row[:3] for row in now.record.rows] == [row[:3] for row in before.record.rows]
    simulations.assert_equal_states(now.state, before.state)
    return executor.counts


@pytest.mark.representatives
@pytest.mark.parametrize("name", names("methods"))
def test_captured_has_the_bits_of_stacked(name):
    counts = compare(simulations.method(name))
    assert counts["replayed"] > 0 and not counts["not captured"]


@pytest.mark.representatives
@pytest.mark.parametrize("name", names("methods"))
def test_on_a_device_the_numbers_are_those_of_the_processor(name):
    executor, method = Captured(capture=Recorded), simulations.method(name, **simulations.brief(name))
    where = simulations.ragged(3, dtype="float64", rounds=4, executor=executor)
    with machine():
        ours = fetched(federate(method, simulations.moved(where, DEVICE)).progress.state)
    simulations.assert_close_states(ours, federate(method, replace(where, executor=Stacked())).progress.state)
    assert executor.counts["replayed"]


@pytest.mark.parametrize("name", ["fedavg", "fedcosr", "perfedavg"])
@pytest.mark.parametrize("setting", every_third(list(SETTINGS)))
def test_with_other_settings(name, setting):
    assert compare(simulations.method(name), **SETTINGS[setting])["replayed"] > 0


@pytest.mark.parametrize("dtype", ["float32", "bfloat16-mixed"])
def test_with_other_types(dtype):
    assert compare(FedAvg(), dtype=dtype)["replayed"] > 0


@pytest.mark.parametrize("name", simulations.EDGES)
def test_edge_cases(name):
    where = replace(simulations.edge(name), executor=Captured(capture=Recorded))
    before = federate(FedAvg(), replace(where, executor=Stacked())).progress
    simulations.assert_equal_states(federate(FedAvg(), where).progress.state, before.state)


def test_few_graphs_serve_many_numbers_of_clients():
    executor = Captured(capture=Recorded)
    progress(FedAvg(), executor, clients=20, participation=0.5, rounds=9, local_epochs=1)
    workspaces = [form.workspace for form in executor.forms.values()]
    (training,) = [workspace for workspace in workspaces if isinstance(workspace, TrainingWorkspace)]
    assert len({lanes for lanes, *_ in training.graphs}) <= NUMBERS_OF_CLIENTS


def test_forms_beyond_the_most_are_not_captured(monkeypatch):
    monkeypatch.setattr(captured, "MOST", 0)
    assert set(compare(FedAvg())) == {"first"}


class Waiting(FedAvg):
    """Its loss reads a generator, which a capture refuses."""

    def loss(self, theta, batch, at):
        return super().loss(theta, batch, at) + 0 * torch.rand(()).double()


def test_what_cannot_be_captured_is_trained_as_before():
    executor = Captured(capture=Recorded)
    torch.manual_seed(0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "vmap", lambda f, **given: torch.func.vmap(f, **given, randomness="same"))
        progress(Waiting(), executor)
    assert executor.counts["not captured"] == ROUNDS - 1


def test_the_remark_counts_trainings_and_passes():
    executor = Captured(capture=Recorded)
    executor.counts.update({"first": 3, "replayed": 2000, "not captured": 1})
    assert executor.remark() == "replayed 2,000 of 2,004 trainings and passes"


def test_forms_have_at_most_a_quarter_of_the_memory(monkeypatch):
    where = simulations.ragged(dtype="float64", rounds=1)
    of_clients = 5 * bytes_of(leaves(federate(FedAvg(), where).progress.state.server.theta))
    monkeypatch.setattr(stacked, "BUDGET", stacked.COPIES * of_clients / captured.FRACTION)
    assert not compare(FedAvg())["not captured"]
    monkeypatch.setattr(stacked, "BUDGET", stacked.COPIES * of_clients / captured.FRACTION - 1)
    assert compare(FedAvg())["not captured"] >= ROUNDS


class Fading(FedAvg):
    """Sends a number that changes from round to round, and one that stays."""

    def loss(self, theta, batch, at):
        scale = 2.0 if at.server.constant > 1 else 1.0
        return super().loss(theta, batch, at) + scale * at.server.weight * squared_distance(theta, at.server.theta)

    def round(self, fed, s):
        numbers = {"weight": 1 / (fed.round + 1), "constant": 1.5}
        theta = fed.train(fed.broadcast(s.server.theta), self.loss, server=numbers).theta
        return s.update(server={"theta": fed.average(fed.upload(theta))}, trained=theta)


class Branching(Fading):
    """Branches on the number that changes."""

    def loss(self, theta, batch, at):
        return super().loss(theta, batch, at) * (2.0 if at.server.weight < 0.4 else 1.0)


def test_numbers_of_the_server_that_change_are_read_by_the_graphs():
    assert not compare(Fading())["not captured"]


def test_a_branch_on_a_number_that_changes_is_computed_step_by_step():
    assert compare(Branching())["not captured"] == ROUNDS - 1


@pytest.mark.parametrize("schedule", ["exponential", "cosine", "steps"])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_rates_that_change_are_read_by_the_graphs(optimizer, schedule):
    executor, given = Captured(capture=Recorded), {"lr_schedule": schedule, "lr_decay": 0.5, "optimizer": optimizer}
    now, before = progress(FedAvg(), executor, **given), progress(FedAvg(), Stacked(), **given)
    simulations.assert_close_states(now.state, before.state, 1e-14)
    assert not executor.counts["not captured"]


FACTOR = [1.0]


class Drifting(FedAvg):
    """Its loss reads what changes behind a function that nothing shows."""

    def loss(self, theta, batch, at):
        return super().loss(theta, batch, at) + hidden() * squared_distance(theta, at.server.theta + 1.0)


class Hidden:
    """Calls of an object are not looked into."""

    calls, grows_from = 0, 0

    def __call__(self):
        Hidden.calls += 1
        return 0.25 * max(0, Hidden.calls - Hidden.grows_from)


hidden = Hidden()


@pytest.mark.parametrize("training", [{}, {"adversarial": Adversarial(steps=1)}])
def test_a_loss_that_changes_in_secret_is_trained_step_by_step(training, monkeypatch):
    monkeypatch.setattr(Hidden, "calls", 0)
    executor = Captured(capture=Recorded)
    progress(Drifting(), executor, **training)
    assert executor.counts["not captured"] == ROUNDS - 1


def test_a_loss_that_changes_later_is_refused(monkeypatch):
    monkeypatch.setattr(Hidden, "calls", 0)
    progress(Drifting(), Captured(capture=Recorded), rounds=2)
    first_two, Hidden.calls = Hidden.calls, 0  # a training, the capture of the second one, and its comparison
    monkeypatch.setattr(Hidden, "grows_from", first_two)
    with pytest.raises(UserError, match="cannot be captured; choose the executor 'stacked'"):
        progress(Drifting(), Captured(capture=Recorded))


class WrongGraph(Recorded):
    """Computes something else than what was captured."""

    def __init__(self, work, memory):
        super().__init__(work, memory)
        self.memory = memory

    def replay(self):
        super().replay()
        for t in self.memory:
            t.add_(1)


def test_a_graph_that_computes_something_else_is_not_used():
    executor = Captured(capture=WrongGraph)
    now, before = progress(FedAvg(), executor), progress(FedAvg(), Stacked())
    simulations.assert_equal_states(now.state, before.state)
    assert not executor.counts["replayed"]


def test_the_code_of_a_key_is_tested_or_not():
    ours = simulations.method("fedprox").loss
    assert is_tested(key_of(ours)) and not is_tested(key_of(lambda *given: ours(*given)))


def test_the_key_covers_closure_defaults_fields_and_globals():
    def loss(scale, default=1.0):
        return lambda theta: scale * default * FACTOR[0] * sum(theta)

    before = key_of(loss(2.0))
    assert key_of(loss(2.0)) == before and key_of(loss(3.0)) != before
    FACTOR[0] = 2.0
    try:
        assert key_of(loss(2.0)) != before
    finally:
        FACTOR[0] = 1.0
    prox = simulations.method("fedprox")
    assert key_of(prox.loss) == key_of(simulations.method("fedprox").loss) != key_of(replace(prox, mu=0.5).loss)


def test_a_tensor_in_a_closure_has_no_key():
    bank = torch.zeros(3)
    with pytest.raises(NotFrozen, match=r"a tensor \(3,\)"):
        key_of(lambda theta: theta + bank)


def test_the_form_of_a_tree_has_shapes_types_and_whole_numbers():
    tree = Tree(a=torch.zeros(2, 3), b=Tree(c=1.5))
    assert form_of(tree) == (("a", ((2, 3), torch.float32)), ("b", (("c", ("number",)),)))
    assert form_of(tree) == form_of(tree | {"b": Tree(c=2.0)}) != form_of(tree | {"b": Tree(c=2)})
    assert form_of(tree) != form_of(tree | {"a": torch.zeros(2, 3).double()})


@pytest.mark.parametrize("work", [lambda t: t.sum().item(), lambda t: t.nonzero(), lambda t: torch.rand(2)])
def test_the_double_refuses_what_a_capture_refuses(work):
    t = torch.zeros(3)
    with pytest.raises(RuntimeError, match="not permitted when stream is capturing"):
        Recorded(lambda: work(t), [t])


def test_the_double_leaves_memory_as_it_was_and_replays_on_it():
    memory: Tensor = torch.zeros(2)

    def work():
        memory.add_(memory * 2 + 1)

    graph = Recorded(work, [memory])
    assert memory.tolist() == [0, 0]
    graph.replay()
    graph.replay()
    assert memory.tolist() == [4, 4]


def test_replays_that_are_compared():
    assert [n for n in range(1, 300) if captured._compared(n, tested=True)] == [1, 16, 256]
    assert [n for n in range(1, 40) if captured._compared(n, tested=False)] == [1, 2, 4, 8, 16, 32]


def test_a_coarse_product_is_compared_coarsely():
    one, other = ({"loss": torch.tensor([value])} for value in (1.0, 1.001))
    assert not captured._agree(one, other)
    before, torch.backends.cuda.matmul.allow_tf32 = torch.backends.cuda.matmul.allow_tf32, True
    try:
        assert captured._agree(one, other)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
