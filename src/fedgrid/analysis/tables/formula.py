"""Formulas in numbers of parameters, as papers give them for what a client sends and receives."""

import ast
import operator
from collections.abc import Mapping

from fedgrid.errors import UserError, nearest

OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}


def sizes(of_cell: Mapping[str, int]) -> dict[str, int]:
    """The names that a formula may use, from what a cell says of its model.

    `phi` and `pi` are parameters of extractor and head, `theta` of both, `k` the features, `classes` their number, and
    `omega` one representation for each class.
    """
    phi, pi, k, classes = (of_cell[name] for name in ("extractor", "head", "features", "classes"))
    return {"theta": phi + pi, "phi": phi, "pi": pi, "omega": k * classes, "k": k, "classes": classes}


def value(formula: str, names: Mapping[str, int]) -> float:
    """The value of a sum or product of numbers and `names`; `UserError` where it is anything else."""
    try:
        return _value(ast.parse(formula.strip(), mode="eval").body, names)
    except (SyntaxError, ValueError, ZeroDivisionError):
        raise UserError(f"the formula '{formula}' is not made of numbers, names, + - * / and parentheses.") from None


def _value(node: ast.expr, names: Mapping[str, int]) -> float:
    match node:
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            return OPERATORS[type(op)](_value(left, names), _value(right, names))
        case ast.Name(id=name):
            if name not in names:
                raise UserError(f"a formula has no name '{name}'; {nearest(name, list(names))}")
            return names[name]
        case ast.Constant(value=int() | float() as number):
            return number
    raise ValueError
