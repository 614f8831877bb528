"""``fedgrid methods | datasets | partitions | models``: what there is, read from the components themselves."""

import argparse
from typing import Any

from fedgrid.cli.parsing import with_examples
from fedgrid.components import describe
from fedgrid.errors import UserError, nearest
from fedgrid.loading import load, names

COMMANDS = {"methods": "methods", "datasets": "data", "partitions": "partition", "models": "models"}


def add_commands(commands: argparse._SubParsersAction) -> None:
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


def _block(name: str, found: dict[str, Any]) -> str:
    lines = [f"{name}: {found['title']}", f"  {found['summary']}"]
    facts = {key: value for key, value in found["facts"].items() if value and key != "named"}
    lines += [f"  {key}: {_text(value)}" for key, value in ({"source": found["source"]} | facts).items() if value]
    lines += [f"    {p['name']} = {_text(p['default'])}{_limits(p)}  {p['doc']}" for p in found["parameters"]]
    return "\n".join(lines)


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ("×" if isinstance(value[0], int) else ", ").join(map(str, value))
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def _limits(parameter: dict[str, Any]) -> str:
    if "choices" in parameter:
        return f" ({' | '.join(map(str, parameter['choices']))})"
    signs = {"low": "≥", "above": ">", "high": "≤"}
    limits = [f"{sign} {parameter[key]:g}" for key, sign in signs.items() if key in parameter]
    return f" ({', '.join(limits)})" if limits else ""
