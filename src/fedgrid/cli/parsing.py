"""How commands are parsed: complaints in one sentence, help with examples."""

import argparse
from pathlib import Path
from typing import NoReturn, TypeAlias

from fedgrid.errors import UserError
from fedgrid.files import check_utf8, path_of


def path(text: str) -> Path:
    """The type of arguments that are paths; they are UTF-8, for plans and results name them."""
    return any_path(utf8(text))


def any_path(text: str) -> Path:
    """The type of arguments that are paths of what is read and named nowhere."""
    return path_of(text, "the command")


def utf8(text: str) -> str:
    """The type of arguments that a command writes into a file."""
    check_utf8(text, "the command")
    return text


class Parser(argparse.ArgumentParser):
    """An argument parser whose complaints are one sentence, as all of fedgrid's are."""

    def error(self, message: str) -> NoReturn:
        """Prints a mistake on the command line as one sentence and exits with 2."""
        raise UserError(f"{message} (see {self.prog} --help)")


Commands: TypeAlias = "argparse._SubParsersAction[Parser]"
"The set to which each module adds its commands; quoted because the class takes no type parameter at run time."


def with_examples(commands: Commands, name: str, text: str, examples: str) -> Parser:
    """A command whose help ends with examples, one a line."""
    form = argparse.RawDescriptionHelpFormatter
    lines = "".join(f"  {line.strip()}\n" for line in examples.strip().splitlines())
    return commands.add_parser(name, help=text, description=text, epilog=f"examples:\n{lines}", formatter_class=form)
