"""pFedHN: rounds by hand and in torch's own layers, clients in turn and together, and what fails on the way."""

import numpy as np
import pytest
import torch
from torch import nn

from fedgrid.engine.federation.failures import lost_uploads, round_with_failures
from fedgrid.engine.federation.participation import everyone
from fedgrid.engine.rounds import federate
from fedgrid.engine.state.saving import Saving
from fedgrid.engine.state.state import State
from fedgrid.methods.pfedhn import PFedHN
from fedgrid.suite import simulations
from fedgrid.suite.method import check_equal, check_scores
from fedgrid.suite.simulations import final
from fedgrid.tree import Tree, row, tree_map

DOUBLE = {"dtype": "float64"}


def near(ours, expected, tolerance=1e-6):
    expected = torch.as_tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(ours.double(), expected, rtol=0, atol=tolerance)


def all_near(ours, theirs, tolerance=1e-6):
    assert set(ours) == set(theirs)
    for name in ours:
        torch.testing.assert_close(ours[name], theirs[name], rtol=0, atol=tolerance)


def doubles(*rows):
    return torch.tensor(rows, dtype=torch.float64)


# Steps of the hypernetwork


class Linear(PFedHN):
    """h(v) = A·v."""

    def generate(self, phi, ids, like):
        return Tree(x=phi["embedding"][ids] @ phi["A"].T)


def stepped(**settings):
    plain = {"momentum": 0.0, "decay": 0.0, "server_lr": 0.1, "clip": 1e9}
    phi = Tree(embedding=doubles([2, 1], [5, 5]), A=doubles([1, 0], [0, 1], [1, -1]))
    ids, delta = torch.tensor([0]), Tree(x=doubles([1, -0.5, 0.5]))
    speed = tree_map(torch.zeros_like, phi)
    with torch.no_grad():
        Linear(**(plain | settings)).learn(phi, speed, ids, delta, torch.arange(1))
    return phi, speed


def test_a_step_of_a_linear_hypernetwork():
    phi, speed = stepped()
    near(phi["A"], [[0.8, -0.1], [0.1, 1.05], [0.9, -1.05]])
    near(phi["embedding"], [[1.85, 1.1], [5, 5]])
    near(phi["A"] @ phi["embedding"][0], [1.37, 1.34, 0.51])
    near(speed["A"], [[2, 1], [-1, -0.5], [1, 0.5]])
    near(speed["embedding"], [[1.5, -1], [0, 0]])
    norm = torch.cat([t.flatten() for t in speed.values()]).norm()
    near(norm, 3.278719)
    clipped = stepped(clip=1.0)[1]
    all_near(clipped, tree_map(lambda t: t * 0.304997, speed))


def test_momentum_and_decay_of_the_hypernetwork_are_torchs():
    """Two clients in turn, at half the rate each, against torch.optim.SGD; the idle embedding decays and coasts."""
    settings = {"momentum": 0.9, "decay": 0.01, "server_lr": 0.1, "clip": 2.0, "embedding_lr": 0.03}
    random = np.random.default_rng(5)
    start = {"embedding": random.normal(size=(3, 2)), "A": random.normal(size=(4, 2))}
    delta, order = random.normal(size=(2, 4)), [1, 0]
    ours = tree_map(lambda t: torch.from_numpy(t.copy()), start)
    method, ids = Linear(**settings), torch.tensor([0, 2])
    with torch.no_grad():
        speed = tree_map(torch.zeros_like, ours)
        method.learn(ours, speed, ids, Tree(x=torch.from_numpy(delta)), torch.tensor(order))
    theirs = {name: torch.tensor(t, requires_grad=True) for name, t in start.items()}
    groups = [{"params": [theirs["A"]]}, {"params": [theirs["embedding"]], "lr": 0.03 / 2}]
    descent = torch.optim.SGD(groups, lr=0.1 / 2, momentum=0.9, weight_decay=0.01)
    for place in order:
        descent.zero_grad()
        made = theirs["A"] @ theirs["embedding"][ids[place]]
        made.backward(torch.from_numpy(delta[place]))
        nn.utils.clip_grad_norm_(theirs.values(), 2.0)
        descent.step()
    all_near(ours, {name: t.detach() for name, t in theirs.items()}, 1e-6)


# Rounds by hand


class Number(PFedHN):
    """h(v) = a·v, a number, which a client moves half the way to the label of its image."""

    def made(self, fed):
        return Tree(x=doubles(0))

    def setup(self, fed):
        phi = Tree(embedding=doubles([1], [2]), a=doubles(1))
        return State({"phi": phi, "speed": tree_map(torch.zeros_like, phi), "statistics": {}})

    def generate(self, phi, ids, like):
        return Tree(x=phi["embedding"][ids] * phi["a"])

    def received(self, fed, s):
        return self.generate(s.server.phi, fed.ids, None)

    def loss(self, theta, batch, at):
        return (theta["x"] - batch.y).square().sum() / 2


