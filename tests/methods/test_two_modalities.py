"""Methods whose clients of two modalities share something: FedSaC's heads, FedIoT's classifier."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
import two_modalities
from nearness import near_printed as near
from sklearn.metrics.pairwise import cosine_similarity
from torch.nn.functional import cross_entropy
from trajectories import after_each_round
from two_modalities import TEXTUAL, VISUAL, alone, values

from fedgrid.data.common.images import MODALITIES
from fedgrid.engine.federation.participation import everyone, participants
from fedgrid.engine.local.stacked import Stacked
from fedgrid.engine.rounds import federate
from fedgrid.methods.common.decoders import initial as decoders
from fedgrid.methods.common.decoders import reconstruction
from fedgrid.methods.common.simplex import project
from fedgrid.suite import simulations
from fedgrid.suite.simulations import assert_close_states, final
from fedgrid.tree import tree_map

DOUBLES = {"dtype": torch.float64}
FOUR = ((9, 14), (11, 6))
PAPER = {"alpha": 0.7, "beta": 1.2}


def flat(stack):
    return torch.cat([t.flatten(1) for t in stack.values()], dim=1).numpy()


def only(stack, modality):
    """What clients of one modality have of a stack, and these clients' rows."""
    other = f"extractor.{MODALITIES[1 - modality]}."
    rows = slice(0, 2) if modality == VISUAL else slice(2, 4)
    return {name: t[rows] for name, t in stack.items() if not name.startswith(other)}


# FedSaC


def test_fedsac_weights_of_four_heads_and_of_two_extractors():
    """The worked example of two clients with images and two with texts, of equal sizes."""
    method = simulations.method("fedsac", **PAPER)
    heads = torch.tensor([[1, 0.5, 0.1, 0], [0.5, 1, 0.2, 0.1], [0.1, 0.2, 1, 0.6], [0, 0.1, 0.6, 1]], **DOUBLES)
    expected = [
        [0.61, 0.31, 0.07, 0.01],
        [0.28, 0.58, 0.1, 0.04],
        [0.025, 0.085, 0.565, 0.325],
        [0, 0.053333, 0.353333, 0.593333],
    ]
    near(method.mixing(torch.full((4,), 0.25, **DOUBLES), heads), expected)
    similar, overlap = (torch.tensor([[1, x], [x, 1]], **DOUBLES) for x in (0.4, 0.5))
    near(method.mixing(torch.full((2,), 0.5, **DOUBLES), similar, 0.7 * overlap), [[0.5925, 0.4075], [0.4075, 0.5925]])


@pytest.mark.parametrize(
    "given", [{}, {"alpha": 0.0}, {"similarity": "parameters"}, {"similarity": "since_start"}], ids=str
)
def test_a_round_of_fedsac_with_two_modalities(given):
    """The second round's graphs and mixtures, from what was trained, with numpy and scikit-learn."""
    given = {"alpha": 0.7, "beta": 0.2, "until": 1.0} | given
    simulation, method = two_modalities.simulation(FOUR), simulations.method("fedsac", **given)
    _, before, after = after_each_round(method, simulation, rounds=2)
    start = {
        "last_round": before.clients.theta,
        "since_start": {name: t.double() for name, t in simulation.model.initial(0).items()},
        "parameters": dict.fromkeys(after.trained, 0.0),
    }[method.similarity]
    moved = {name: t - start[name] for name, t in after.trained.items()}
    sizes, graph = np.array([9, 14, 11, 6]), np.zeros((4, 4))
    for modality, rows in ((VISUAL, slice(0, 2)), (TEXTUAL, slice(2, 4))):
        similar = snapped(cosine_similarity(flat(only(moved, modality))))
        overlap = after.server.complementarity[rows, rows].numpy() if method.alpha else 0.0
        slope = -2 * sizes[rows] / sizes[rows].sum() + method.alpha * overlap - 0.2 * similar
        graph[rows, rows] = project(torch.from_numpy(-slope / 2))
        near(after.server.similarity[rows, rows], similar, 1e-9)
    similar = snapped(cosine_similarity(flat({name: t for name, t in moved.items() if name.startswith("head")})))
    heads = project(torch.from_numpy(sizes / sizes.sum() + 0.1 * similar)).numpy()
    near(after.server.graph, graph, 1e-9)
    near(after.server.heads, heads, 1e-9)
    assert (heads[:2, 2:] > 0).any()
    for name, t in after.trained.items():
        mixed = np.tensordot(heads if name.startswith("head") else graph, t.numpy(), 1)
        near(after.clients.theta[name], mixed, 1e-9)


