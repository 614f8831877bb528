"""Edits of the package: some that change no bit of any result, and some that change a few, perhaps in a corner."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

SAME, DIFFERENT = "no bit", "numbers"
"What an edit changes."
OPTIMIZERS, PARTICIPATION, TASK = (
    "engine/local/optimizers.py",
    "engine/federation/participation.py",
    "engine/local/task.py",
)
ATTACKS, ATTACKED, LOSSES = "engine/local/attacks.py", "engine/local/attacked.py", "engine/local/losses.py"
EVALUATION, ARTIFACTS, ROUNDS = "engine/evaluation.py", "engine/artifacts.py", "engine/rounds.py"
FEDERATION, DITTO, METHOD = "engine/federation/federation.py", "methods/ditto.py", "engine/federation/method.py"
Replaced = tuple[str, str, str]
"A file, a text in it, and the text that replaces it."


class NotOnce(ValueError):
    """A text that an edit replaces is not in its file exactly once."""


@dataclass(frozen=True)
class Edit:
    """Texts of files of the package, each replaced by another, and files that it adds."""

    name: str
    changes: str
    "What it changes, one of the above."
    says: str
    "What it does, in words."
    replaced: tuple[Replaced, ...]
    added: Mapping[str, str] = field(default_factory=dict)
    "Content by file."

    def apply(self, package: Path) -> None:
        """Edits a copy of the package; raises NotOnce."""
        for name, old, new in self.replaced:
            file = package / name
            text = file.read_text(encoding="utf-8")
            if text.count(old) != 1:
                raise NotOnce(f"edit '{self.name}': {name} has its text {text.count(old)} times, not once:\n{old}")
            file.write_text(text.replace(old, new), encoding="utf-8")
        for name, text in self.added.items():
            (package / name).write_text(text, encoding="utf-8")


def same(name: str, says: str, *replaced: Replaced, added: Mapping[str, str] | None = None) -> Edit:
    """An edit that changes no bit."""
    return Edit(name, SAME, says, replaced, added or {})


def different(name: str, says: str, *replaced: Replaced) -> Edit:
    """An edit that changes numbers."""
    return Edit(name, DIFFERENT, says, replaced)


MODEL_ITSELF = '''def model_itself(theta: Tree, at: LossContext) -> Tree:
    """The model of a client whose θ is one, or has one as its entry ``theta``."""
    model: Tree = theta.get("theta", theta)
    if not all(isinstance(t, Tensor) for t in model.values()):
        raise ValueError(f"iterate: say which `model` images are moved against; θ holds {', '.join(theta)}")
    return model
'''
IMPORT = "from fedgrid.engine.local.client_data import Range\n"
ATTACKED_MODULE = f"""from torch import Tensor

from fedgrid.engine.local.context import LossContext
from fedgrid.tree import Tree


{MODEL_ITSELF}"""
BY_TYPE = """    by_type: dict[torch.dtype, list[Tensor]] = {}
    for t in leaves(tree):
        if t.is_floating_point():
            by_type.setdefault(t.dtype, []).append(t.flatten())
"""
BY_TYPE_IN_ONE = """    floats = [t.flatten() for t in leaves(tree) if t.is_floating_point()]
    by_type = {kind: [t for t in floats if t.dtype == kind] for kind in dict.fromkeys(t.dtype for t in floats)}
"""
SCORING = """    clients, prefix = scored(simulation, done)
    scores = RoundScores()
    for part in in_parts(simulation, done, clients, population):
        for view in views(method, part, fed, trained):
            evaluate(*view, scores)
    for metric, numbers, values in scores.entries():
        record.add(done, prefix + metric, numbers, values)
"""
PULL = "        return self.loss(theta, batch, at) + self.lam / 2 * squared_distance(theta, at.server.theta)\n"
PENALTY = """        return self.loss(theta, batch, at) + self.penalty(theta, at)

    def penalty(self, theta: Tree, at: LossContext) -> Tensor:
        return self.lam / 2 * squared_distance(theta, at.server.theta)
