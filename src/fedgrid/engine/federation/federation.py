"""What a method sees of the federation: the clients of one round, and what can be done with them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedgrid.engine.federation.aggregation import aggregate
from fedgrid.engine.federation.malicious import attacked, is_of_model
from fedgrid.engine.federation.simulation import Simulation
from fedgrid.engine.federation.traffic import Traffic, bytes_of
from fedgrid.engine.local import attacks
from fedgrid.engine.local.altered_images import altered
from fedgrid.engine.local.context import Batch, LossContext
from fedgrid.engine.local.devices import now, sent
from fedgrid.engine.local.executor import Trained
from fedgrid.engine.local.optimizers import Optimizer, depends_on_rounds, study_optimizer
from fedgrid.engine.local.task import LocalTask, Loss, Measurement, Step
from fedgrid.engine.state.state import State
from fedgrid.models.base import Network
from fedgrid.models.common.norm import variances
from fedgrid.randomness import generator
from fedgrid.settings import Training
from fedgrid.tree import TensorOrTree, Tree, adding_up, as_tree, placed, rows, tree_map


@dataclass(frozen=True)
class Federation:
    """The n clients `ids` of one round. A *stack* is a tensor or tree with one row for each of them, in this order."""

    simulation: Simulation
    ids: Tensor
    "Client numbers [n], ascending."
    round: int
    "Rounds done before this one, t."
    traffic: Traffic = field(repr=False)
    state: State = field(repr=False)
    "The state of the round, as these clients see it: `at.server` and `at.client` in a loss, with what a call adds."
    phases: dict[str, float] = field(default_factory=dict, repr=False)
    "Seconds by name so far; see `phase`."
    work: Mapping[int, float] = field(default_factory=dict, repr=False)
    "Of stragglers, by number: the share of its local steps after which each is stopped."
    effects: set[str] = field(default_factory=set, repr=False)
    "Which of the settings `attack` and `aggregation` this round has had an occasion for so far."

    @property
    def model(self) -> Network:
        """The network; its `width` is k, its `classes` is C."""
        return self.simulation.model

    @cached_property
    def numbers(self) -> list[int]:
        """The same client numbers on the processor; a GPU is synchronised once for them."""
        return self.ids.tolist()

    @property
    def size(self) -> int:
        """Number of clients here, n."""
        return len(self.ids)

    @property
    def total(self) -> int:
        """Number of all clients of the federation, N."""
        return self.simulation.data.clients

    @property
    def clients_with_data(self) -> int:
        """Number of clients of the federation that can take part: that have training images, and are not new ones."""
        return len(self.simulation.members)

    @property
    def training(self) -> Training:
        """The settings that all methods of the study share: local epochs, batch size, rounds.

        Whether the number of rounds is read is noted: then a longer run cannot continue from this one.
        """
        return self.simulation.noting_reads

    @property
    def optimizer(self) -> Optimizer:
        """The study's optimiser with its learning rate in this round; ``.but(lr=0.1)`` gives another one."""
        training = self.simulation.training
        if depends_on_rounds(training, self.round):
            self.simulation.reads.add(f"the schedule '{training.lr_schedule}' depends on the number of rounds")
        return study_optimizer(training, self.round)

    def random(self, purpose: str) -> np.random.Generator:
        """A generator for the server's random draws: the same one for the same purpose, seed and round."""
        return generator(f"method {purpose}", self.simulation.seed, self.round)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Times the block of a ``with`` statement; the cell's costs have the seconds by name, summed over all rounds.

        They stay part of the clients' or of the server's seconds. A phase inside another counts in both.
        """
        start = now(self.simulation.device)
        yield
        self.phases[name] = self.phases.get(name, 0.0) + now(self.simulation.device) - start

    @property
    def counts(self) -> Tensor:
        """Training images of each client and class, float64 [n, C]."""
        return self.simulation.data.counts[self.ids]

    @cached_property
    def weights(self) -> Tensor:
        """p_i = n_i / Σ_j n_j over these clients, float64 [n]."""
        sizes = self.counts.sum(dim=1)
        return sizes / sizes.sum()

    @cached_property
    def modality(self) -> Tensor:
        """The number of each client's modality [n]; 0 for all on plain data."""
        known = self.simulation.data.modality
        return self.ids.new_tensor([known[i] for i in self.numbers]) if known else torch.zeros_like(self.ids)

    @cached_property
    def modalities(self) -> list[tuple[Network, Tensor]]:
        """For each modality present, the network for its batches and the positions [m] (int64) of its clients here.

        On plain data there is one. A method that runs once for each modality sees plain data, too.
        """
        if not self.simulation.data.modality:
            return [(self.model, torch.arange(self.size, device=self.ids.device))] if self.size else []
        modality = [self.simulation.data.modality[client] for client in self.numbers]
        networks = [(network, np.flatnonzero(np.equal(modality, number))) for number, network in self._networks()]
        networks = [(network, places) for network, places in networks if len(places)]
        where = sent([places for _, places in networks], self.ids.device)
        return [(network, places) for (network, _), places in zip(networks, where, strict=True)]

    def _networks(self) -> list[tuple[int, Network]]:
        names = self.simulation.data.modalities
        return [(number, self.model.only(name)) for number, name in enumerate(names)] or [(0, self.model)]

    def sample(self, purpose: str, share: float) -> Iterator[tuple[Network, Batch]]:
        """Large batches of a `share` of all clients' training images, the same in every round of a cell.

        The share is of each class, and at least one image. Yields (network, batch), the network of its modality.
        """
        data = self.simulation.data
        for number, network in self._networks():
            data_of_client = data.only(number) if data.modality else data
            index = data_of_client.sample(share, generator(f"sample {purpose}", self.simulation.seed, network.modality))
            for some in index.split(data.large_batch) if len(index) else ():
                yield network, data.batch(some, network.modality)

    def initial(self) -> Tree:
        """The common initial model θ⁰."""
        return Tree(self.simulation.initial)

    def parameters(self, theta: Tree) -> Tree:
        """What is trained of θ (or of a stack): all but the statistics of batch norm.

        In a stack of clients of several modalities, zeros are where a client's modality has nothing.
        """
        trained = self.model.parameters(theta)
        if not self.simulation.data.modality:
            return trained
        trained_here = tree_map(torch.zeros_like, trained)
        for network, where in self.modalities:
            part = network.part_of_modality(rows(trained, where))
            trained_here |= placed({name: trained_here[name] for name in part}, where, part)
        return trained_here

    def replicate(self, tree: TensorOrTree) -> TensorOrTree:
        """The same tree for every client, as a stack (no memory is used)."""
        return tree_map(lambda t: t.expand(self.size, *t.shape), tree)

    def average(self, stack: TensorOrTree, weights: Tensor | None = None) -> TensorOrTree:
        """Σ_i p_i·stack[i], by training images (FedAvg) or by `weights` [n]; ValueError where these do not sum to 1.

        Where the study sets another `aggregation`, it is that of the rows, which then count equally.
        """
        self.effects.add("aggregation")
        return aggregate(stack, self.weights if weights is None else adding_up(weights), self.simulation.training)

    def subset(self, chosen: Tensor | slice) -> "Federation":
        """The federation of some of these clients; `chosen` is bool [n], positions [m] or a slice.

        Their rows of a tree are ``stack.rows(chosen)``, those of a tensor ``tensor[chosen]``.
        """
        return replace(self, ids=self.ids[chosen], state=self.state.gather(chosen))

    def broadcast(self, tree: TensorOrTree, mask: Tensor | None = None) -> TensorOrTree:
        """The server sends `tree` to every client: counts the bytes, and returns it as a stack [n, …].

        `mask` (bool) marks the leading entries of the tensors that travel, such as the known classes [C] of [C, k].
        """
        return self.send(self.replicate(tree), None if mask is None else self.replicate(mask))

    def send(self, stack: TensorOrTree, mask: Tensor | None = None) -> TensorOrTree:
        """The server sends each client its row: counted and returned unchanged; `mask` [n, …] as in `broadcast`."""
        self.traffic.down[self.ids] += self._bytes(stack, mask)
        return stack

    def upload(self, stack: TensorOrTree, mask: Tensor | None = None) -> TensorOrTree:
        """Every client sends its row to the server: counted and returned; `mask` [n, …] as in `broadcast`.

        It is returned unchanged but for the models of clients that attack by their uploads.
        """
        self.traffic.up[self.ids] += self._bytes(stack, mask)
        theta = self.state.server.get("theta", Tree())
        if not self.simulation.training.attacks_uploads or not is_of_model(stack, theta):
            return stack
        self.effects.add("attack")
        return attacked(self.simulation, stack, theta, self.numbers, self.round)

    def train(
        self,
        theta: Tree,
        loss: Loss,
        *,
        server: Mapping[str, Any] | None = None,
        clients: Mapping[str, Any] | None = None,
        epochs: int | None = None,
        steps: int | None = None,
        share: float = 1.0,
        optimizer: Optimizer | None = None,
        part: str = "",
        stream: str = "main",
        model: attacks.ModelOf = attacks.model_itself,
    ) -> Trained:
        """Local training of the stack `theta` [n, …], a flat tree of floats, down `loss` from a fresh optimiser.

        The loss sees the state of the round as `at.server` and `at.client`, and what `server` and `clients` (stacks)
        add to it by name. The defaults of `epochs`, `steps` and `optimizer` are the study's. `steps` is a number of
        batches in place of epochs, `share` the part of a client's images that an epoch uses, above 0 and at most 1.
        With `part`, only parameters whose names start with it are trained, such as ``head``. The loss may return named
        quantities as a second value, each as (sum over samples, number of samples); `Trained.mean` holds their means
        over the last epoch. Two trainings with the same `stream` in a round see the same batches. `model` is as in
        `iterate`.

        Raises `Diverged` if a loss or a trained model is not finite, and ValueError if no parameter is of the `part`.
        """
        task = self._task(theta, server, clients, epochs, steps=steps, share=share, stream=stream)
        trained = self.simulation.executor.train(
            task,
            altered(loss, self.simulation.data, self.simulation.training, model),
            optimizer or self.optimizer,
            part,
        )
        return trained if part == "head" else replace(trained, theta=self._settled(trained.theta, trained.steps))

    def iterate(
        self,
        theta: Mapping[str, Any],
        step: Step,
        *,
        batches: int = 1,
        server: Mapping[str, Any] | None = None,
        clients: Mapping[str, Any] | None = None,
        epochs: int | None = None,
        steps: int | None = None,
        share: float = 1.0,
        stream: str = "main",
        model: attacks.ModelOf = attacks.model_itself,
    ) -> Trained:
        """Local training of the stack `theta` [n, …] by a step of the method's own, without the study's optimiser.

        `step` is a pure function (θ, batch, at) → (θ, loss) that is called for every batch, for methods that solve a
        problem in each step (pFedMe) or take gradients at another point. It takes gradients with `torch.func.grad`,
        since it is called without autograd; its tree may nest, and keeps its names, shapes and types. With several
        `batches` a step is called with a list of consecutive ones, which may span two epochs (Per-FedAvg); left-over
        batches are not used. Adversarial training moves images against `model`, a function (θ, at) → parameters, by
        default θ or its entry ``theta``. The rest is as in `train`.

        Raises `Diverged` as `train` does, and ValueError if a step returns a tree of another form.
        """
        task = self._task(theta, server, clients, epochs, steps=steps, share=share, stream=stream, together=batches)
        trained = self.simulation.executor.iterate(
            task, altered(step, self.simulation.data, self.simulation.training, model)
        )
        return replace(trained, theta=self._settled(trained.theta, trained.steps))

    def measure(
        self,
        theta: Tree,
        measurement: Measurement,
        *,
        server: Mapping[str, Any] | None = None,
        clients: Mapping[str, Any] | None = None,
    ) -> Tree:
        """Sums over each client's training images, as stacks [n, …], in evaluation mode and without gradient.

        `measurement` is a pure function (θ, batch, at) → named tensors that are added up over the batches: zeros for a
        client without images.
        """
        return self.simulation.executor.measure(self._large(theta, server, clients, "train"), measurement)

    def test(
        self,
        theta: Tree,
        measurement: Measurement,
        *,
        server: Mapping[str, Any] | None = None,
        images: str = "test",
    ) -> Tree:
        """As `measure`, over each client's ``test`` or ``validation`` images, if the partition holds out the latter.

        Test images are for evaluation alone; on validation images a method may choose a hyperparameter (kNN-Per's λ).
        """
        return self.simulation.executor.measure(self._large(theta, server, None, images), measurement)

    def collect(self, theta: Tree, function: Measurement, *, images: str = "train") -> list[Tree]:
        """Values for each image, without gradient: for every client, named tensors [n_i, …], a row for each image.

        `function` is as in `measure`, but its tensors have the batch's images along their first axis, as
        representations [B, k] do. `images` are ``train``, ``test`` or ``validation``; they are not augmented, and keep
        the order of the partition.
        """
        return self.simulation.executor.collect(self._large(theta, {}, {}, images), function)

    def representations(self, theta: Tree, *, images: str = "train") -> list[tuple[Tensor, Tensor]]:
        """Every client's representations [n_i, k] of its images under its model of the stack, and labels [n_i]."""

        def values(theta_i: Tree, batch: Batch, at: LossContext) -> dict[str, Tensor]:
            return {"z": at.model.features(theta_i, batch.x), "y": batch.y}

        return [(result.z, result.y) for result in self.collect(theta, values, images=images)]

    def _bytes(self, stack: Any, mask: Tensor | None) -> Tensor | float:
        """Bytes of every row; what belongs to other modalities than the client's own does not travel."""
        if not self.simulation.data.modality:
            return bytes_of(stack, mask)
        total = torch.zeros_like(self.ids, dtype=torch.float64)
        for network, where in self.modalities:
            part = rows(network.part_of_modality(stack), where)
            total[where] += bytes_of(part, None if mask is None else mask[where])
        return total

    def _settled(self, theta: Any, steps: Tensor) -> Any:
        """A stack of parameters whose batch-norm statistics are those of each client's images under them.

        They are measured in one more pass, in training mode and in batches of the study's size (PreciseBN: Wu &
        Johnson, Rethinking "Batch" in BatchNorm, 2021), so that no step needs to keep a running value. In nested trees
        this holds for every parameter set; what holds no statistics is returned as it is. A client that took no step,
        or has one image and so no variance to measure, keeps those that it started with.
        """
        names = self.model.statistics
        if not names or not isinstance(theta, dict) or not steps.any():
            return theta
        if not theta.keys() >= set(names):
            return Tree((key, self._settled(part, steps)) for key, part in theta.items())
        zero = {name: torch.zeros_like(theta[name]) for name in names}
        task = self._task({"theta": theta, "sums": zero}, None, None, epochs=1, stream="statistics")
        sums = self.simulation.executor.iterate(replace(task, work={}), _moments).theta["sums"]
        images = self.counts.sum(dim=1)
        share = (1 / images.clamp(min=1)).unsqueeze(1)
        means = {name: (total * share).to(total.dtype) for name, total in sums.items()}
        settled = variances(means)
        measured = ((images > 1) & (steps > 0)).unsqueeze(1)
        return theta | {name: torch.where(measured, settled[name], theta[name]) for name in names}

    def _large(
        self, theta: Tree, server: Mapping[str, Any] | None, clients: Mapping[str, Any] | None, images: str
    ) -> LocalTask:
        """A pass without training, in large batches."""
        data, task = self.simulation.data, self._task(theta, server, clients, epochs=1)
        return replace(task, images=getattr(data, images), batch_size=data.large_batch, work={})

    def _task(
        self,
        theta: Mapping[str, Any],
        server: Mapping[str, Any] | None,
        clients: Mapping[str, Any] | None,
        epochs: int | None = None,
        steps: int | None = None,
        **order: Any,
    ) -> LocalTask:
        simulation = self.simulation
        return LocalTask(
            data=simulation.data,
            images=simulation.data.train,
            model=simulation.model,
            batch_size=simulation.training.batch_size,
            seed=simulation.seed,
            round=self.round,
            ids=self.numbers,
            theta=as_tree(theta),
            server=self.state.server | as_tree(server or {}),
            clients=self.state.clients | as_tree(clients or {}),
            epochs=simulation.training.local_epochs if epochs is None else epochs,
            steps=simulation.training.local_steps if epochs is None and steps is None else steps,
            work=self.work,
            **order,
        )


def _moments(both: Tree, batch: Batch, at: LossContext) -> tuple[Mapping[str, Any], Tensor]:
    """A step that adds a batch's moments, times its images, to the sums."""
    moments = at.model.moments(both.theta, batch.x)
    sums = {name: total + len(batch.y) * moments[name] for name, total in both.sums.items()}
    return {"theta": both.theta, "sums": sums}, batch.x.new_zeros(())
