"""What cells that are not finished will take: measured on finished ones like them, else counted in images.

A cell is so many images trained and so many evaluated; how many of them a core does in a second is measured elsewhere,
in a process that may import torch.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from fedgrid.data.common.images import DatasetInfo
from fedgrid.files import read_metadata
from fedgrid.grid.costs.formulas import batch_in, images_in_a_round
from fedgrid.grid.costs.measured import cost
from fedgrid.grid.plan.instances import expected_of, info_of
from fedgrid.grid.plan.model import Cell, PlannedDataset
from fedgrid.grid.plan.planned_study import Study
from fedgrid.grid.study.canonical import canonical
from fedgrid.grid.study.model import Configured, Settings
from fedgrid.partition.base import Expected

POINTS = 2
"Points of a round at which most methods are scored, each with a pass over all test images."
METRICS = 12
"Rows of a client and an evaluated round: accuracy and loss at three points, of validation images too, and traffic."
ATTACKED, STEPS = 5, {"fgsm": 1, "pgd20": 20}
"Evaluated rounds in which models are scored under attack too, and gradients that an attack takes at an image."
BYTES_A_ROW, BYTES_A_FILE = 3.5, 10_000
"""Size of results. Measured on FedAvg, FedCoSR and Ditto, 20 to 50 clients, 20 to 60 rounds: a row has 3.0 to 3.7 bytes
once it is compressed, metadata and sums have 10 kB."""
MOST = 256
"Images of a batch that is measured; larger ones are hardly faster, and may not fit into memory."
OF_SOLVER = ("optimizer", "momentum", "weight_decay", "clip", "augmentation", "dtype")
"Settings of training that decide what a step costs."
WORTH_A_CALL = 6
"Clients that `engine.compute` trains together on a processor; it needs torch."
CALLS_OF_SIMILAR, CALLS_OF_OTHERS = (1.0, 1.5, 0.0), (2.5, 0.0, 0.8)
"""Where clients hold about equally many images, and elsewhere, calls of an epoch: so many times the mean number of a
client's full batches, so many more, and so many times the different sizes of last batches. Measured on digits and
synthetic, 8 to 100 clients, batches of 10 to 64."""
FEATURES = 192
"Width of features that are not made yet: that of vit_tiny_patch16_224, and of the random backbone."
Id = tuple[Path, str]
"The store and the key of a cell: two studies that share both train it once."


@dataclass(frozen=True)
class Trial:
    """What decides how many images a second a core trains and evaluates."""

    model: Configured
    shape: tuple[int, int, int]
    "Height, width, channels of an image."
    classes: int
    batch_size: int
    training: Settings = field(default_factory=dict)
    "Of the solver: those of `OF_SOLVER`."
    in_step: bool = True
    "Whether enough clients have a batch at a time for small models to be trained together."
    vocabulary: int = 0
    "Words of texts; of other samples none."

    @property
    def name(self) -> str:
        """The same for equal trials."""
        of_texts = [self.vocabulary] if self.vocabulary else []
        numbers = [self.shape, self.classes, self.batch_size]
        return canonical([self.model.spec, *numbers, self.training, self.in_step, *of_texts])


@dataclass(frozen=True)
class Speed:
    """Images that one core trains (forward and backward) and evaluates in a second."""

    train: float
    evaluate: float


@dataclass(frozen=True)
class Load:
    """What a cell has to do, in all rounds and for all clients."""

    trial: Trial
    trained: float
    "Images."
    evaluated: float
    "Images."
    rows: float
    "Of its results."


@dataclass(frozen=True)
class Prospect:
    """The remaining work of a cell; nothing if it is done or its data are unavailable."""

    cell: Cell
    done: bool
    seconds: float = 0.0
    "On one core."
    memory: float = 0.0
    "Its peak, in MB."
    size: float = 0.0
    "Of its results, in bytes."
    measured: bool = False
    "Whether finished cells like it say so."
    on_gpu: bool = False
    "Whether it will be computed on a GPU; without finished cells like it, its seconds are unknown then."

    @property
    def unknown(self) -> bool:
        """Whether nothing says how long it will take."""
        return self.on_gpu and not (self.done or self.measured or self.unavailable)

    @property
    def unavailable(self) -> str:
        """Why it cannot be trained here; empty where it can be, or is."""
        return "" if self.done else self.cell.partition.data.unavailable


def id_of(cell: Cell) -> Id:
    """What tells a cell from all others."""
    return cell.store, cell.key


def prospects(
    studies: Sequence[Study],
    speeds: Callable[[list[Trial]], list[Speed]],
    on_gpu: Callable[[Study], bool] = lambda study: False,
) -> dict[Id, Prospect]:
    """Of every cell of some studies, once; `speeds` measures what no finished cell says, and is not called in vain.

    `on_gpu` says whether the cells of a study are computed on a GPU, of which a core's speed says nothing.
    """
    every = [(cell, study) for study in studies for cell in study.by_key.values()]
    undone = {id_of(cell) for cell, _ in every if not cell.done}  # one study may keep more of a cell than another
    by_id = {id_of(cell): Prospect(cell, id_of(cell) not in undone) for cell, _ in every}
    loads, counted = Loads(), {}
    for cell, study in every:
        name = id_of(cell)
        if by_id[name].done or by_id[name].unavailable or by_id[name].measured or name in counted:
            continue
        if known := cost(cell):
            by_id[name] = Prospect(cell, False, known.seconds, known.memory, known.size, True, known.on_gpu)
        else:
            counted[name] = loads.of(cell, study.data_root)
            size = BYTES_A_FILE + BYTES_A_ROW * counted[name].rows
            by_id[name] = Prospect(cell, False, memory=study.compute.mem_mb, size=size, on_gpu=on_gpu(study))
    counted = {name: load for name, load in counted.items() if not by_id[name].on_gpu}
    trials = {load.trial.name: load.trial for load in counted.values()}
    measured = dict(zip(trials, speeds(list(trials.values())), strict=True)) if trials else {}
    timed = {name: seconds(load, measured[load.trial.name]) for name, load in counted.items()}
    return by_id | {name: replace(by_id[name], seconds=value) for name, value in timed.items()}


def seconds(load: Load, speed: Speed) -> float:
    """Seconds of a load on one core."""
    return load.trained / speed.train + load.evaluated / speed.evaluate


class Loads:
    """Loads of cells; what cells share is worked out once."""

    def __init__(self) -> None:
        self.infos: dict[str, DatasetInfo] = {}
        self.images: dict[tuple[str, int], Expected] = {}

    def of(self, cell: Cell, root: Path | None) -> Load:
        """The load of a cell whose data lie under `root`, estimated before they are dealt out."""
        partition, training = cell.partition, cell.row.training
        if partition.data.key not in self.infos:
            self.infos[partition.data.key] = _info(partition.data, root)
        info, identity = self.infos[partition.data.key], (partition.key, partition.seed)
        if identity not in self.images:
            self.images[identity] = expected_of(partition.component, info, partition.seed)
        images = self.images[identity]
        of_all = 1 + math.ceil(training.rounds / training.eval_every)  # the first and the last model always
        share = min(1.0, (training.eval_sample or 0) / images.clients)
        evaluations = of_all + share * (training.rounds + 1 - of_all)
        # gradients at images for every one at parameters, and at every test image in an evaluation under attack
        adversarial, attacks = training.adversarial, sum(STEPS.get(name, 0) for name in training.evaluate)
        return Load(
            Trial(
                cell.model,
                info.shape,
                len(info.classes),
                min(batch_of(cell, images), MOST),
                {name: getattr(training, name) for name in OF_SOLVER},
                clients_in_step(cell, images) >= WORTH_A_CALL,
                info.vocabulary,
            ),
            training.rounds * trained_in_a_round(cell, images) * (1 + (adversarial.steps if adversarial else 0))
            + min(evaluations - 1, ATTACKED) * POINTS * images.test * attacks,
            evaluations * POINTS * (images.test + images.validation),
            evaluations * images.clients * METRICS,
        )


def trained_in_a_round(cell: Cell, images: Expected) -> float:
    """Images that gradients are taken at in a round; a method whose `work` cannot be read counts as E epochs."""
    row = cell.row
    return images_in_a_round(row.training, row.component.settings, row.work, images.clients, images.train)


def clients_in_step(cell: Cell, images: Expected) -> float:
    """How many clients' batches one call serves, nearly: clients with different numbers of images fall out of step."""
    size, full = batch_of(cell, images), images.train / images.clients / batch_of(cell, images)
    factor, more, of_sizes = CALLS_OF_SIMILAR if images.similar_sizes else CALLS_OF_OTHERS
    calls = factor * full + more + of_sizes * min(images.clients, size)
    participation: float = cell.row.training.participation
    return participation * images.clients * (full + 0.5) / calls


def batch_of(cell: Cell, images: Expected) -> int:
    """Images of a batch: no more than a client has."""
    return batch_in(cell.row.training, images.clients, images.train)


def _info(data: PlannedDataset, root: Path | None) -> DatasetInfo:
    """What a data set holds: of features, as many as of images, in the width that they have or most likely will."""
    if data.images is None:
        return info_of(data.component, root)
    width = read_metadata(data.files["train"])["shape"][2] if data.built else FEATURES
    return replace(_info(data.images, root), shape=(1, 1, width))
