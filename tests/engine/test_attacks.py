"""Attacks: where they may go, what they are known to find, what they leave alone."""

from itertools import pairwise

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx, mark
from torch.nn.functional import cross_entropy
from torch.testing import assert_close

from fedgrid.engine.local.attacks import ATTACKED_ROUNDS, Attack, attacked_in, of_evaluation, of_training
from fedgrid.engine.local.client_data import Range
from fedgrid.engine.local.context import Batch
from fedgrid.grid.costs import forecast
from fedgrid.models.cnn import CNN
from fedgrid.settings import Adversarial, Training
from fedgrid.suite import simulations
from fedgrid.tree import leaves

UNIT = Range(*(torch.full((1, 1, 1), value, dtype=torch.float64) for value in (0.0, 1.0, 1.0)))
"Pixels that are not normalised."
FIVE = ["fedavg", "fedccl", "fedrep", "pfedme", "scaffold"]
ATTACKS = ["clean", "fgsm", "pgd20"]


def linear(weights, bias=0.0):
    """Logits of two classes, 0 and w·x + b, of images [B, 1, 1, n]."""

    def scores(x):
        m = x.flatten(1) @ weights + bias
        return torch.stack([torch.zeros_like(m), m], dim=1)

    return scores


def batch(x, y):
    return Batch(torch.tensor(x, dtype=torch.float64).reshape(len(y), 1, 1, -1), torch.tensor(y))


def normalised_range(channels, centre, spread):
    """The range of pixels from 0 to 1 that are normalised by these constants."""
    zero = torch.zeros(channels, 1, 1)
    return Range((zero - centre) / spread, (zero + 1 - centre) / spread, (zero + 1) / spread)


def loss(scores, x, y):
    return cross_entropy(scores(x), y)


def test_known_answer():
    scores = linear(torch.tensor([1.0, -2.0], dtype=torch.float64), 0.5)
    given = batch([[0.9, 0.05]], [1])
    assert loss(scores, given.x, given.y) == approx(0.241008, abs=1e-6)
    fgsm = Attack(0.1, 0.1, 1)(scores, given, UNIT)
    assert_close(fgsm.flatten(), torch.tensor([0.8, 0.15], dtype=torch.float64))
    assert loss(scores, fgsm, given.y) == approx(0.313262, abs=1e-6)
    expected = [((0.86, 0.09), 0.267948), ((0.82, 0.13), 0.297476), ((0.80, 0.15), 0.313262), ((0.80, 0.15), 0.313262)]
    for steps, (pixels, value) in enumerate(expected, start=1):
        moved = Attack(0.1, 0.04, steps)(scores, given, UNIT)
        assert_close(moved.flatten(), torch.tensor(pixels, dtype=torch.float64))
        assert loss(scores, moved, given.y) == approx(value, abs=1e-6)


@settings(max_examples=60, deadline=None)
@given(
    eps=st.floats(0, 1),
    step=st.floats(0, 1),
    steps=st.integers(0, 6),
    seed=st.integers(0, 1000),
    start=st.booleans(),
    normalised=st.booleans(),
)
def test_images_stay_in_the_ball_and_in_the_range_of_pixels(eps, step, steps, seed, start, normalised):
    random = torch.Generator().manual_seed(seed)
    centre, spread = (torch.tensor([[[0.4]], [[0.6]]]), torch.tensor([[[0.2]], [[0.3]]])) if normalised else (0.0, 1.0)
    pixels = normalised_range(2, centre, spread)
    whole = torch.rand(4, 2, 3, 3, generator=random).round(decimals=1)  # many on the border
    given = Batch((whole - centre) / spread, torch.arange(4) % 2)
    weights = torch.randn(18, generator=random)
    away = 2 * torch.rand(whole.shape, generator=random) - 1 if start else None
    moved = Attack(eps, step, steps)(linear(weights), given, pixels, away)
    assert (moved >= pixels.low).all() and (moved <= pixels.high).all()
    back = moved * spread + centre
    assert ((back - whole).abs() <= eps + 1e-6).all()
    if not eps:
        assert torch.equal(moved, given.x)


def test_fgsm_is_one_whole_step_of_pgd_from_the_image_itself():
    scores, given = linear(torch.tensor([0.3, -2.0, 1.0])), batch([[0.5, 0.5, 0.5], [0.2, 0.7, 0.4]], [1, 0])
    given = Batch(given.x.float(), given.y)
    fgsm = of_evaluation(Training(evaluate=("clean", "fgsm"), eval_eps=0.07), colour=False)["fgsm"]
    signs = torch.tensor([[-1.0, 1.0, -1.0], [1.0, -1.0, 1.0]]).reshape(2, 1, 1, 3)
    assert_close(fgsm(scores, given, UNIT), given.x + 0.07 * signs, check_dtype=False)


