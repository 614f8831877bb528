"""The cost formulas of methods, such as ``2E``, ``|θ| + C·k``, ``local_steps batches``, as numbers.

A symbol is a setting of the method, or one of those that docs/writing-a-method.md names; what stands side by side is
multiplied, as with ``·``.
"""

import math
import re
from collections.abc import Mapping
from typing import Any

from fedgrid.errors import UserError, nearest
from fedgrid.settings import Training

TOKEN = re.compile(r"\s*(?:(?P<number>\d+(?:\.\d+)?)|(?P<symbol>\|[^|]+\||[^\W\d]\w*)|(?P<sign>[-+*/·()]))\s*")

NAME = re.compile(r"(?P<name>[^\W\d]\w*)(?P<unit>\s+batches)?")


def formula_value(formula: str, numbers: Mapping[str, float]) -> float:
    """The value of a formula with these `numbers` for its symbols; UserError where it cannot be read."""
    tokens: list[str] = []
    position = 0
    while position < len(formula):
        match = TOKEN.match(formula, position)
        if not match:
            raise UserError(f"the formula '{formula}' cannot be read at '{formula[position:]}'")
        if tokens and tokens[-1] not in "+-*/(" and (not match["sign"] or match["sign"] == "("):
            tokens.append("*")
        token = match["number"] or match["sign"] or _number(match["symbol"], numbers, formula)
        tokens.append(token.replace("·", "*"))
        position = match.end()
    try:
        return float(eval(" ".join(tokens)))  # it contains nothing but numbers and signs
    except (SyntaxError, TypeError, ArithmeticError) as error:
        raise UserError(f"the formula '{formula}' cannot be read ({error})") from error


def passes(work: str, settings: Mapping[str, object], epochs: float, batch: float) -> float:
    """Passes over its images that a participant makes in a round; `batch` is what a batch is of one."""
    try:
        return formula_value(with_settings(work, settings), {"E": epochs, "batches": batch})
    except UserError:  # a file of the user's
        return epochs


def with_settings(work: str, settings: Mapping[str, object]) -> str:
    """The formula of `passes` with values in place of the names of settings: ``head_epochs + E`` may be ``5 + E``.

    A setting that is none is as much as the study says, E, whether it counts epochs or batches.
    """

    def value(match: re.Match[str]) -> str:
        name, unit = match["name"], match["unit"] or ""
        if name not in settings or not isinstance(settings[name], int | float | None):
            return match[0]
        return "E" if settings[name] is None else f"{settings[name]:g}{unit}"

    return NAME.sub(value, work)


def images_in_a_round(
    training: Training, hyperparameters: Mapping[str, Any], work: str, clients: int, images: int
) -> float:
    """Images that gradients are taken at in a round, of so many `images` of all clients.

    `work` is what a round costs a client; where it cannot be read, E epochs count.
    """
    participants: int = max(1, math.floor(training.participation * clients + 1e-9))
    once = images * participants / clients
    if not once:
        return 0.0
    batch = batch_in(training, clients, images) * participants / once  # as a share of all images
    steps = training.local_steps
    epochs = training.local_epochs if steps is None else steps * batch
    return once * passes(work, hyperparameters, epochs, batch)


def batch_in(training: Training, clients: int, images: int) -> int:
    """Images of a batch: no more than a client has, with so many `images` of all clients."""
    batch_size: int = training.batch_size
    return min(batch_size, max(1, images // clients))


def _number(symbol: str, numbers: Mapping[str, float], formula: str) -> str:
    if symbol not in numbers:
        raise UserError(f"the formula '{formula}' has an unknown symbol '{symbol}'; {nearest(symbol, numbers)}")
    return repr(float(numbers[symbol]))
