"""What a federation remembers between two rounds."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from fedgrid.engine.tree import Bundle, Tree, leaves, tree_map


@dataclass(frozen=True)
class State:
    """`server` holds what has no client axis, `clients` what has the client axis first, whoever keeps it.

    `trained` are the models as they left local training in the last round; it is evaluated and then forgotten.
    """

    server: Bundle = field(default_factory=Bundle)
    clients: Bundle = field(default_factory=Bundle)
    trained: Tree | None = None

    def update(
        self, *, server: Mapping[str, Any] = {}, clients: Mapping[str, Any] = {}, trained: Tree | None = None
    ) -> "State":
        """A new state with some entries replaced or added."""
        kept = self.trained if trained is None else trained
        return State(Bundle(self.server | server), Bundle(self.clients | clients), kept)

    def gather(self, clients: Tensor) -> "State":
        """The state as the clients [n] (ids) see it."""
        return State(self.server, tree_map(lambda t: t[clients], self.clients))

    def scatter(self, clients: Tensor, after: "State") -> "State":
        """The state of all clients after a round of some, whose new rows are put in their places."""

        def put(old: Tensor, new: Tensor) -> Tensor:
            merged = old.clone()
            merged[clients] = new
            return merged

        if set(after.clients) != set(self.clients):
            raise ValueError("a round may not add or drop entries of `clients`: set them up before the first round")
        if all(len(clients) == len(t) for t in leaves(self.clients)):
            merged = after.clients
        else:
            merged = tree_map(put, self.clients, after.clients)
        return State(after.server, merged, after.trained)
