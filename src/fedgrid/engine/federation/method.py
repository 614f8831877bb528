"""The contract of a method.

A method is one file with one subclass of `Method`: its annotated fields are its hyperparameters, its functions are the
steps of its paper. The engine calls, for every round t of a cell::

    s = method.setup(everyone)                       # once
    s = method.round(participants, s)                # s.clients holds the participants' rows only
    method.global_model(s), method.received(everyone, s), method.adapted(everyone, s), s.trained

and scores these models on every client's own test images.

What a method may not hold: a loop over batches, an optimiser step, a device, a random generator, a file.
"""

import abc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from torch import Tensor

from fedgrid.components import Component
from fedgrid.engine.federation.federation import Federation
from fedgrid.engine.local.context import Batch, LossContext
from fedgrid.engine.local.losses import cross_entropy
from fedgrid.engine.state.state import State
from fedgrid.errors import UserError, nearest
from fedgrid.tree import Tree

SCORES = ("global", "received", "adapted", "trained")
"Points at which a model is scored: the server's, a client's before local work, adapted for use, after local work."

CLOSED = ("facts", "used")
"Names of `Method` that no method may define: the engine's own."


@dataclass(frozen=True)
class Identity:
    """A limit in which a method must equal `other`; the test suite checks every one.

    `settings` are the hyperparameters of this method and `other_settings` those of the other. `models` says which
    models are compared: ``used`` (adapted or as received), ``trained`` or ``global``. The data are split into `clients`
    clients, and both methods are trained with the settings `training`. Equal means bit for bit or, where the two do
    their arithmetic in a different order (`exact=False`), up to the rounding of float64.
    """

    other: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    other_settings: Mapping[str, Any] = field(default_factory=dict)
    models: str = "used"
    clients: int = 5
    training: Mapping[str, Any] = field(default_factory=dict)
    exact: bool = True


class Method(Component, abc.ABC):
    """One method of federated learning."""

    family: ClassVar[str] = ""
    "What kind of method it is, in a few words."
    cite: ClassVar[str] = ""
    "Its paper's key in CITATIONS.bib."
    files: ClassVar[tuple[str, ...]] = ()
    "Files that it reads, relative to its own; keys cover their content. Only methods outside the package have any."
    score: ClassVar[str] = ""
    "The point at which its paper scores a model, one of `SCORES`."
    shares: ClassVar[str] = ""
    "What travels between clients and server, in words."
    down: ClassVar[str] = "|θ|"
    """Numbers that a participant receives in a round, in |θ|, |φ|, |π|, C, k and |C_i|, its number of classes; in M and
    M_i, the numbers of vectors that the server has and that it sends, where these depend on the data."""
    up: ClassVar[str] = "|θ|"
    "Numbers that a participant sends in a round."
    work: ClassVar[str] = ""
    "Forward-backward passes over a participant's images in a round, with E local epochs."
    plain_rates: ClassVar[tuple[str, ...]] = ()
    """Settings that take the study's rate where they are none, for steps of plain SGD whatever the study's optimiser; a
    rate that is meant for Adam or for momentum would be far too small, so there they have to be given."""
    carries: ClassVar[str] = ""
    "What its models hold of clients' data beside parameters, such as features of training images."
    held_out: ClassVar[bool] = False
    "Whether clients try models on images held out for validation, or without any on their training images."
    server_rows: ClassVar[tuple[str, ...]] = ()
    """Entries of `State.clients` that the server makes, from uploads of the same round, such as a mixture of models, or
    whose mean it keeps, such as control variates; a client whose upload is lost keeps the ones it had."""
    identities: ClassVar[Sequence[Identity]] = ()
    averages_uploads: ClassVar[bool] = False
    """Whether clients receive ``s.server.theta`` and its next value is made by `Federation.average` of what they upload
    of it: then uploads may be attacked, and another `aggregation` may stand in for the mean."""
    multimodal: ClassVar[bool] = False
    "Whether clients of several modalities share anything; else each modality is a federation of its own."

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in CLOSED:
            if name in vars(cls):
                raise UserError(f"{cls.__name__}: '{name}' is a name of the engine's own; rename it")

    @classmethod
    def facts(cls) -> dict[str, Any]:
        if cls.score not in SCORES:
            raise UserError(f"{cls.__name__}: score is {cls.score!r}; {nearest(cls.score, SCORES)}")
        names = ("family", "cite", "score", "shares", "down", "up", "work", "plain_rates", "carries", "held_out")
        return {name: getattr(cls, name) for name in (*names, "averages_uploads")}

    @abc.abstractmethod
    def setup(self, fed: Federation) -> State:
        """The state before the first round; `fed` holds all clients."""

    @abc.abstractmethod
    def round(self, fed: Federation, s: State) -> State:
        """One round of the participants in `fed`; returns the state with the same rows in `clients`."""

    def loss(self, theta: Tree, batch: Batch, at: LossContext) -> Tensor:
        """The scalar objective of one client on one batch, a pure function; cross entropy by default.

        It may return named quantities as a second value, see `Federation.train`.
        """
        return cross_entropy(at.model(theta, batch.x), batch.y)

    def predict(self, theta: Tree, x: Tensor, at: LossContext) -> Tensor:
        """Class scores [B, C] of a client's model for images x [B, …]; their softmax is probabilities.

        `at` holds the state as in a loss: for a model that has just been trained, that of its round.
        """
        return at.model(theta, x)

    def global_model(self, s: State) -> Tree | None:
        """The server's one model, or None for a method that has none."""
        return None

    def received(self, fed: Federation, s: State) -> Tree | None:
        """The stack [n, …] of models that the clients in `fed` hold on receiving the server's message.

        That is before local work. `fed` holds all clients, or some of them at a time if models are large. None: clients
        have no model of their own and use the global one. The tree may carry more than a model, such as a second head
        that `predict` uses.
        """
        return None

    def adapted(self, fed: Federation, s: State) -> Tree | None:
        """The stack [n, …] of models that the clients in `fed` make of what they received, on their own images.

        `fed` is as in `received`. None: they use what they received.
        """
        return None

    def used(self, fed: Federation, s: State) -> Tree | None:
        """The stack [n, …] of models that the clients in `fed` use: adapted, as received, or the global one."""
        adapted = self.adapted(fed, s)
        models = self.received(fed, s) if adapted is None else adapted
        shared = self.global_model(s)
        return fed.replicate(shared) if models is None and shared is not None else models

    def cooperation(self, s: State) -> Mapping[str, Tensor]:
        """Matrices [N, N] by name, such as a graph: entry (i, j) relates client i to client j. By default, none.

        `s` holds the server's entries alone.
        """
        return {}

    def clusters(self, s: State) -> Mapping[str, Tensor]:
        """Groups that the method has found among m clients or m shared vectors; empty by default.

        ``cluster`` [m] has the numbers of the groups, beside ``client`` [m] (numbers), or ``label`` [m] and ``vector``
        [m, k]. `s` holds the server's entries alone.
        """
        return {}
