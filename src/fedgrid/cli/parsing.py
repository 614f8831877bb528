"""How commands are parsed: complaints in one sentence, help with examples."""

import argparse
from pathlib import Path
from typing import NoReturn

from fedgrid.errors import UserError
from fedgrid.files import path_of


def path(text: str) -> Path:
    """The type of arguments that are paths."""
    return path_of(text, "the command")


class Parser(argparse.ArgumentParser):
    """An argument parser whose complaints are one sentence, as all of fedgrid's are."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message} (see {self.prog} --help)")


def with_examples(commands: argparse._SubParsersAction, name: str, text: str, examples: str) -> argparse.ArgumentParser:
    """A command whose help ends with examples, one a line."""
    form = argparse.RawDescriptionHelpFormatter
    lines = "".join(f"  {line.strip()}\n" for line in examples.strip().splitlines())
    return commands.add_parser(name, help=text, description=text, epilog=f"examples:\n{lines}", formatter_class=form)
