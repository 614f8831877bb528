"""Random numbers are a function of their name and key: no global generator is read or moved."""

import hashlib
import random

import numpy as np
import pytest
import torch

from fedgrid.engine.federation.federation import Federation
from fedgrid.engine.federation.participation import participants
from fedgrid.engine.local.loop import Loop
from fedgrid.engine.local.stacked import Stacked
from fedgrid.engine.local.task import LocalTask
from fedgrid.engine.state.state import State
from fedgrid.randomness import GOLDEN, _mixed, _signed, generator, uniform
from fedgrid.suite import simulations
from fedgrid.suite.simulations import assert_equal_states

MASK = (1 << 64) - 1
PUBLISHED = [6457827717110365317, 3203168211198807973, 9817491932198370423]
"First outputs of splitmix64 from the seed 1234567."


def splitmix64(start, count):
    """Its outputs, with Python's integers."""
    actual = []
    for number in range(1, count + 1):
        z = (start + number * 0x9E3779B97F4A7C15) & MASK
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        actual.append(z ^ (z >> 31))
    return actual


def expected(key, purpose, count):
    """`uniform` from its description: splitmix64, whose start is hashed from purpose and key."""
    salt = int.from_bytes(hashlib.blake2b(purpose.encode(), digest_size=16).digest()[:8], "little") >> 1
    z = (key + salt) & MASK  # the output function alone, so one increment is taken off
    return [(output >> 40) / 2**24 for output in splitmix64(splitmix64(z - GOLDEN, 1)[0], count)]


def drawn(key, purpose="noise", shape=(1000,), dtype=torch.float64):
    return uniform(key, purpose, torch.empty(shape, dtype=dtype))


def test_the_reference_gives_the_published_numbers():
    assert splitmix64(1234567, 3) == PUBLISHED


def test_the_published_numbers_come_from_tensors_too():
    states = torch.tensor([_signed((1234567 + number * GOLDEN) & MASK) for number in (1, 2, 3)])
    assert [value & MASK for value in _mixed(states).tolist()] == PUBLISHED


@pytest.mark.parametrize("purpose", ["noise", "dropout", "größer"])
@pytest.mark.parametrize("key", [0, 1, 12345, (1 << 62) + 99, (1 << 63) - 1, -1])
def test_numbers_are_those_of_splitmix64(key, purpose):
    assert drawn(key, purpose, (40,)).tolist() == expected(key, purpose, 40)


def test_shape_type_and_key_in_a_tensor_change_no_number():
    whole = drawn(77, shape=(24,))
    assert drawn(77, shape=(2, 3, 4)).flatten().tolist() == whole.tolist()
    assert drawn(torch.tensor(77), shape=(24,)).tolist() == whole.tolist()
    single = drawn(77, shape=(24,), dtype=torch.float32)
    assert single.dtype == torch.float32
    assert single.double().tolist() == whole.tolist()
    assert drawn(77, shape=()).item() == whole[0]
    assert drawn(77, shape=(0, 3)).shape == (0, 3)


def test_a_batch_of_keys_is_one_key_after_the_other():
    keys = torch.tensor([5, 6, 1 << 61, 0])
    together = torch.vmap(lambda key, like: uniform(key, "noise", like))(keys, torch.empty(4, 3, 7))
    one_by_one = torch.stack([drawn(key, shape=(3, 7), dtype=torch.float32) for key in keys.tolist()])
    assert torch.equal(together, one_by_one)


def test_numbers_are_spread_evenly():
    numbers = drawn(3, shape=(1 << 16,))
    assert numbers.min() >= 0 and numbers.max() < 1
    assert abs(numbers.mean() - 1 / 2) < 0.005
    assert abs(numbers.var() - 1 / 12) < 0.002
    assert torch.histc(numbers, 16, 0, 1).sub(4096).abs().max() < 5 * 4096**0.5


def correlation(first, second):
    return abs(torch.corrcoef(torch.stack([first, second]))[0, 1])


@pytest.mark.parametrize("key", [0, 41, 1 << 40])
def test_neighbours_have_nothing_in_common(key):
    """Neighbouring keys (the batches of an epoch), neighbouring places, and two purposes of one key."""
    here = drawn(key, shape=(1 << 14,))
    others = [drawn(key + 1, shape=here.shape), here.roll(1), drawn(key, "other", here.shape)]
    assert all(correlation(here, other) < 0.03 for other in others)
    assert not any(torch.equal(here, other) for other in others)
    firsts = torch.stack([drawn(key + number, shape=()) for number in range(2000)])
    assert correlation(firsts[1:], firsts[:-1]) < 0.08


# Global generators


def seed_all(seed):
    torch.manual_seed(seed)
    np.random.seed(seed)
    random.seed(seed)


def states():
    """Where the global generators are."""
    return torch.get_rng_state().tolist(), [*map(str, np.random.get_state()[1:])], random.getstate()


@pytest.mark.parametrize("executor", [Loop, Stacked])
@pytest.mark.parametrize("name", ["fedavg", "fedcosr"])
def test_global_generators_are_neither_read_nor_moved(name, executor):
    actual, simulation = [], simulations.ragged(model_dropout=0.5, participation=0.5, executor=executor())
    simulations.run(name, simulation)  # a library that torch imports on first use may draw
    for seed in (1, 2):
        seed_all(seed)
        before = states()
        actual.append(simulations.run(name, simulation).progress)
        assert states() == before
    assert actual[0].record.rows == actual[1].record.rows
    assert_equal_states(actual[0].state, actual[1].state)


def test_participants_and_batches_are_drawn_by_name():
    where = simulations.ragged(seed=3, participation=0.4)
    assert participants(where, 2).tolist() == sorted(generator("participation", 3, 2).permutation(5)[:2])
    task = LocalTask(where.data, where.data.train, where.model, 4, 3, 2, [1], {}, {}, {})
    assert task.order(1, 0).tolist() == generator("batches", 3, 1, 2, 0, "main").permutation(10).tolist()


def test_the_servers_draws_depend_on_purpose_seed_and_round_alone():
    def draw(purpose="noise", seed=0, round_=0, clients=(0, 1)):
        fed = Federation(simulations.ragged(seed=seed), torch.tensor(clients), round_, None, State())
        return fed.random(purpose).random(5).tolist()

    assert draw() == draw() == draw(clients=(2,))
    assert all(draw() != other for other in (draw("else"), draw(seed=1), draw(round_=1)))
