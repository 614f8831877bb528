"""The formulas in which methods say what they cost, such as ``2E``, ``|θ| + C·k``, ``local_steps batches``, as numbers.

A symbol is a setting of the method, or one of those that docs/writing-a-method.md names; what stands side by side is
multiplied, as with ``·``.
"""

import re
from collections.abc import Mapping

from fedgrid.errors import UserError, nearest

TOKEN = re.compile(r"\s*(?:(?P<number>\d+(?:\.\d+)?)|(?P<symbol>\|[^|]+\||[^\W\d]\w*)|(?P<sign>[-+*/·()]))\s*")


def worth(formula: str, numbers: Mapping[str, float]) -> float:
    """The value of a formula with these `numbers` for its symbols; UserError where it cannot be read."""
    said: list[str] = []
    place = 0
    while place < len(formula):
        found = TOKEN.match(formula, place)
        if not found:
            raise UserError(f"the formula '{formula}' cannot be read at '{formula[place:]}'")
        if said and said[-1] not in "+-*/(" and (not found["sign"] or found["sign"] == "("):
            said.append("*")
        said.append(found["number"] or (found["sign"] or _value(found["symbol"], numbers, formula)).replace("·", "*"))
        place = found.end()
    try:
        return float(eval(" ".join(said)))  # nothing but numbers and signs stands there
    except (SyntaxError, TypeError, ArithmeticError) as error:
        raise UserError(f"the formula '{formula}' cannot be read ({error})") from error


def _value(symbol: str, numbers: Mapping[str, float], formula: str) -> str:
    if symbol not in numbers:
        raise UserError(f"the formula '{formula}' has an unknown symbol '{symbol}'; {nearest(symbol, numbers)}")
    return repr(float(numbers[symbol]))
