"""FedAS: the alignment, Fisher traces and weights, by hand and by torch's autograd."""

from dataclasses import replace

import pytest
import torch
from nearness import DOUBLE, all_near, near
from plane import at, points
from torch.nn.functional import cross_entropy
from trajectories import after_rounds

from fedgrid.engine.federation.participation import everyone
from fedgrid.suite import simulations
from fedgrid.suite.simulations import final
from fedgrid.tree import Tree, row


def moved(simulation, shift):
    """Models [n, …] that differ from θ⁰, and from each other."""
    random = torch.Generator().manual_seed(shift)
    start = everyone(simulation, 0).replicate(everyone(simulation, 0).initial())
    return start.map(lambda t: t + 0.2 * torch.rand(t.shape, generator=random, dtype=t.dtype))


# The alignment


def test_alignment_of_three_images():
    """Class 0 is 1 away in mean square from (2, 1), class 1 is 2 away from (0, 0)."""
    batch, means = points([1, 0], [3, 0], [0, 2], labels=[0, 0, 1]), torch.tensor([[2.0, 1.0], [0.0, 0.0]]).double()
    near(simulations.method("fedas").alignment(Tree(), batch, at(means=means)), 3.0)


def test_the_alignment_takes_steps_of_its_own():
    """Whatever the study's optimiser; without a local epoch nothing else moves a model."""
    studies = [{}, {"optimizer": "adam"}, {"momentum": 0.9, "weight_decay": 0.1, "clip": 0.01}, {"lr": 1.0}]
    plain, *others = (
        final("fedas", simulations.ragged(3, rounds=1, local_epochs=0, **DOUBLE, **study)).clients.theta
        for study in studies
    )
    for other in others:
        all_near(other, plain, 0)
    start = simulations.ragged(3).model.initial(0)
    assert not torch.equal(plain["extractor.1.weight"][0].float(), start["extractor.1.weight"])
    assert torch.equal(plain["head.weight"].float(), start["head.weight"].expand(3, -1, -1))


# Fisher traces


def by_autograd(simulation, theta, size):
    """Σ ‖∇ mean NLL‖² over batches of so many images, of a client with one batch or with batches of one."""
    traces = []
    for i, index in enumerate(simulation.data.train):
        model, total = row(theta, i).map(lambda t: t.clone().requires_grad_()), 0.0
        for some in index.split(size):
            batch = simulation.data.batch(some)
            loss = cross_entropy(simulation.model(model, batch.x), batch.y)
            total += sum(g.square().sum() for g in torch.autograd.grad(loss, list(model.values())))
        traces.append(float(total))
    return traces


@pytest.mark.parametrize("size", [99, 1])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_trace_is_the_sum_of_squared_gradients(size, dropout):
    simulation = simulations.ragged(3, batch_size=size, model_dropout=dropout, **DOUBLE)
    theta = moved(simulation, 1)
    with torch.no_grad():
        traces = simulations.method("fedas").fisher(everyone(simulation, 0), theta)
    near(traces, by_autograd(simulation, theta, size), 1e-9)


def test_a_straggler_measures_all_of_its_images():
    fed = everyone(simulations.ragged(3, batch_size=4, **DOUBLE), 0)
    theta, method = moved(fed.simulation, 1), simulations.method("fedas")
    with torch.no_grad():
        near(method.fisher(replace(fed, work={0: 0.3, 2: 0.5}), theta), method.fisher(fed, theta))


def test_measuring_the_trace_leaves_models_as_they_are():
    for norm in ("none", "batch"):
        simulation = simulations.ragged(3, rounds=1, norm=norm, batch_size=8)
        ours, theirs = (after_rounds("fedas", simulation, 1, weighting=kind).trained for kind in ("fisher", "count"))
        all_near(ours, theirs, 0)


def test_weights_by_traces():
    method, fed = simulations.method("fedas"), everyone(simulations.ragged(2), 0)
    near(method.by_fisher(fed, torch.tensor([2.0, 6.0])), [0.25, 0.75])
    near(method.by_fisher(fed, torch.tensor([0.0, 0.0])), [7 / 17, 10 / 17])  # their images


def test_the_server_averages_extractors_by_recorded_traces():
    simulation = simulations.ragged(rounds=1, batch_size=99, **DOUBLE)
    state, rows = after_rounds("fedas", simulation, 1), simulations.run("fedas", simulation).progress.record.rows
    (traces,) = [values for _, metric, _, values in rows if metric == "fisher"]
    near(traces, by_autograd(simulation, state.trained, 99), 1e-9)
    shares = torch.tensor(traces, dtype=torch.float64) / sum(traces)
    expected = {name: torch.tensordot(shares, t, 1) for name, t in state.trained.part("extractor").items()}
    all_near(state.server.theta, expected)
    assert (shares - everyone(simulation, 0).weights).abs().max() > 0.01