def of_labels_3_and_5(order, **settings):
    """The state after a round of two clients in this order, whose embeddings are 1 and 2; a = 1."""
    clients = [simulations.draw([3]), simulations.draw([5])]
    plain = {"momentum": 0.0, "decay": 0.0, "server_lr": 0.1, "local_steps": 1}
    for seed in range(99):
        simulation = simulations.simulation(clients, lr=0.5, seed=seed, **DOUBLE)
        fed = everyone(simulation, 0)
        if fed.random("order").permutation(2).tolist() == order:
            method = Number(**plain | settings)
            with torch.no_grad():
                return simulations.one_round(method, simulation, 0, method.setup(fed))[1]
    raise AssertionError


@pytest.mark.parametrize(
    ("order", "trained", "a", "embedding"),
    [([0, 1], [2, 3.6], 1.38, [1.1, 2.154]), ([1, 0], [2.15, 3.5], 1.385, [1.1105, 2.15])],
)
def test_the_second_clients_model_comes_from_the_stepped_hypernetwork(order, trained, a, embedding):
    """First client 0: x = 1 → 2, Δ = −1, so a = v_0 = 1.1; then client 1 has x = 1.1·2 → 3.6, Δ = −1.4, and so on."""
    state = of_labels_3_and_5(order)
    near(state.trained["x"].flatten(), trained)
    near(state.server.phi["a"], [a])
    near(state.server.phi["embedding"].flatten(), embedding)


def test_two_clients_together_train_models_of_one_hypernetwork():
    """x = 1 → 2 and 2 → 3.5; steps by half the rate: a = v_0 = 1.05, then a + 0.05·1.5·2 and 2 + 0.05·1.5·1.05."""
    state = of_labels_3_and_5([0, 1], clients_at_once=None)
    near(state.trained["x"].flatten(), [2, 3.5])
    near(state.server.phi["a"], [1.2])
    near(state.server.phi["embedding"].flatten(), [1.05, 2.07875])
    state = of_labels_3_and_5([0, 1], clients_at_once=2, server_step="mean")
    near(state.trained["x"].flatten(), [2, 3.5])
    near(state.server.phi["a"], [1.2])  # 1 + 0.1·(1 + 3)/2
    near(state.server.phi["embedding"].flatten(), [1.05, 2.075])


ALIKE = [{}, {"server_step": "mean"}, {"clients_at_once": None}, {"clients_at_once": None, "server_step": "mean"}]


def test_one_client_a_round_is_the_same_in_turn_and_together():
    for simulation in (simulations.ragged(clients=1), simulations.ragged(clients=4, participation=0.3)):
        first, *others = (final("pfedhn", simulation, local_steps=5, **given).server.phi for given in ALIKE)
        for other in others:
            all_near(other, first)


def test_several_clients_a_round_are_not():
    """Except that a step for each and one with the mean are the same where clients are visited in turn."""
    in_turn, mean, *together = (
        final("pfedhn", simulations.ragged(), local_steps=5, **given).server.phi["embedding"] for given in ALIKE
    )
    assert torch.equal(in_turn, mean)
    assert not any(torch.equal(in_turn, other) for other in together) and not torch.equal(*together)


def test_clients_in_turn_learn_in_fewer_rounds():
    """Six clients of two labels or so, 36 visits: about 39 % of their test images in turn, 17 % together."""
    pieces = np.array_split(simulations.by_label(), 6)
    lists = [[piece[chosen].tolist() for piece in pieces] for chosen in (slice(0, 40), slice(-40, None))]
    simulation = simulations.simulation(*lists, rounds=6, eval_every=6, batch_size=8, lr=0.1)
    in_turn, together = (
        simulations.run("pfedhn", simulation, local_steps=20, clients_at_once=at_once).progress.record.rows
        for at_once in (1, None)
    )
    one, other = (
        np.mean([values for done, metric, _, values in rows if (done, metric) == (6, "accuracy_received")])
        for rows in (in_turn, together)
    )
    assert one > other + 0.1


# Rounds in torch's own layers