def snapped(similar):
    return np.where(similar > 0.9, 1.0, similar)


@pytest.mark.parametrize("modality", [VISUAL, TEXTUAL])
@pytest.mark.parametrize("given", [{}, {"pull": "directions", "lam": 0.3}, {"participation": 0.7}], ids=str)
def test_fedsac_of_one_modality_is_fedsac(modality, given):
    """Bit for bit: nothing crosses, and everything is mixed by the whole graph."""
    settings = {"participation": given["participation"]} if "participation" in given else {}
    given = {name: value for name, value in given.items() if name != "participation"}
    sizes = ((9, 14, 8), ()) if modality == VISUAL else ((), (9, 14, 8))
    simulation = two_modalities.simulation(sizes, rounds=3, **settings)
    ours, theirs = (simulations.run("fedsac", of, **given).progress for of in (simulation, alone(simulation, modality)))
    assert values(ours) == values(theirs)
    assert ours.state.server.keys() == theirs.state.server.keys()
    for name, t in theirs.state.server.items():
        assert torch.equal(ours.state.server[name], t)
    for name, t in theirs.state.clients.theta.items():
        assert torch.equal(ours.state.clients.theta[name], t)


def test_rounds_of_one_modality_mix_heads_by_the_whole_graph():
    simulation = two_modalities.simulation(FOUR, participation=0.5, rounds=12)
    method = simulations.method("fedsac", beta=0.1)
    state, kinds = method.setup(everyone(simulation, 0)), set()
    with torch.no_grad():
        for number in range(12):
            ids, state = simulations.one_round(method, simulation, number, state)
            own, alike = state.server.heads[ids][:, ids], ids[0] // 2 == ids[1] // 2
            assert torch.equal(own, state.server.graph[ids][:, ids]) == bool(alike)
            kinds.add(bool(alike))
    assert kinds == {True, False}


def test_extractors_never_cross_modalities():
    """With other texts, images' extractors end the same, bit for bit; heads do not."""
    simulation = two_modalities.simulation(FOUR, rounds=1)
    texts = simulation.data.tokens.flip(0)
    ours, other = (final("fedsac", of, **PAPER) for of in (simulation, replaced(simulation, tokens=texts)))
    for name, t in ours.clients.theta.items():
        same = torch.equal(t[:2], other.clients.theta[name][:2])
        assert same == name.startswith("extractor")
        assert not name.startswith("extractor.textual") or not torch.equal(t[2:], other.clients.theta[name][2:])
    assert not ours.server.graph[:2, 2:].any() and not ours.server.graph[2:, :2].any()


def replaced(simulation, **data):
    return replace(simulation, data=replace(simulation.data, **data))


@pytest.mark.parametrize("name", ["fedsac", "fediot"])
def test_a_client_sends_and_receives_what_is_of_its_modality(name):
    simulation = two_modalities.simulation(FOUR)
    actual = values(simulations.run(name, simulation).progress)
    theta = simulation.model.initial(0)
    if name == "fediot":
        decoders = final(name, simulation).server.decoders
        theta = {key: t for key, t in theta.items() if key.startswith("extractor")} | decoders
    for client, kind in enumerate(("visual", "visual", "textual", "textual")):
        own = sum(t.numel() for key, t in theta.items() if kind in key or key.startswith("head"))
        up, down = (actual[2, f"bytes_{way}", client] for way in ("up", "down"))
        assert down == 8 * own
        directions = (up - down) / (8 * simulation.model.width)
        assert directions in ((1, 2, 3) if name == "fedsac" else (0,))


def test_graphs_that_fedsac_keeps():
    simulation, method = two_modalities.simulation(FOUR), simulations.method("fedsac")
    progress = federate(method, simulation, matrices=True).progress
    assert {name for _, name, _ in progress.matrices} == {"graph", "similarity", "complementarity", "heads"}
    near(progress.state.server.heads.sum(dim=1), [1.0] * 4, 1e-12)
    assert not method.setup(everyone(simulations.ragged(), 0)).server.get("heads")


