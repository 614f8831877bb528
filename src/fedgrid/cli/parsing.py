"""How commands are declared and parsed: a function with its options, help with examples, complaints in one sentence."""

import argparse
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import methodcaller
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from fedgrid.command import DEFAULT
from fedgrid.errors import UserError
from fedgrid.files import check_utf8, path_of

if TYPE_CHECKING:
    from fedgrid.grid.plan.planned_study import Study

Call = Callable[[argparse.Namespace], int | None]
"What a command does with its arguments; it returns the exit code, where that may be another than 0."
Option = Callable[[argparse.ArgumentParser], Any]
"Adds an option, or several, to the parser of a command."
SNAKEMAKES = "--config is Snakemake's; here --scale and --only choose from a study"


class Parser(argparse.ArgumentParser):
    """An argument parser whose complaints are one sentence, as all of fedgrid's are.

    Options are not abbreviated: Snakemake's ``--config scale=small`` would name a study, and leave the scale full.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """Prints a mistake on the command line as one sentence and exits with 2."""
        hint = SNAKEMAKES if "--config " in f"{message} " else f"see {self.prog} --help"
        raise UserError(f"{message} ({hint})")


@dataclass(frozen=True)
class Command:
    """A command of ``fedgrid``."""

    name: str
    text: str
    "What it does, for the help."
    examples: Sequence[str]
    options: Sequence[Option]
    call: Call

    def add_to(self, commands: "argparse._SubParsersAction[Parser]") -> None:
        """Adds the command to the command line."""
        form, epilog = argparse.RawDescriptionHelpFormatter, "\n  ".join(["examples:", *self.examples]) + "\n"
        settings: dict[str, Any] = {"description": self.text, "epilog": epilog, "formatter_class": form}
        parser = commands.add_parser(self.name, **settings)
        for add in self.options:
            add(parser)
        parser.set_defaults(call=self.call)


def command(*options: Option) -> Callable[[Call], Command]:
    """Makes a command of a function, with its name; its docstring is the help and, below it, one example a line."""

    def declared(call: Call) -> Command:
        text, *examples = filter(None, (inspect.getdoc(call) or "").splitlines())
        name = call.__name__.rstrip("_").replace("_", "-")
        return Command(name, text[0].lower() + text[1:].rstrip("."), examples, options, call)

    return declared


def option(name: str, text: str | None = None, **settings: Any) -> Option:
    """An option, or an argument without a name, with its help; behind the name and a blank, how the help calls values.

    `settings` are those of `argparse.ArgumentParser.add_argument`.
    """
    name, _, metavar = name.partition(" ")
    return methodcaller("add_argument", name, help=text, **({"metavar": metavar} if metavar else {}), **settings)


def flag(name: str, text: str) -> Option:
    """An option without a value."""
    return option(name, text, action="store_true")


def assignments(name: str, text: str) -> Option:
    """An option that may be given several times, each with a setting and its value."""
    return option(f"--{name} NAME=VALUE", text, action="append", default=[])


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


CHOICE = (
    option("--scale", "full, or one of the study's scales"),
    option("--only EXPERIMENTS", "only these experiments, separated by commas"),
)
"Options that choose of a study with experiments, as Snakemake's ``--config`` does."
STUDY = (option("--configfile", f"the study (default: {DEFAULT})", type=path, default=DEFAULT), *CHOICE)
STUDIES = (
    option("--configfile FILE", f"the studies (default: {DEFAULT})", type=path, nargs="+", default=[DEFAULT]),
    *CHOICE,
)
FILE = option("study STUDY", "the study, without --configfile", type=path, nargs="?")
FILES = option("files FILE", "the studies, without --configfile", type=path, nargs="*")
RESULTS = option("--results FOLDER", "default: results", type=path, default=Path("results"))
"The folder of results, for commands on its store."
STORE = (
    option("--results", "folder of the store (default: results)", default="results"),
    option("--data-root", "where data sets lie (default: $FEDGRID_DATA)"),
)
"Where the results and the data of a single cell or partition are."


def study_of(arguments: argparse.Namespace) -> "Study":
    """The study that a command's options name."""
    from fedgrid.api.study_file import read_study  # planning takes time to import

    return read_study(file_of(arguments), arguments.scale, arguments.only)


def file_of(arguments: argparse.Namespace) -> Path:
    """The file of the study that a command's argument or option names, as `files_of` has them."""
    file = getattr(arguments, "study", None)
    return _named_once([file] if file else [], [arguments.configfile])[0]


def files_of(arguments: argparse.Namespace) -> list[Path]:
    """The files of the studies that a command's arguments or its option name; UserError where both do."""
    return _named_once(arguments.files, arguments.configfile)


def _named_once(files: list[Path], configfiles: list[Path]) -> list[Path]:
    if files and configfiles != [DEFAULT]:
        raise UserError(f"{files[0]}, --configfile {configfiles[0]}: name studies in one of the two ways")
    return files or configfiles