class Layers(nn.Module):
    """The hypernetwork in torch's own layers, with the numbers of Φ."""

    def __init__(self, phi, depth):
        super().__init__()
        self.phi = phi
        self.embedding = nn.Embedding.from_pretrained(phi["embedding"].clone(), freeze=False)
        self.hidden = nn.Sequential(self.layer("hidden.0"))
        for i in range(1, 1 + depth):
            self.hidden.append(nn.ReLU()).append(self.layer(f"hidden.{i}"))
        named = (name.rpartition(".") for name in phi)
        self.names = [name for name, _, kind in named if name.startswith("out.") and kind == "weight"]
        self.out = nn.ModuleList([self.layer(name) for name in self.names])

    def layer(self, name):
        weight, bias = self.phi[f"{name}.weight"], self.phi[f"{name}.bias"]
        made = nn.Linear(weight.shape[1], len(weight), dtype=weight.dtype)
        made.load_state_dict({"weight": weight, "bias": bias})
        return made

    def forward(self, ids):
        z = self.hidden(self.embedding(ids))
        return {name.removeprefix("out."): layer(z) for name, layer in zip(self.names, self.out, strict=True)}

    def numbers(self):
        """As Φ names them."""
        actual = {"embedding": self.embedding.weight}
        named = [(f"hidden.{i}", layer) for i, layer in enumerate(self.hidden[::2])]
        for name, layer in named + list(zip(self.names, self.out, strict=True)):
            actual |= {f"{name}.weight": layer.weight, f"{name}.bias": layer.bias}
        return {name: t.detach() for name, t in actual.items()}


KINDS = [("sequential", at_once, 1.0) for at_once in (1, 2, None)] + [("mean", 2, 0.8), ("mean", None, 0.5)]
"""`server_step`, `clients_at_once`, and a bound that is longer than some gradients."""


@pytest.mark.parametrize(("kind", "at_once", "clip"), KINDS)
def test_rounds_of_pfedhn_are_torchs(kind, at_once, clip):
    """Two rounds against torch's layers and optimiser, whose momentum lasts; statistics of batch norm are averaged."""
    simulation = simulations.ragged(clients=3, rounds=2, norm="batch", lr=0.2, seed=2, **DOUBLE)
    settings = {"embedding": 2, "hidden": 6, "depth": 2, "local_steps": 3, "server_step": kind}
    method = PFedHN(**settings, clients_at_once=at_once, clip=clip, server_lr=0.05, momentum=0.8, decay=0.01)
    state = method.setup(everyone(simulation, 0))
    start, norms, drawn = everyone(simulation, 0).initial(), [], []
    statistics = {name: start[name] for name in simulation.model.statistics}
    theirs = Layers(state.server.phi, depth=2)
    descent = torch.optim.SGD(theirs.parameters(), lr=0.05, momentum=0.8, weight_decay=0.01)
    for number in (0, 1):
        fed, trained = everyone(simulation, number), {}
        drawn.append(fed.random("order").permutation(3).tolist())
        for group in [drawn[-1][i : i + (at_once or 3)] for i in range(0, 3, at_once or 3)]:
            ids = torch.tensor(sorted(group))
            clients = fed.subset(ids)
            made = {name: t.detach().unflatten(1, start[name].shape) for name, t in theirs(ids).items()}
            after = clients.train(made | clients.replicate(statistics), method.loss, steps=3).theta
            delta = {name: (t - after[name]).flatten(1) for name, t in made.items()}
            trained |= {client: row(after, place) for place, client in enumerate(ids.tolist())}
            steps = [[client] for client in group] if kind == "sequential" else [group]
            descent.param_groups[0]["lr"] = 0.05 / len(steps)
            for members in steps:
                places = [ids.tolist().index(client) for client in members]
                descent.zero_grad()
                models = theirs(torch.tensor(members))
                (sum((models[name] * t[places]).sum() for name, t in delta.items()) / len(members)).backward()
                norms.append(torch.cat([weight.grad.flatten() for weight in theirs.parameters()]).norm().item())
                for weight in theirs.parameters():
                    weight.grad *= min(1, clip / norms[-1])
                descent.step()
        stack = tree_map(lambda *t: torch.stack(t), *(trained[client] for client in range(3)))
        statistics = {name: torch.tensordot(fed.weights, stack[name], 1) for name in statistics}
        with torch.no_grad():
            _, state = simulations.one_round(method, simulation, number, state)
        all_near(state.server.phi, theirs.numbers(), 1e-9)
        all_near(state.server.statistics, statistics, 1e-9)
        all_near(state.trained, stack, 1e-9)
    assert drawn[0] != drawn[1] and [0, 1, 2] not in drawn and min(norms) < clip < max(norms)


# Embeddings, heads


def test_equal_embeddings_give_equal_models():
    simulation = simulations.ragged()
    method = simulations.method("pfedhn", hidden=6)
    state = method.setup(everyone(simulation, 0))
    state.server.phi["embedding"][3] = state.server.phi["embedding"][1]
    actual = method.used(everyone(simulation, 0, state), state)
    all_near(row(actual, 3), row(actual, 1), 0)
    assert not torch.equal(actual["head.weight"][3], actual["head.weight"][2])