OPTIONS = [
    ("fedsac", {"pull": "directions", "lam": 0.5}),
    ("fedsac", {"similarity": "since_start", "layers": "linear"}),
    ("fedsac", {"similarity": "parameters", "angles": "greedy"}),
    ("fedsac", {"alpha": 0.0, "beta": 0.0, "lam": 0.0}),
    ("fediot", {"labelled": 1.0, "channels": 3, "server_batch": 5}),
]


@pytest.mark.parametrize("participation", [1.0, 0.5])
@pytest.mark.parametrize(("name", "given"), OPTIONS, ids=str)
def test_options_under_both_executors(name, given, participation):
    setting = {"participation": participation, "weight_decay": 1e-3, "momentum": 0.9, "rounds": 3}
    one, other = (
        final(name, two_modalities.simulation(((9, 14, 0), (11, 1)), executor=executor, **setting), **given)
        for executor in (None, Stacked(2))
    )
    assert_close_states(other, one)


def test_fedsac_without_similarity_is_fedavg_within_modalities_and_of_heads():
    simulation = two_modalities.simulation(FOUR, rounds=1)
    state = final("fedsac", simulation, alpha=0.0, beta=0.0, lam=0.0)
    sizes = np.array([9, 14, 11, 6])
    near(state.server.heads, np.tile(sizes / sizes.sum(), (4, 1)), 1e-12)
    for name, t in final("fedavg", simulation).server.visual.theta.items():
        if name.startswith("extractor"):
            near(state.clients.theta[name][:2], t.expand(2, *t.shape), 1e-12)
        else:
            near(state.clients.theta[name], state.clients.theta[name][:1].expand(4, *t.shape), 1e-12)


# FedIoT


def autoencoders(state):
    return state.server.theta.part("extractor") | state.server.decoders


def test_errors_of_reconstructions():
    """The worked example's mean square, without time to reverse; words by hand."""
    picture = torch.tensor([1.0, 2.0, 4.0], **DOUBLES).reshape(1, 3, 1, 1)
    output = {"decoder.first.weight": torch.zeros(3, 2), "decoder.first.bias": torch.tensor([3.5, 2.5, 0.5])}
    near(reconstruction(tree_map(torch.Tensor.double, output), "", torch.ones(1, 2, **DOUBLES), picture), 6.25)
    names = ("decoder.textual.first.weight", "decoder.textual.first.bias")
    chances = torch.tensor([0.9, 0.5, 0.25, 0.8], **DOUBLES)  # of padding, an unknown word and two others
    theta = dict(zip(names, (torch.zeros(4, 2, **DOUBLES), chances.logit()), strict=True))
    error = -(np.log(0.5) + np.log(0.75) + np.log(0.8)) / 3  # the text has the last one, twice
    near(reconstruction(theta, "textual", torch.ones(1, 2, **DOUBLES), torch.tensor([[3, 3, 0]])), error)


