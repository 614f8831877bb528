"""FedNTD's distillation: examples of a few numbers, worked out in float64, and what it does to a client's model."""

import pytest
import torch
from nearness import near_printed as near

from fedgrid.engine.federation.participation import everyone
from fedgrid.engine.local.context import Batch, LossContext
from fedgrid.suite import simulations
from fedgrid.tree import Tree, row

LOCAL, RECEIVED = torch.tensor([[2.0, 1.0, 0.0]]).double(), torch.tensor([[0.0, 3.0, 1.0]]).double()
LABEL = torch.tensor([1])
CE = 1.407606
SHIFTS = (-30.0, 5.0, 1000.0)


class Logits:
    """A network whose logits are an entry of its parameters, and others in training."""

    def __init__(self, learning=False):
        self.learning = learning

    def evaluating(self):
        return Logits()

    def __call__(self, theta, x):
        return theta["training" if self.learning else "z"].expand(len(x), -1)


def loss(local=LOCAL, received=RECEIVED, labels=LABEL, **settings):
    at = LossContext(Logits(), Tree(theta=Tree(z=received)), Tree(), None)
    batch = Batch(torch.zeros(len(labels), 1, 1, 1), labels)
    return simulations.method("fedntd", **settings).loss(Tree(z=local), batch, at)


def shifted(logits, by):
    return logits + by * torch.nn.functional.one_hot(LABEL, 3)


@pytest.mark.parametrize("by", SHIFTS)
@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_the_labels_logit_does_not_enter(by, temperature):
    distillation = simulations.method("fedntd", temperature=temperature).distillation
    expected = distillation(LOCAL, RECEIVED, LABEL)
    near(distillation(shifted(LOCAL, by), RECEIVED, LABEL), expected, 0)
    near(distillation(LOCAL, shifted(RECEIVED, by), LABEL), expected, 0)


def test_the_label_and_the_received_model_get_no_gradient_of_the_term():
    """Another class gets τ·(q̃^l − q̃^g)."""
    local, received = LOCAL.clone().requires_grad_(), RECEIVED
    simulations.method("fedntd").distillation(local, received, LABEL).backward()
    near(local.grad, [[0.880797 - 0.268941, 0.0, 0.119203 - 0.731059]])
    assert local.grad[0, 1] == 0


def test_models_that_agree_leave_cross_entropy():
    local = LOCAL.clone().requires_grad_()
    value = simulations.method("fedntd").distillation(local, shifted(LOCAL, 4.0), LABEL)
    value.backward()
    near(value, 0.0, 1e-12)
    near(local.grad, torch.zeros(1, 3), 1e-12)


def test_two_classes_leave_cross_entropy():
    local, received = torch.tensor([[2.0, 1.0]]).double(), torch.tensor([[-5.0, 3.0]]).double()
    assert loss(local, received, beta=10.0) == loss(local, received, beta=0.0)


def test_the_received_model_is_in_evaluation_mode():
    at = LossContext(Logits(learning=True), Tree(theta=Tree(z=RECEIVED, training=-RECEIVED)), Tree(), None)
    batch = Batch(torch.zeros(1, 1, 1, 1), LABEL)
    near(simulations.method("fedntd").loss(Tree(z=-LOCAL, training=LOCAL), batch, at), CE + 1.006842, 2e-6)


def test_a_client_of_one_class_keeps_the_received_opinion_of_the_others():
    """Without distillation its shares of the nine other classes drift; with much of it they hardly do."""
    simulation = simulations.simulation(
        [simulations.draw([3] * 6)], rounds=1, local_epochs=10, batch_size=6, lr=0.1, dtype="float64"
    )
    batch = simulation.data.batch(simulation.data.train[0])
    drift = []
    for beta in (0.0, 1.0, 10.0):
        method = simulations.method("fedntd", beta=beta)
        with torch.no_grad():
            start = method.setup(everyone(simulation, 0))
            trained = row(simulations.one_round(method, simulation, 0, start)[1].trained, 0)
            logits, received = (simulation.model(theta, batch.x) for theta in (trained, start.server.theta))
        assert logits[:, 3].mean() > received[:, 3].mean() + 0.5
        drift.append(float(method.distillation(logits, received, batch.y)))
    assert drift[0] > 1.5 * drift[1] > 2 * drift[2] > 0