def test_the_loss_of_a_linear_model_grows_with_eps():
    scores, given = linear(torch.tensor([0.3, -2.0, 1.0], dtype=torch.float64)), batch([[0.5, 0.4, 0.6]], [1])
    actual = [loss(scores, Attack(eps, eps, 1)(scores, given, UNIT), given.y) for eps in (0, 0.05, 0.1, 0.2, 0.3)]
    assert all(more > less for less, more in pairwise(actual))


def test_defaults_are_those_of_colour_and_of_grey_images():
    colour, grey = (of_training(Adversarial(), kind) for kind in (True, False))
    assert (colour.eps, colour.step, colour.steps) == approx((8 / 255, 2 / 255, 10))
    assert (grey.eps, grey.step, grey.steps) == approx((0.3, 0.04, 10))
    assert of_training(Adversarial(eps=0.1, steps=40), colour=False).step == approx(0.1 * 4 / 3 / 40)
    assert of_training(Adversarial(step=0.01), colour=False).step == 0.01
    pgd = of_evaluation(Training(evaluate=("pgd20",)), colour=True)["pgd20"]
    assert (pgd.eps, pgd.step, pgd.steps) == approx((8 / 255, 0.8 / 255, 20))


@mark.parametrize("normalised", [False, True])
def test_a_well_known_library_finds_the_same(normalised):
    """The Adversarial Robustness Toolbox, on a network with its own normalisation in front."""
    from art.attacks.evasion import FastGradientMethod, ProjectedGradientDescent
    from art.estimators.classification import PyTorchClassifier

    torch.manual_seed(0)
    centre, spread = (0.45, 0.25) if normalised else (0.0, 1.0)
    network = CNN(features=16).network((16, 16, 3), 10)
    theta = network.initial(3)
    whole, y = torch.rand(12, 3, 16, 16), torch.arange(12) % 10

    class Module(torch.nn.Module):
        def forward(self, x):
            return network(theta, (x - centre) / spread)

    classifier = PyTorchClassifier(
        Module(), torch.nn.CrossEntropyLoss(), (3, 16, 16), 10, clip_values=(0.0, 1.0), device_type="cpu"
    )
    pixels = normalised_range(3, centre, spread)
    ours = of_evaluation(Training(evaluate=ATTACKS), colour=True)
    theirs = {
        "fgsm": FastGradientMethod(classifier, eps=8 / 255),
        "pgd20": ProjectedGradientDescent(classifier, eps=8 / 255, eps_step=0.8 / 255, max_iter=20, verbose=False),
    }
    for name, attack in theirs.items():
        moved = ours[name](lambda x: network(theta, x), Batch((whole - centre) / spread, y), pixels)
        actual = torch.from_numpy(attack.generate(whole.numpy(), torch.eye(10)[y].numpy()))
        assert_close(moved * spread + centre, actual, rtol=0, atol=1e-5)


@mark.parametrize("name", FIVE)
def test_with_eps_0_training_is_clean_training(name):
    clean, still = (
        simulations.run(name, simulations.ragged(3, batch_size=8, **settings)).progress
        for settings in ({}, {"adversarial": {"eps": 0.0, "steps": 2}})
    )
    for ours, theirs in zip(leaves(still.state.server), leaves(clean.state.server), strict=True):
        assert torch.equal(ours, theirs)
    assert [row for row in still.record.rows if "accuracy" in row[1]] == [
        row for row in clean.record.rows if "accuracy" in row[1]
    ]


def test_models_are_scored_under_attack_in_the_last_five_evaluated_rounds():
    federation = simulations.ragged(2, rounds=13, eval_every=2, evaluate=ATTACKS)
    rows = simulations.run("fedavg", federation).progress.record.rows
    rounds = {name: sorted({row[0] for row in rows if row[1] == f"{name}accuracy_received"}) for name in ("", "fgsm_")}
    assert rounds == {"": [0, 2, 4, 6, 8, 10, 12, 13], "fgsm_": [6, 8, 10, 12, 13]}
    assert not any(row[1].startswith("clean") for row in rows)


def test_the_untrained_model_is_not_attacked():
    training = Training(rounds=2)
    assert [attacked_in(training, done) for done in range(3)] == [False, True, True]


def test_an_attack_is_against_the_model_that_is_scored():
    """FedProto scores by its prototypes: an attack against its head would hardly find these."""
    federation = simulations.ragged(3, rounds=8, batch_size=4, lr=0.3, evaluate=ATTACKS, eval_eps=0.2)
    rows = simulations.run("fedproto", federation).progress.record.rows
    last = {row[1]: sum(row[3]) / len(row[3]) for row in rows if row[0] == 8}
    assert last["pgd20_accuracy_trained"] < last["accuracy_trained"]
    assert last["pgd20_loss_trained"] >= last["loss_trained"]


def test_estimates_count_the_rounds_and_the_steps_of_attacks():
    """They may not import torch, so the numbers stand there again."""
    actual = of_evaluation(Training(evaluate=ATTACKS), colour=True)
    assert {name: attack.steps for name, attack in actual.items()} == forecast.STEPS
    assert forecast.ATTACKED == ATTACKED_ROUNDS