@pytest.mark.parametrize(
    ("shape", "planes"),
    [
        ((64, 64, 3), [256, 128, 64, 32, 3]),
        ((28, 28, 1), [64, 32, 1]),
        ((20, 44, 3), [64, 32, 3]),
        ((8, 8, 1), [32, 1]),
        ((1, 1, 192), [192]),
    ],
)
def test_a_decoder_mirrors_an_extractor(shape, planes):
    height, width, colours = shape
    simulation = simulations.ragged(2)
    pictures = torch.zeros(60, colours, height, width)
    simulation = replace(simulation, data=replace(simulation.data, images=pictures))
    theta = decoders(everyone(simulation, 0), 32)
    assert [theta["decoder.first.weight"].shape[0] // rows_of(shape, planes), *planes[1:]] == planes
    actual = [t.shape for name, t in theta.items() if "block" in name and name.endswith("weight")]
    assert actual == [(before, after, 4, 4) for before, after in pairwise(planes)]
    error = reconstruction(theta, "", torch.rand(2, 8), torch.rand(2, colours, height, width))
    assert error.shape == () and error > 0


def rows_of(shape, planes):
    halved = 2 ** (len(planes) - 1)
    return int(np.prod([-(-side // halved) for side in shape[:2]]))


def test_a_round_of_fediot():
    """Autoencoders are plain means over clients of unequal sizes; the classifier is that of torch's Adam."""
    simulation, method = two_modalities.simulation(FOUR), simulations.method("fediot", labelled=0.4, server_batch=5)
    fed = everyone(simulation, 0)
    before, after = after_each_round(method, simulation, rounds=1)
    with torch.no_grad():
        trained = fed.train(fed.replicate(autoencoders(before)), method.loss).theta
    for name, t in autoencoders(after).items():
        own, other = trained[name].split(2) if "visual" in name else reversed(trained[name].split(2))
        near(t, own.mean(dim=0), 1e-12)
        assert all(torch.equal(untouched, autoencoders(before)[name]) for untouched in other)
    head = torch.nn.Linear(simulation.model.width, 4).double()
    head.load_state_dict({name: before.server.theta[f"head.{name}"] for name in ("weight", "bias")})
    sample = list(fed.sample("labelled", 0.4))
    z = torch.cat([network.features(after.server.theta, batch.x) for network, batch in sample])
    y, adam = torch.cat([batch.y for _, batch in sample]), torch.optim.Adam(head.parameters(), lr=0.01)
    for epoch in range(5):
        for some in torch.from_numpy(fed.random(f"server {epoch}").permutation(len(y))).split(5):
            adam.zero_grad()
            cross_entropy(head(z[some]), y[some]).backward()
            adam.step()
    near(after.server.theta["head.weight"], head.weight.detach(), 1e-12)


def test_labelled_images_are_some_of_each_class_the_same_in_every_round():
    simulation = two_modalities.simulation(((40, 0), (30, 10)))
    actual = []
    for fed in (everyone(simulation, 0), everyone(simulation, 5).subset(torch.tensor([True, False, False, False]))):
        actual.append([(network.modality, batch.x, batch.y) for network, batch in fed.sample("labelled", 0.2)])
    for (kind, x, y), (same_kind, same_x, same_y) in zip(*actual, strict=True):
        assert kind == same_kind and torch.equal(x, same_x) and torch.equal(y, same_y)
        own = simulation.data.only(MODALITIES.index(kind))
        in_all = torch.bincount(simulation.data.labels[torch.cat(own.train)], minlength=4)
        assert torch.bincount(y, minlength=4).tolist() == [max(1, int(0.2 * n + 1e-9)) for n in in_all]
    other = list(everyone(simulation, 0).sample("else", 0.2))
    assert not torch.equal(other[0][1].x, actual[0][0][1])


def test_labels_of_clients_say_nothing_to_fediots_encoders():
    simulation = two_modalities.simulation(FOUR)
    mixed = replaced(simulation, labels=simulation.data.labels.roll(1))
    ours, other = (final("fediot", of) for of in (simulation, mixed))
    assert all(torch.equal(t, autoencoders(other)[name]) for name, t in autoencoders(ours).items())
    assert not torch.equal(ours.server.theta["head.weight"], other.server.theta["head.weight"])


def test_fediot_without_a_servers_epochs_guesses():
    simulation = two_modalities.simulation(FOUR)
    state, start = final("fediot", simulation, server_epochs=0), simulation.model.initial(0)
    assert all(torch.equal(state.server.theta[name], start[name].double()) for name in ("head.weight", "head.bias"))


def test_one_client_has_the_servers_autoencoder():
    simulation, method = two_modalities.simulation(((9,), ()), rounds=1), simulations.method("fediot")
    fed = everyone(simulation, 0)
    with torch.no_grad():
        before = method.setup(fed)
        own = fed.train(fed.replicate(autoencoders(before)), method.loss).theta
    after = autoencoders(final("fediot", simulation))
    assert all(torch.equal(t[0], after[name]) for name, t in own.items())


def test_an_autoencoder_without_participants_stays_and_is_asked():
    """The classifier goes on learning what it says."""
    simulation = two_modalities.simulation(((9, 14), (11,)), participation=0.34, rounds=1)
    (client,) = participants(simulation, 0).tolist()
    method = simulations.method("fediot")
    before, after = method.setup(everyone(simulation, 0)), final("fediot", simulation)
    for name, t in autoencoders(after).items():
        assert torch.equal(t, autoencoders(before)[name]) == (MODALITIES[simulation.data.modality[client]] not in name)


def test_everyone_of_a_modality_is_scored_with_one_model():
    simulation = two_modalities.simulation(FOUR, shared_tests=True)
    actual = values(simulations.run("fediot", simulation).progress)
    for metric in ("accuracy_global", "loss_received"):
        assert actual[2, metric, 0] == actual[2, metric, 1] and actual[2, metric, 2] == actual[2, metric, 3]
