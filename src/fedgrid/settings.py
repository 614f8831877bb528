"""The settings of a study outside its components: training, computing, and features in place of images."""

import functools
import math
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

ROBUST = ("median", "trimmed", "krum", "multi-krum")
"Values of `aggregation` that are meant to bear malicious clients."
KRUM = ("krum", "multi-krum")
"Those of them that choose whole uploads."
SCALES = {"sign": 1.0, "scale": 10.0, "noise": 1.0}
"The default strength of each attack on uploads."


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
    malicious: float = hp(0.0, low=0, high=0.99, since="1.1")
    "Share of the clients that can take part who attack, the same ones in every round; they are not scored."
    attack: str = hp("labels", choices=("labels", "sign", "scale", "noise"), since="1.1")
    """How they attack: train on the labels C − 1 − y; or train as others do and upload, in place of θ, w − s·(θ − w),
    w + s·(θ − w) or w + s·N(0, 1), where w is the model that the server sent."""
    attack_scale: float | None = hp(None, above=0, since="1.1")
    "Strength s of an attack on uploads; none: 10 for `scale`, 1 for `sign` and `noise`."
    aggregation: str = hp("mean", choices=("mean", *ROBUST), since="1.1")
    "How the server aggregates uploads; all but the mean weigh clients equally."
    assumed_malicious: float | None = hp(None, low=0, high=0.49, since="1.1")
    "Share of a round's participants, rounded up, that `trimmed` and Krum guard against; none: `malicious`."
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

    @property
    def attacks_uploads(self) -> bool:
        """Whether malicious clients attack by what they upload."""
        return self.malicious > 0 and self.attack in SCALES

    @property
    def strength(self) -> float:
        """The strength s of the attack on uploads."""
        return SCALES.get(self.attack, 1.0) if self.attack_scale is None else self.attack_scale

    def participants(self, members: int) -> int:
        """Number of clients that take part in a round, of so many that can."""
        return max(1, math.floor(self.participation * members + 1e-9))  # 0.29 of 100 are 29, not 28.99…

    def assumed(self, participants: int) -> int:
        """f, the number of so many participants of a round that robust aggregation guards against."""
        share = self.malicious if self.assumed_malicious is None else self.assumed_malicious
        return math.ceil(share * participants - 1e-9)


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


def averages_missing(training: Training, method: str) -> str:
    """Why the method of that name, without `averages_uploads`, cannot be trained so, in a clause; empty: it can."""
    if training.attacks_uploads:
        setting, neutral = f"attack '{training.attack}'", "{attack: labels}"
    elif training.aggregation != "mean":
        setting, neutral = f"aggregation '{training.aggregation}'", "{aggregation: mean}"
    else:
        return ""
    shared = "a shared model that is made from the average of uploaded models alone"
    return f"training.{setting} requires {shared}; give {method} training: {neutral}"


def aggregation_problem(training: Training) -> str:
    """Why so many malicious clients are beyond the rule of aggregation, in a sentence; empty: they are not."""
    rule, share = training.aggregation, training.malicious
    if rule not in ("trimmed", *KRUM) or training.assumed_malicious is not None or share < 0.5:
        return ""
    return (
        f"training.aggregation '{rule}' guards against fewer than half of the participants, and malicious is "
        f"{share:g}; set assumed_malicious, to 0.4 for example"
    )


def krum_problem(training: Training, participants: int) -> str:
    """Why Krum is not defined for so many participants, in a sentence; empty: it is.

    It takes n ≥ 2f + 3 of them (Blanchard et al., NeurIPS 2017, Proposition 4.2).
    """
    assumed = training.assumed(participants)
    if training.aggregation not in KRUM or participants >= 2 * assumed + 3:
        return ""
    return (
        f"training.aggregation '{training.aggregation}' takes at least 2·{assumed} + 3 participants to guard against "
        f"{assumed}, and a round has {participants}; choose more clients, or a smaller assumed_malicious"
    )


description = functools.cache(describe)
"What `describe` says of the classes of this module, which do not change."


def identity_of_training(training: Training | Mapping[str, Any]) -> dict[str, Any]:
    """Settings of training as they enter keys; see `fedgrid.components.identity`."""
    settings = training if isinstance(training, Mapping) else asdict(training)
    return identity(description(Training), settings)


def identity_of_backbone(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of `Backbone` as they enter keys; see `fedgrid.components.identity`."""
    return identity(description(Backbone), settings)
