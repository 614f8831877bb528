"""How many images a second one core of this machine trains and evaluates: a measurement of seconds, for estimates."""

import time
from collections.abc import Callable, Sequence
from typing import cast

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from fedgrid.engine.compute import CLIENTS_WORTH_A_CALL, executor_for
from fedgrid.engine.federation.participation import everyone
from fedgrid.engine.federation.simulation import Simulation, dtype_of
from fedgrid.engine.local.client_data import ClientData
from fedgrid.engine.local.context import Batch, LossContext
from fedgrid.engine.local.loop import Loop
from fedgrid.grid.costs.forecast import Speed, Trial
from fedgrid.grid.plan.keys import RANDOM
from fedgrid.loading import load
from fedgrid.models.base import PADDING_AND_UNKNOWN, Model, Network
from fedgrid.settings import Compute, Training
from fedgrid.tree import Tree

SECONDS = 2.0
"Of the processor, for all trials together."
LEAST = 2
"Batches that are measured at least, after one that warms up."


def speeds(trials: Sequence[Trial]) -> list[Speed]:
    """The speed of every trial, on one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return [speed(trial, SECONDS / len(trials)) for trial in trials]
    finally:
        torch.set_num_threads(threads)


def sizes(trials: Sequence[Trial]) -> list[int]:
    """The numbers in the network of every trial: parameters and statistics, of all its extractors."""
    modules = [_network(trial).modules.values() for trial in trials]
    return [sum(t.numel() for module in some for t in module.state_dict().values()) for some in modules]


def speed(trial: Trial, share: float) -> Speed:
    """The speed of a trial, measured for about `share` seconds, or for `LEAST` batches."""
    simulation = _simulation(trial)
    fed, clients = everyone(simulation, 0), simulation.data.clients
    theta = fed.replicate(fed.initial())

    def train(batches: int) -> int:
        fed.train(theta, _loss, steps=batches)
        return clients * batches * trial.batch_size

    def evaluate(batches: int) -> int:
        for _ in range(batches):
            fed.test(theta, _hits)
        return clients * batches * simulation.data.large_batch

    return Speed(_rate(train, share / 2), _rate(evaluate, share / 2))


def _rate(work: Callable[[int], int], share: float) -> float:
    """Images a second of `work`, a function of a number of batches that returns their number of images."""
    work(1)
    images, spent = _timed(work, LEAST)
    if spent < share / 2:
        images, spent = _timed(work, int(LEAST * (share - spent) / spent))
    return images / spent


def _timed(work: Callable[[int], int], batches: int) -> tuple[int, float]:
    start = time.process_time()  # not the clock: other processes may be at work, and cells have a core each
    images = work(batches)
    return images, max(time.process_time() - start, 1e-6)


def _simulation(trial: Trial) -> Simulation:
    """Black images; as many clients as the executor that `auto` chooses for such a trial takes together."""
    height, width, channels = trial.shape
    network, device = _network(trial), torch.device("cpu")
    if network.modalities:
        network = network.only(network.modalities[0])  # of pictures, which texts do not outweigh
    training = Training(batch_size=trial.batch_size, lr=1e-6, **trial.training)
    if training.dtype == "bfloat16-mixed":
        network = network.in_bfloat16()
    flops = network.flops(trial.shape) * trial.batch_size
    executor = executor_for(Compute(), device, flops, CLIENTS_WORTH_A_CALL if trial.in_step else 1)
    clients = 1 if isinstance(executor, Loop) else CLIENTS_WORTH_A_CALL
    kind = torch.int32 if network.textual else torch.uint8
    images = torch.zeros(64 + trial.batch_size, height, width, channels, dtype=kind).permute(0, 3, 1, 2)
    train, test = torch.arange(trial.batch_size), torch.arange(64)
    labels = torch.zeros(len(images), dtype=torch.long)
    constant = torch.ones(1, channels, 1, 1, dtype=dtype_of(training))
    data = ClientData(images, labels, [train] * clients, [test] * clients, trial.classes, constant, constant)
    return Simulation(data, network, training, executor, 0, device)


def _network(trial: Trial) -> Network:
    kind = cast(type[Model], load("models", trial.model.reference))
    settings = {**trial.model.settings, **({"weights": RANDOM} if kind.pretrained else {})}  # a plan downloads nothing
    return kind(**settings).network(trial.shape, trial.classes, trial.vocabulary + PADDING_AND_UNKNOWN)


def _loss(theta: Tree, batch: Batch, at: LossContext) -> Tensor:
    return cross_entropy(at.model(theta, batch.x), batch.y)


def _hits(theta: Tree, batch: Batch, at: LossContext) -> dict[str, Tensor]:
    return {"correct": (at.model(theta, batch.x).argmax(dim=1) == batch.y).sum()}
