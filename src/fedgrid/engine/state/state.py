"""What a method keeps from round to round."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from fedgrid.tree import Tree, as_tree, leaves, placed, rows

NOTHING: Mapping[str, Any] = {}


class State:
    """`server` holds what has no client axis, `clients` what has the client axis first, wherever it is stored.

    `trained` are the models as they left local training in the last round, `quantities` numbers [n] of its participants
    by name. Both are recorded and then forgotten.
    """

    def __init__(
        self,
        server: Mapping[str, Any] = NOTHING,
        clients: Mapping[str, Any] = NOTHING,
        trained: Mapping[str, Any] | None = None,
        quantities: Mapping[str, Tensor] = NOTHING,
    ):
        self.server: Tree = as_tree(server)
        self.clients: Tree = as_tree(clients)
        self.trained: Tree | None = as_tree(trained)
        self.quantities = dict(quantities)

    def update(
        self,
        *,
        server: Mapping[str, Any] = NOTHING,
        clients: Mapping[str, Any] = NOTHING,
        trained: Mapping[str, Any] | None = None,
        quantities: Mapping[str, Tensor] = NOTHING,
    ) -> "State":
        """A new state with some entries replaced or added."""
        trained_models = self.trained if trained is None else trained
        return State(self.server | server, self.clients | clients, trained_models, self.quantities | dict(quantities))

    def gather(self, clients: Tensor | slice) -> "State":
        """The state as some of the clients see it: positions [n], truth values or a slice."""
        return State(self.server, rows(self.clients, clients))

    def require_same_entries(self, other: "State") -> None:
        """Raises ValueError where a round has added or dropped entries of `clients`."""
        if set(other.clients) != set(self.clients):
            raise ValueError("a round may not add or drop entries of `clients`: set them up before the first round")

    def scatter(self, clients: Tensor, rows_of_round: "State") -> "State":
        """The state of all clients after a round of some, whose new rows are put in their places."""
        self.require_same_entries(rows_of_round)
        if all(len(clients) == len(t) for t in leaves(self.clients)):
            merged = rows_of_round.clients
        else:
            merged = placed(self.clients, clients, rows_of_round.clients)
        return State(rows_of_round.server, merged, rows_of_round.trained, rows_of_round.quantities)