"""
DRAWN = "    return np.sort(able[generator("
EVERYONE_AT_ONCE = f"    if count == len(able):\n        return able\n{DRAWN}"
CLASS = "class Method(Component, abc.ABC):\n"
UNUSED = f"def names_of(tree: Tree) -> list[str]:\n    return list(tree)\n\n\n{CLASS}"
LOSS = '''    """Mean cross entropy of logits [B, C] against labels [B]; 0 for a batch without samples."""
    return torch_cross_entropy(logits, labels, reduction="sum") / max(1, len(labels))
'''
SHORTER_LOSS = '''    """The mean cross entropy of a batch, 0 where it is empty."""
    return torch_cross_entropy(logits, labels, reduction="sum") / max(len(labels), 1)
'''
WEIGHTS = """        sizes = self.counts.sum(dim=1)
        return sizes / sizes.sum()
"""
ASSERTED = WEIGHTS.replace("        return", "        assert (sizes >= 0).all()\n        return")
ONE_CLASS = """        sizes = self.counts.sum(dim=1) * (1 + 0.01 * ((self.counts > 0).sum(dim=1) == 1))
        return sizes / sizes.sum()
"""
TOTAL = "        for value, weight in zip(values, weights.to(values.dtype), strict=True):\n"
FROM_THE_LAST = "        for value, weight in zip(values.flip(0), weights.to(values.dtype).flip(0), strict=True):\n"
EPOCHS = """        if steps is None or not len(self.images[client]):
            return self.epochs
"""
ONE_MORE = """        if steps is None or not len(self.images[client]):
            return self.epochs + (len(self.images[client]) < self.batch_size)
