"""One cell computed: from its specification and its files to its outcome. With this module the code of a key begins."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import torch

from fedgrid.engine import artifacts
from fedgrid.engine.federation.malicious import with_malicious
from fedgrid.engine.federation.method import Method
from fedgrid.engine.federation.participation import new_clients
from fedgrid.engine.federation.simulation import Simulation, dtype_of
from fedgrid.engine.kept_models import KeptModels, kept_models
from fedgrid.engine.local import client_data
from fedgrid.engine.local.captured import Captured
from fedgrid.engine.local.devices import chosen
from fedgrid.engine.local.executor import Executor
from fedgrid.engine.local.grouping import batches_per_call
from fedgrid.engine.local.loop import Loop
from fedgrid.engine.local.lowered import Lowered
from fedgrid.engine.local.stacked import Stacked
from fedgrid.engine.rounds import Outcome, federate
from fedgrid.engine.state.checkpoint import Progress
from fedgrid.engine.state.saving import Saving
from fedgrid.errors import UserError
from fedgrid.loading import load
from fedgrid.models.base import Model
from fedgrid.settings import Compute, Training

FLOPS_OF_OVERHEAD, CLIENTS_WORTH_A_CALL = 4e6, 6
"Where a stack of clients is faster on a processor: measured by benchmarks/throughput.py, see benchmarks/results."
Tell = Callable[[Progress, str], None]
"Is called with a remark, or without one after each round."


@dataclass(frozen=True)
class Sources:
    """What a cell is computed from: its specification, and the files of its partition and of its data set by part."""

    spec: Mapping[str, Any]
    method: str
    "How the study names the method: a name, or the path of its file."
    partition: Path
    data: Mapping[str, Path]


@dataclass(frozen=True)
class Computed:
    """A cell after its last round."""

    method: Method
    simulation: Simulation
    outcome: Outcome
    wanted: Collection[str] = ()
    "Kinds of artifacts that are wanted."

    def artifacts(self) -> dict[str, pa.RecordBatchReader]:
        """Tables that are kept beside the results, by kind, in parts; see `fedgrid.engine.artifacts`."""
        return artifacts.tables(self.wanted, self.method, self.simulation, self.outcome.progress, self.outcome.last)

    def models(self) -> Iterator[KeptModels]:
        """The models at each point of the last round, in parts; see `fedgrid.engine.kept_models`."""
        return kept_models(self.method, self.simulation, self.outcome.progress, self.outcome.last)


def compute(
    sources: Sources,
    settings: Compute,
    saving: Saving | None = None,
    tell: Tell | None = None,
    wanted: Collection[str] = (),
) -> Computed:
    """All rounds of a cell, from its checkpoint where there is one; `wanted` names the artifacts to keep."""
    method, simulation = _prepare(sources, settings)
    outcome = federate(method, simulation, saving, tell, matrices="cooperation" in wanted)
    if tell and isinstance(simulation.executor, Captured):
        tell(outcome.progress, simulation.executor.remark())
    return Computed(method, simulation, outcome, wanted)


def _prepare(sources: Sources, settings: Compute) -> tuple[Method, Simulation]:
    """The method and the simulation of a cell, with torch set as its specification and `settings` ask for."""
    torch.set_num_threads(settings.threads)
    torch.backends.cudnn.deterministic = True
    tf32 = sources.spec["training"]["tf32"]
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = tf32
    method = cast(Method, load("methods", sources.method)(**sources.spec["method"]["settings"]))
    return method, simulation_of(sources, settings)


def simulation_of(sources: Sources, settings: Compute) -> Simulation:
    """Images, network and executor of a cell, on its device."""
    spec, device = sources.spec, chosen(settings.device)
    training = Training(**spec["training"])
    images = client_data.load(sources.data, sources.partition, device, dtype_of(training))
    model = cast(Model, load("models", spec["model"]["name"])(**spec["model"]["settings"]))
    _, channels, height, width = images.images.shape
    network = model.network((height, width, channels), images.classes, images.vocabulary)
    if training.dtype == "bfloat16-mixed":
        network = network.in_bfloat16()
    length = 1 if images.tokens is None else images.tokens.shape[2]
    flops = network.flops((height, width, channels), length) * training.batch_size
    together = training.participation * batches_per_call(images.train, training.batch_size)
    executor = executor_for(settings, device, flops, together)
    new = new_clients(images, training.new_clients, spec["seed"])
    return with_malicious(Simulation(images, network, training, executor, spec["seed"], device, new))


def executor_for(settings: Compute, device: torch.device, flops: int, together: float) -> Executor:
    """The executor that was asked for; `auto` is lowered on a GPU, and on a processor stacked for small steps of many.

    There a small step (`flops` of the forward pass of a batch) is mostly overhead, which a stack shares if it serves
    enough clients at a time (`together`, on average); a large step alone fills the processor.
    """
    kind = settings.executor
    if kind == "auto":
        shared = flops <= FLOPS_OF_OVERHEAD and together >= CLIENTS_WORTH_A_CALL
        kind = "lowered" if device.type == "cuda" else "stacked" if shared else "loop"
    if kind == "loop":
        return Loop()
    chunk = None if settings.client_chunk == "auto" else int(settings.client_chunk)
    share = 1 if settings.gpu_share == "auto" else int(settings.gpu_share)
    if kind == "stacked":
        return Stacked(chunk, share)
    if device.type != "cuda":
        raise UserError(f"compute.executor: '{kind}' needs a CUDA GPU; choose auto, loop or stacked")
    return Captured(chunk, share) if kind == "captured" else Lowered(chunk, share)
