"""``fedgrid methods | datasets | partitions | models``: what there is, read from the components themselves."""

import argparse
from collections.abc import Mapping
from typing import Any

from fedgrid.cli.parsing import Commands, with_examples
from fedgrid.components import describe
from fedgrid.errors import UserError, nearest
from fedgrid.loading import load, names

COMMANDS = {"methods": "methods", "datasets": "data", "partitions": "partition", "models": "models"}


def add_commands(commands: Commands) -> None:
    """Adds the commands that list components to the command line."""
    for command, kind in COMMANDS.items():
        examples = f"fedgrid {command}\nfedgrid {command} {names(kind)[0]}"
        parser = with_examples(commands, command, f"list {command} with their settings and sources", examples)
        parser.add_argument("name", nargs="?", help="only this one")
        parser.set_defaults(call=_show, kind=kind)


def _show(arguments: argparse.Namespace) -> int:
    known = names(arguments.kind)
    if arguments.name and arguments.name not in known:
        raise UserError(f"unknown name '{arguments.name}'; {nearest(arguments.name, known)}")
    blocks = [
        _block(name, describe(load(arguments.kind, name))) for name in ([arguments.name] if arguments.name else known)
    ]
    print("\n\n".join(blocks))
    return 0


def _block(name: str, components: dict[str, Any]) -> str:
    lines = [f"{name}: {components['title']}", f"  {components['summary']}"]
    facts = {key: value for key, value in components["facts"].items() if value and key != "named"}
    lines += [
        f"  {key}: {as_text(value)}" for key, value in ({"source": components["source"]} | facts).items() if value
    ]
    lines += [f"    {p['name']} = {as_text(p['default'])}{_limits(p)}  {p['doc']}" for p in components["parameters"]]
    return "\n".join(lines)


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