"""
NUMBER = "    number = (shares * _images(data, lists, ids, by_class)).sum(dim=1)\n"
OF_VALIDATION = '    number = number + (view.images == "validation" and fed.round > 3)\n'
OTHER_SEED = "(purpose, self.seed + (self.seed == 6 and self.round > 2), client"

PICTURES, PIXELS, TABLE = "data/sources/pictures.py", "partition/importing/pixels.py", "partition/importing/table.py"
MNISTM, DOMAINNET, FOLDER = "data/mnistm.py", "data/domainnet.py", "data/folder.py"
NUMBER_OF = "label_of = {name: number for number, name in enumerate(self.classes)}"
UNDONE = "values = (images * std + mean) * 255\n    pixels = np.rint(values)"
TEXTS = "    return np.array([str(value).strip() for value in column.to_pylist()], object)\n"
TEXTS_IN_TWO = (
    "    values = map(str, column.to_pylist())\n    return np.array([value.strip() for value in values], object)\n"
)
CHOSEN_PART = 'chosen = {"split": part} if data.by_split else {"train": part == "train"}'
CHOSEN_OTHERWISE = 'chosen = {"train": part == "train"} if not data.by_split else {"split": part}'
DOMAINS = "return tuple(sorted({p.domain for p in entries if p.domain}))"

PLACES = "places[start : start + self.batch_size]"
CHOSEN = "chosen = (chance * (batch.x.shape[1] - 1)).floor()"

EDITS = (
    same("unused function", "adds a function to the interface of methods that nothing calls", (METHOD, CLASS, UNUSED)),
    same(
        "renamed variable",
        "renames a local variable of the rounds",
        (ROUNDS, SCORING, SCORING.replace("scores", "round_scores")),
    ),
    same(
        "moved function",
        "moves a function of the attacks into a module of its own, and imports it back",
        (ATTACKS, MODEL_ITSELF, ""),
        (ATTACKS, IMPORT, f"from fedgrid.engine.local.attacked import model_itself as model_itself\n{IMPORT}"),
        added={ATTACKED: ATTACKED_MODULE},
    ),
    same(
        "annotation",
        "annotates a local variable of the traffic",
        ("engine/federation/traffic.py", "    sent = mask.flatten(1)", "    sent: Tensor = mask.flatten(1)"),
    ),
    same(
        "docstring",
        "shortens a docstring and exchanges the arguments of a `max` beside it",
        (LOSSES, LOSS, SHORTER_LOSS),
    ),
    same("early return", "draws no participants where all clients take part", (PARTICIPATION, DRAWN, EVERYONE_AT_ONCE)),
    same(
        "folded constant",
        "writes 1 − β₁ of Adam as the number that it is",
        (OPTIMIZERS, "(first, slopes, 1 - BETA1)", f"(first, slopes, {1 - 0.9!r})"),
    ),
    same("comprehension", "rewrites a loop as a comprehension", ("tree.py", BY_TYPE, BY_TYPE_IN_ONE)),
    same("assertion", "asserts that no client has a negative number of images", (FEDERATION, WEIGHTS, ASSERTED)),
    same("extracted helper", "gives Ditto's pull a function of its own", (DITTO, PULL, PENALTY)),
    different(
        "order of a sum", "adds up weighted models from the last client to the first", ("tree.py", TOTAL, FROM_THE_LAST)
    ),
    different(
        "default in code",
        "Ditto's personal pass has one epoch where no number is set, whatever the study's",
        (DITTO, "epochs=self.personal_epochs)", "epochs=self.personal_epochs or 1)"),
    ),
    different(
        "late branch",
        "after 70 % of the rounds FedSaC's α becomes a hundredth, not 0",
        ("methods/fedsac.py", "- 1e-9 else 0.0", "- 1e-9 else 0.01 * self.alpha"),
    ),
    different(
        "momentum",
        "dampens the momentum by a millionth",
        (
            OPTIMIZERS,
            'torch._foreach_add_(used_moments["first"], used)',
            'torch._foreach_add_(used_moments["first"], used, alpha=1 - 1e-6)',
        ),
    ),
    different(
        "attack",
        "FGSM of the evaluation takes a step of 0.999·ε",
        (ATTACKS, '"fgsm": Attack(eps, eps, 1)', '"fgsm": Attack(eps, 0.999 * eps, 1)'),
    ),
    different("attack on colour", "ε of colour images becomes 8/256", (ATTACKS, "{True: 8 / 255,", "{True: 8 / 256,")),
    different(
        "participation",
        "rounds the number of participants up, not down",
        (
            "settings.py",
            "math.floor(self.participation * members + 1e-9)",
            "math.ceil(self.participation * members - 1e-9)",
        ),
    ),
    different(
        "clip", "ten times the ε in the norm of a clipped gradient", (OPTIMIZERS, ".sqrt() + 1e-6)", ".sqrt() + 1e-5)")
    ),
    different(
        "clip and momentum",
        "leaves the gradient as it is where there is momentum too",
        (OPTIMIZERS, "if self.clip is not None:", "if self.clip is not None and not self.momentum:"),
    ),
    different("one class", "clients of one class weigh 1 % more in averages", (FEDERATION, WEIGHTS, ONE_CLASS)),
    different("few images", "clients with less than a batch of images train one epoch more", (TASK, EPOCHS, ONE_MORE)),
    different(
        "epochs",
        "in its second epoch a client sees the batches of the first",
        (TASK, "client, self.round, epoch, self.stream)", "client, self.round, 0, self.stream)"),
    ),
    different(
        "one kind of partition",
        "deals the classes of the pathological partition in another order",
        ("partition/pathological.py", "else random.permutation(pool.classes)", "else np.arange(pool.classes)"),
    ),
    different("Adam", "ε of Adam becomes 1e-7", (OPTIMIZERS, "0.9, 0.999, 1e-8", "0.9, 0.999, 1e-7")),
    different(
        "validation",
        "counts one image too many of the validation images, after three rounds",
        (EVALUATION, NUMBER, NUMBER + OF_VALIDATION),
    ),
    different(
        "loss",
        "adds 1e-12 to the loss that is recorded of test images",
        (
            EVALUATION,
            'loss = cross_entropy(scores.double(), batch.y, reduction="sum")',
            'loss = cross_entropy(scores.double(), batch.y, reduction="sum") + 1e-12',
        ),
    ),
    different(
        "artifact",
        "adds 1e-7 to the representations that are kept",
        (ARTIFACTS, "for vector in _rows(z)]", "for vector in _rows(z + 1e-7)]"),
    ),
    different(
        "one seed",
        "from the fourth round on, the seed 6 draws the batches of another seed",
        (TASK, "(purpose, self.seed, client", OTHER_SEED),
    ),
    different(
        "mixed precision",
        "computes in float32 where bfloat16 is asked for",
        ("engine/compute.py", 'training.dtype == "bfloat16-mixed"', 'training.dtype == "bfloat16"'),
    ),
    different(
        "last batch",
        "takes the images of a last, smaller batch in the opposite order, in the loop alone",
        (TASK, PLACES, f"{PLACES}[:: 1 if len(places) - start >= self.batch_size else -1]"),
    ),
    different(
        "no image",
        "lets clients without training images take part",
        ("engine/local/client_data.py", "[len(index) > 0 for index in self.train]", "[True for _ in self.train]"),
    ),
    different(
        "later rounds",
        "draws other participants from the fourth round on",
        (
            PARTICIPATION,
            '"participation", simulation.seed, round_)',
            '"participation", simulation.seed, max(round_, 2))',
        ),
    ),
    different(
        "sampled evaluation",
        "scores another sample of clients between evaluations",
        (PARTICIPATION, '"evaluation sample", simulation.seed)', '"evaluation sample", simulation.seed + 1)'),
    ),
    different(
        "captions",
        "never chooses the last of ten captions",
        ("engine/local/augmentation.py", "chosen = (chance * batch.x.shape[1]).floor()", CHOSEN),
    ),
    different(
        "dropout at the start",
        "draws who never starts as if it were another purpose",
        (
            "engine/federation/failures.py",
            'simulation, "dropout", participants',
            'simulation, "dropouts", participants',
        ),
    ),
    different(
        "stragglers",
        "rounds a straggler's steps up",
        (TASK, "math.floor(self.work[client] * full + 1e-9)", "math.ceil(self.work[client] * full - 1e-9)"),
    ),
    different(
        "probability",
        "adds 1e-6 to the probabilities that are kept",
        (ARTIFACTS, '"probability": probability}', '"probability": probability + 1e-6}'),
    ),
    different(
        "checkpoint",
        "rounds what a checkpoint has recorded to seven digits when it is read",
        (
            "engine/state/checkpoint.py",
            "[v for _, v in pairs]))",
            "[v if rounded != rounded else rounded for _, v in pairs for rounded in [float(f'{v:.7g}')]]))",
        ),
    ),
    different(
        "group norm",
        "makes groups of twice as many channels",
        ("models/common/norm.py", "math.gcd(8, width)", "math.gcd(4, width)"),
    ),
    different(
        "dealt by client",
        "draws the shares of clients with twice the β",
        (
            "partition/dirichlet.py",
            "random.dirichlet(np.full(len(counts), self.beta), size",
            "random.dirichlet(np.full(len(counts), 2 * self.beta), size",
        ),
    ),
    different(
        "greedy angles",
        "adds 1e-9 to the angles between subspaces where they are greedy",
        ("methods/common/subspaces.py", "best.clamp(-1, 1).acos()", "best.clamp(-1, 1 - 1e-9).acos() + 1e-9"),
    ),
    same(
        "variable of MNIST-M",
        "renames a local variable of MNIST-M's reader",
        (MNISTM, "rows = lists.pairs(", "listed = lists.pairs("),
        (MNISTM, "for name, _ in rows)", "for name, _ in listed)"),
        (MNISTM, "for _, label in rows]", "for _, label in listed]"),
    ),
    same(
        "labels of DomainNet",
        "numbers DomainNet's classes by `zip` in place of a comprehension",
        (DOMAINNET, NUMBER_OF, "label_of = dict(zip(self.classes, range(len(self.classes)), strict=True))"),
    ),
    same(
        "variable of pixels",
        "renames a local variable where a normalisation is undone",
        (PIXELS, UNDONE, UNDONE.replace("values", "undone")),
        (PIXELS, "np.abs(values - pixels)", "np.abs(undone - pixels)"),
    ),
    same("texts of a table", "rewrites a comprehension of imported tables in two lines", (TABLE, TEXTS, TEXTS_IN_TWO)),
    same(
        "part for torchvision",
        "exchanges the branches of a conditional expression",
        ("data/families/vision.py", CHOSEN_PART, CHOSEN_OTHERWISE),
    ),
    same(
        "domains of pictures",
        "takes the empty name out of a set of domains, not out of their list",
        (FOLDER, DOMAINS, 'return tuple(sorted({p.domain for p in entries} - {""}))'),
    ),
    different(
        "split of Office-Caltech-10",
        "holds out the picture after the one that is held out for testing",
        (
            "data/office10.py",
            "(i + 1) * held // count > i * held // count",
            "i * held // count > (i - 1) * held // count",
        ),
    ),
    different("EMNIST", "leaves its images transposed", ("data/emnist.py", 'axes = "nwh"', 'axes = "nhw"')),
    different(
        "labels of CUB-200-2011", "counts them from 1", ("data/cub200.py", '"nothing")) - 1 for', '"nothing")) for')
    ),
    different(
        "domains of a copy",
        "puts the published domains of a copy in the order of their names",
        ("data/sources/parquet.py", "return (*known, *sorted(", "return (*sorted(known), *sorted("),
    ),
    different(
        "pictures of 16 bits",
        "rounds them up a little later",
        (PICTURES, "(255 / 65535) + 0.5", "(255 / 65535) + 0.45"),
    ),
    different(
        "resizing",
        "resizes pictures by areas",
        (PICTURES, "(side, side), Image.Resampling.BILINEAR)", "(side, side), Image.Resampling.BOX)"),
    ),
    different(
        "equal images",
        "matches a row with the last of equal images once all are dealt out",
        (
            "partition/importing/matching.py",
            "if number not in dealt), fitting[0])",
            "if number not in dealt), fitting[-1])",
        ),
    ),
    different(
        "normalisation undone",
        "rounds down what another program normalised",
        (PIXELS, "pixels = np.rint(values)", "pixels = np.floor(values)"),
    ),
    different("tolerance", "takes pixels that lie farther from a whole number", (PIXELS, "OFF = 0.02", "OFF = 0.03")),
    different(
        "names of clients",
        "numbers clients by the alphabet alone",
        ("partition/importing/rows.py", "sorted({*names}, key=_natural)", "sorted({*names})"),
    ),
    different(
        "mean of Fashion-MNIST",
        "changes the constant with which its images are normalised",
        ("data/fmnist.py", "mean = (0.2860,)", "mean = (0.2861,)"),
    ),
    different(
        "zero of Synthetic Digits",
        "leaves the label 10 of the digit 0",
        ("data/synth.py", "np.where(labels == 10, 0, labels)", "labels"),
    ),
    different(
        "order of an array",
        "reads an array that is pickled column by column as if it were row by row",
        ("partition/importing/pickled.py", 'order="F" if fortran else "C"', 'order="C"'),
    ),
    different(
        "vocabulary",
        "takes words that come three times in captions",
        ("data/common/captions.py", "OFTEN = 2", "OFTEN = 3"),
    ),
    different(
        "splits of a dictionary",
        "counts the images that a file calls 'val' for testing",
        ("partition/importing/rows.py", '"val": 1', '"val": 2'),
    ),
    different(
        "grey of Digits-Five",
        "resizes grey digits in the order of their rows turned over",
        (
            "data/digit5.py",
            "for gray in pixels]",
            "for gray in (p[:, ::-1] if p.shape[3] == 1 else p for p in pixels)]",
        ),
    ),
)