@pytest.mark.parametrize(("clients", "width"), [(10, 3), (20, 6), (50, 13), (100, 26)])
def test_width_of_an_embedding(clients, width):
    simulation = simulations.simulation([simulations.draw([i % 10]) for i in range(clients)])
    phi = simulations.method("pfedhn", hidden=2).setup(everyone(simulation, 0)).server.phi
    assert phi["embedding"].shape == (clients, width)


def test_pfedhn_does_not_change_without_participants():
    simulation = simulations.ragged()
    method = simulations.method("pfedhn", local_steps=0, decay=0.0)
    before = method.setup(everyone(simulation, 0)).server.phi
    all_near(final("pfedhn", simulation, local_steps=0, decay=0.0).server.phi, before, 0)
    moved = final("pfedhn", simulation, local_steps=5, decay=0.0).server.phi
    assert all((moved[key] - before[key]).abs().max() > 0 for key in before)


def test_pfedhn_with_own_heads():
    """Heads start at θ⁰, stay at home and train; everything else is generated."""
    simulation = simulations.ragged(participation=0.5, rounds=1)
    outcome, start = simulations.run("pfedhn", simulation, own_head=True), simulation.model.initial(0)
    state = outcome.progress.state
    assert not [name for name in state.server.phi if name.startswith("out.head")]
    still = [torch.equal(head, start["head.weight"]) for head in state.clients.head["head.weight"]]
    assert sum(still) == 3
    ((sent, _),) = (values for _, metric, _, values in outcome.progress.record.rows if metric == "bytes_up")
    assert sent == 4 * sum(t.numel() for t in start.part("extractor").values())


# What fails on the way


def unlucky(number_lost, **settings):
    """A simulation and its first round in which so many of four uploads are lost."""
    for seed in range(99):
        simulation = simulations.ragged(4, dropout=0.5, seed=seed, batch_size=8, **DOUBLE)
        if lost_uploads(everyone(simulation, 0)).sum() == number_lost:
            return simulation
    raise AssertionError


@pytest.mark.parametrize("own_head", [False, True])
def test_nobody_learns_from_lost_uploads(own_head):
    """Those who arrive are visited as in a round of their own; the others train models of Φ as it was before it."""
    simulation, method = unlucky(2), PFedHN(local_steps=5, server_lr=0.5, own_head=own_head)
    s = method.setup(everyone(simulation, 0))
    fed = everyone(simulation, 0, s)
    lost = torch.from_numpy(np.flatnonzero(lost_uploads(fed)))
    arrived = torch.from_numpy(np.flatnonzero(~lost_uploads(fed)))
    with torch.no_grad():
        state = round_with_failures(method, fed)
        theirs = method.round(fed.subset(arrived), s.gather(arrived))
        alone = fed.train(method.received(fed, s), method.loss, steps=5).theta
    all_near(state.server.phi, theirs.server.phi, 0)
    all_near(state.trained.rows(arrived), theirs.trained, 0)
    all_near(state.trained.rows(lost), alone.rows(lost), 1e-12)
    moved = (state.trained["head.weight"] - alone["head.weight"]).flatten(1).abs().amax(dim=1) > 1e-6
    assert moved.sum() == 1  # of two that arrive the second, whose model comes from another Φ
    if own_head:
        all_near(state.clients.head.rows(lost), alone.part("head").rows(lost), 1e-12)


def test_stragglers_stop_early_in_turn_too():
    simulation = simulations.ragged(3, stragglers=0.5, straggler_work=0.25, batch_size=4, rounds=3, eval_every=3)
    rows = simulations.run("pfedhn", simulation, local_steps=8).progress.record.rows
    assert {0.25, 1.0} == {value for _, metric, _, values in rows if metric == "work" for value in values}


TOGETHER = [{"clients_at_once": None}, {"clients_at_once": 2, "server_step": "mean", "own_head": True}]
OTHERS = [pytest.param(edge, marks=pytest.mark.full) for edge in simulations.OTHERS]


@pytest.mark.parametrize("edge", [*simulations.HARDEST, *OTHERS])
@pytest.mark.parametrize("given", TOGETHER, ids=str)
def test_edges_of_clients_together(given, edge):
    simulation = simulations.edge(edge)
    outcome = simulations.run("pfedhn", simulation, local_steps=5, **given)
    assert outcome.status == "ok"
    check_scores(simulation, outcome.progress)


@pytest.mark.parametrize("given", TOGETHER, ids=str)
def test_clients_together_resume_from_a_checkpoint(given, tmp_path):
    def kill(progress, remark):
        if progress.rounds == 2:
            raise simulations.Killed

    method, saving = PFedHN(local_steps=5, **given), Saving(tmp_path / "cell.checkpoint", "key", every=0.0)
    simulation = simulations.ragged(4, participation=0.8, batch_size=8)
    with pytest.raises(simulations.Killed):
        federate(method, simulation, saving, kill)
    check_equal(federate(method, simulation, saving).progress, federate(method, simulation).progress, "they agree")
