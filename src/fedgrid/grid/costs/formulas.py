"""The cost formulas of methods, such as ``2E``, ``|θ| + C·k``, ``local_steps batches``, as numbers.

A symbol is a setting of the method, or one of those that docs/writing-a-method.md names; what stands side by side is
multiplied, as with ``·``.
"""

import re
from collections.abc import Mapping

from fedgrid.errors import UserError, nearest

TOKEN = re.compile(r"\s*(?:(?P<number>\d+(?:\.\d+)?)|(?P<symbol>\|[^|]+\||[^\W\d]\w*)|(?P<sign>[-+*/·()]))\s*")


def worth(formula: str, numbers: Mapping[str, float]) -> float:
    """The value of a formula with these `numbers` for its symbols; UserError where it cannot be read."""
    tokens: list[str] = []
    position = 0
    while position < len(formula):
        match = TOKEN.match(formula, position)
        if not match:
            raise UserError(f"the formula '{formula}' cannot be read at '{formula[position:]}'")
        if tokens and tokens[-1] not in "+-*/(" and (not match["sign"] or match["sign"] == "("):
            tokens.append("*")
        tokens.append(match["number"] or (match["sign"] or _value(match["symbol"], numbers, formula)).replace("·", "*"))
        position = match.end()
    try:
        return float(eval(" ".join(tokens)))  # it contains nothing but numbers and signs
    except (SyntaxError, TypeError, ArithmeticError) as error:
        raise UserError(f"the formula '{formula}' cannot be read ({error})") from error


def _value(symbol: str, numbers: Mapping[str, float], formula: str) -> str:
    if symbol not in numbers:
        raise UserError(f"the formula '{formula}' has an unknown symbol '{symbol}'; {nearest(symbol, numbers)}")
    return repr(float(numbers[symbol]))
