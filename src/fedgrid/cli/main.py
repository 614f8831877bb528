"""``fedgrid COMMAND``: what there is, what a study needs, one cell by hand."""

import argparse
import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence

import fedgrid
from fedgrid.cli.commands import COMMANDS, GROUPS, Entry
from fedgrid.cli.parsing import Parser
from fedgrid.command import exclude_working_folder
from fedgrid.errors import UserError, complain, escape_unprintable, nearest

NAME_WIDTH = max(map(len, COMMANDS)) + 2
EXAMPLES = """examples:
  fedgrid init mine                                a project: a study, profiles, a Snakefile
  fedgrid go                                       the whole default study, which is snakemake --cores all
  fedgrid methods                                  what there is, with hyperparameters and sources
  fedgrid plan                                     which cells of config/study.yaml are to be trained
  fedgrid run fedcosr --data digits --beta 0.1     one cell, without Snakemake
  fedgrid status --configfile config/mnist.yaml    progress of a study
  fedgrid new-method mine                          a commented method in one file
  fedgrid check mine.py                            whether it is right, by the built-in test suite
  fedgrid compare mine.py --against all            a study of it and all other methods
"""


def parser(understood: Iterable[str] = COMMANDS) -> Parser:
    """The parser of the command line; what it returns has the function to call as `call`.

    The help lists all commands; only those `understood` are imported and can be parsed.
    """
    form = argparse.RawDescriptionHelpFormatter
    command_line = Parser(
        prog="fedgrid",
        usage="fedgrid [-h] [--version] COMMAND ...",
        description=fedgrid.__doc__,
        epilog=EXAMPLES,
        formatter_class=form,
    )
    command_line.add_argument("--version", action="version", version=f"fedgrid {fedgrid.__version__}")
    # argparse lists commands in one block, so the listing by need is made of groups without arguments
    commands = command_line.add_subparsers(
        prog="fedgrid", metavar="COMMAND", help=argparse.SUPPRESS, required=True, parser_class=Parser
    )
    for title, entries in GROUPS.items():
        command_line.add_argument_group(title, "\n".join(map(_line_of_help, entries)))
    for name in understood:
        COMMANDS[name].command().add_to(commands)
    return command_line


def _line_of_help(command: Entry) -> str:
    """Name and text of a command, wrapped to the width of the terminal."""
    width = max(shutil.get_terminal_size().columns - 4, 40)  # argparse's indent and margin
    first, later = f"{command.name:{NAME_WIDTH}}", " " * NAME_WIDTH
    return textwrap.fill(command.text, width, initial_indent=first, subsequent_indent=later, break_on_hyphens=False)


def _named_commands(argv: Sequence[str]) -> list[str]:
    """The command that arguments begin with, or nothing where there are only options.

    Raises UserError for a command that there is not; argparse would list all there are.
    """
    named = [word for word in argv if not word.startswith("-")][:1]
    for name in named:
        if name not in COMMANDS:
            raise UserError(f"there is no command '{name}'; {nearest(name, COMMANDS)} (fedgrid --help lists all)")
    return named


def main(argv: list[str] | None = None) -> int:
    """Exit code 2 and one sentence for a user's mistake."""
    escape_unprintable()
    exclude_working_folder()
    try:
        argv = sys.argv[1:] if argv is None else argv
        arguments = parser(_named_commands(argv)).parse_args(argv)
        return int(arguments.call(arguments) or 0)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (UserError, OSError) as error:
        return complain(error)


if __name__ == "__main__":
    sys.exit(main())
