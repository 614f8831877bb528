"""The settings of a study outside its components: training, computing, and features in place of images."""

import functools
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from fedgrid.components import Component, describe, hp, identity

ARTIFACTS = {
    "representations": ".representations.parquet",
    "cooperation": ".cooperation.parquet",
    "clusters": ".clusters.parquet",
    "predictions": ".predictions.parquet",
    "models": ".models.safetensors",
    "state": ".state.pt",
}
"The `artifacts` that a study may keep, and with what the names of their files end."
ROWS = ".rows"
"With what the name of the file of clients' rows beside a checkpoint or a state ends."


class Adversarial(Component):
    """Adversarial training: images that PGD has moved against a client's own model (Madry et al., ICLR 2018).

    Lengths are in pixels with black at 0 and white at 1.
    """

    eps: float | None = hp(None, low=0, high=1)
    "Largest change of a pixel, ε; none: 8/255 for colour images, 0.3 for grey ones."
    step: float | None = hp(None, low=0, high=1)
    "Length of a step; none: 2.5·ε/steps for colour images (2/255), 4/3·ε/steps for grey ones (0.04)."
    steps: int = hp(10, low=0)
    "Steps from a random start in the ε-ball; MNIST's usual 40 of 0.01 cost 3.7 times as much."


class Training(Component):
    """Rounds, participation and the local solver."""

    rounds: int = hp(20, low=1)
    "Rounds of communication, T."
    local_epochs: int = hp(1, low=0)
    "Epochs that a participant trains in a round, E."
    local_steps: int | None = hp(None, low=0)
    "Batches that a participant trains on in place of E epochs, however many images it has, as FedSaC's clients do."
    batch_size: int = hp(16, low=1)
    "Images in a batch, B; the last, smaller batch of an epoch is used too."
    optimizer: str = hp("sgd", choices=("sgd", "adam"))
    "Local optimiser; its state is new for every client and round."
    lr: float = hp(0.05, above=0)
    "Local learning rate, η."
    lr_schedule: str = hp("constant", choices=("constant", "exponential", "steps", "cosine"))
    "How η changes from round t to the next: not; η·decay^t; times decay at T/2 and again at 3T/4; half a cosine to 0."
    lr_decay: float = hp(0.99, above=0, high=1)
    "Factor of the exponential schedule and of the steps."
    momentum: float = hp(0.0, low=0, high=0.999)
    "Momentum of sgd."
    weight_decay: float = hp(0.0, low=0)
    "Weight decay (L2) of the optimiser."
    clip: float | None = hp(None, above=0)
    "Largest Euclidean norm of a client's gradient; a longer one is scaled down to it."
    participation: float = hp(1.0, above=0, high=1)
    "Share of the clients with data that take part in a round, drawn anew each round; at least one does."
    dropout: float = hp(0.0, low=0, high=1, since="0.3")
    "Chance that a participant drops out of a round; see `dropout_at`."
    dropout_at: str = hp("upload", choices=("upload", "start"), since="0.3")
    "When it drops out: it trains, and its upload is lost (its own models stay trained); or it never starts."
    stragglers: float = hp(0.0, low=0, high=1, since="0.3")
    "Chance that a participant is slow in a round, and is stopped after a part of its local steps."
    straggler_work: float = hp(0.5, above=0, high=1, since="0.3")
    "That part; at least one step is taken."
    new_clients: float = hp(0.0, low=0, high=0.99, since="0.3")
    "Share of the clients with data that take part in no round and join after the last one, where they are scored."
    augmentation: str = hp("none", choices=("none", "crop-flip"))
    "Of training images: none, or moved by up to 4 pixels and mirrored at random, as FedSaC's code does on CIFAR."
    adversarial: Adversarial | None = hp(None)
    "Trains every method's loss on images moved by PGD; none: on clean ones."
    eval_every: int = hp(1, low=1)
    "Rounds between evaluations; the initial and the last model are always evaluated."
    eval_sample: int | None = hp(None, low=1, since="0.2")
    "Clients, the same ones throughout, whose models are scored in the rounds between evaluations too; none: nobody's."
    evaluate: tuple[str, ...] = hp(("clean",), choices=("clean", "fgsm", "pgd20"))
    "What models are scored on: clean images always, and images under these attacks in the last five evaluated rounds."
    eval_eps: float | None = hp(None, low=0, high=1)
    "Largest change of a pixel under these attacks, as `eps` of `adversarial`."
    dtype: str = hp("float32", choices=("float32", "bfloat16-mixed", "float64"))
    "Numbers of the computation; mixed: networks run in bfloat16, parameters, losses and averages in float32."
    tf32: bool = hp(False)
    "Lets a GPU multiply float32 matrices with 10 bits of mantissa: faster, and no longer to float32's precision."


class Backbone(Component):
    """The network whose frozen features replace the images."""

    backbone: str = hp("vit_tiny_patch16_224")
    "A network of timm by its name, or `random`: two fixed random layers, for tests and where no weights are available."
    weights: str = hp("hub")
    "`hub`: the published weights, downloaded; else a .safetensors or .pth file of them. Nothing to `random`."
    batch: int = hp(64, low=1)
    "Images that are computed together; the features are the same, to rounding."


class Compute(Component):
    """How cells are computed; not part of their keys, since the numbers are the same up to rounding."""

    device: str = hp("auto", pattern="auto|cpu|cuda(:[0-9]{1,3})?", form="auto|cpu|cuda|cuda:N")
    "Where cells are computed; auto: on a CUDA GPU where there is one."
    threads: int = hp(1, low=1)
    "Threads of one operation."
    executor: str = hp("auto", choices=("auto", "loop", "stacked", "captured", "lowered"))
    "Clients one after the other or together; on a GPU also in CUDA graphs, lowered: with convolutions as products."
    client_chunk: int | str = hp("auto", pattern="auto|[1-9][0-9]{0,8}", form="auto or a number of clients")
    "Clients that are stacked at a time; auto: as many as fit into memory."
    checkpoint_every: float = hp(60.0, above=0)
    "Seconds between checkpoints."
    gpu_share: int | str = hp("auto", pattern="auto|[1-9][0-9]{0,2}", form="auto or a number of cells")
    "Cells that compute on one GPU at a time; auto: as many as its memory and the machine's cores carry, at most 8."
    pack: int = hp(1, low=1)
    "Cells that share one job of a cluster."
    mem_mb: int = hp(2000, low=1, was="memory")
    "MB that a scheduler reserves for a cell, before one like it was measured."
    runtime: int = hp(60, low=1, was="minutes")
    "Minutes that a scheduler grants a cell, before one like it was measured."


description = functools.cache(describe)
"What `describe` says of the classes of this module, which do not change."


def identity_of_training(training: Training | Mapping[str, Any]) -> dict[str, Any]:
    """Settings of training as they enter keys; see `fedgrid.components.identity`."""
    settings = training if isinstance(training, Mapping) else asdict(training)
    return identity(description(Training), settings)


def identity_of_backbone(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of `Backbone` as they enter keys; see `fedgrid.components.identity`."""
    return identity(description(Backbone), settings)
