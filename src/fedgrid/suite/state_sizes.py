"""How many numbers clients and server keep between rounds, measured on the state that a method sets up."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from fedgrid.engine.federation.participation import everyone
from fedgrid.suite import simulations
from fedgrid.tree import leaves

CLIENTS = 5
NOTHING = "nothing"
DEPENDS = "M"
"Stands for a tree of no part of the model, such as a hypernetwork."
Shape = tuple[int, ...]


@dataclass(frozen=True)
class KeptNumbers:
    """Formulas in the symbols of docs/methods.md, N the number of clients."""

    client: str
    "What each client keeps."
    server: str
    "What the server keeps, for all clients together."


def kept_numbers(method_name: str) -> KeptNumbers:
    """The formulas of a method with its default settings."""
    simulation = simulations.ragged(CLIENTS)
    with torch.no_grad():
        state = simulations.method(method_name).setup(everyone(simulation, 0))
    theta = simulation.model.initial(0)
    parts = {_shapes(theta): "|θ|", _shapes(theta.part("extractor")): "|φ|", _shapes(theta.part("head")): "|π|"}
    dimensions = {CLIENTS: "N", simulation.model.classes: "C", simulation.model.width: "k", 1: ""}
    sizes = _Sizes(parts, dimensions)
    return KeptNumbers(sizes.formula(state.clients, each=True), sizes.formula(state.server))


@dataclass(frozen=True)
class _Sizes:
    parts: Mapping[tuple[Shape, ...], str]
    dimensions: Mapping[int, str]

    def formula(self, entries: Mapping[str, Any], each: bool = False) -> str:
        """The sum over all entries: of `each` client, whose axis comes first, or as they are."""
        terms = Counter(self._term(entry, each) for entry in entries.values())
        return " + ".join(f"{n}·{term}" if n > 1 else term for term, n in terms.items()) or NOTHING

    def _term(self, entry: Any, each: bool) -> str:
        shapes = _shapes(entry, skip=each)
        leading = {shape[0] for shape in shapes if shape}
        inner = tuple(shape[1:] for shape in shapes)
        if shapes in self.parts:
            return self.parts[shapes]
        if not isinstance(entry, Mapping):
            return self._product(shapes[0])
        is_stack = len(leading) == 1 and inner in self.parts
        return self._product(tuple(leading), self.parts[inner]) if is_stack else DEPENDS

    def _product(self, shape: Shape, part: str = "") -> str:
        factors = [self.dimensions.get(size, str(size)) for size in shape]
        return "·".join(filter(None, [*factors, part])) or "1"


def _shapes(tree: Any, skip: bool = False) -> tuple[Shape, ...]:
    """The shapes of all tensors, in order, without the first axis where it is to be skipped."""
    tensors: Sequence[torch.Tensor] = leaves({"": tree})
    return tuple(tuple(t.shape)[skip:] for t in tensors)
