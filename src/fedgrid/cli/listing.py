"""``fedgrid methods | datasets | partitions | models``: what there is, read from the components themselves."""

import argparse
from collections.abc import Mapping
from functools import partial
from typing import Any

from fedgrid.cli.parsing import Command, option
from fedgrid.components import describe
from fedgrid.errors import UserError, nearest
from fedgrid.loading import load, names

LISTED = {"methods": "methods", "datasets": "data", "partitions": "partition", "models": "models"}
"The kinds of components by the commands that list them."


def _list(kind: str, arguments: argparse.Namespace) -> int:
    known = names(kind)
    if arguments.name and arguments.name not in known:
        raise UserError(f"unknown name '{arguments.name}'; {nearest(arguments.name, known)}")
    listed = [arguments.name] if arguments.name else known
    print("\n\n".join(_block(name, describe(load(kind, name))) for name in listed))
    return 0


COMMANDS = [
    Command(
        command,
        f"list {command} with their settings and sources",
        [f"fedgrid {command}", f"fedgrid {command} {names(kind)[0]}"],
        [option("name", "only this one", nargs="?")],
        partial(_list, kind),
    )
    for command, kind in LISTED.items()
]


def _block(name: str, component: dict[str, Any]) -> str:
    facts = {"source": component["source"]} | component["facts"]
    return "\n".join(
        [
            f"{name}: {component['title']}",
            f"  {component['summary']}",
            *(f"  {key}: {as_text(value)}" for key, value in facts.items() if value and key != "named"),
            *(f"    {p['name']} = {as_text(p['default'])}{_limits(p)}  {p['doc']}" for p in component["parameters"]),
        ]
    )


def as_text(value: Any) -> str:
    """A setting's value as one types it."""
    if isinstance(value, list):
        return ("×" if isinstance(value[0], int) else ", ").join(map(str, value))
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def bounds(parameter: Mapping[str, Any]) -> str:
    """The limits of a number in words, such as ≥ 0, ≤ 1."""
    signs = {"low": "≥", "above": ">", "high": "≤"}
    return ", ".join(f"{sign} {parameter[key]:g}" for key, sign in signs.items() if key in parameter)


def _limits(parameter: Mapping[str, Any]) -> str:
    if "choices" in parameter:
        return f" ({' | '.join(map(str, parameter['choices']))})"
    limits = bounds(parameter)
    return f" ({limits})" if limits else ""
