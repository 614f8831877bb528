"""``fedgrid new-method NAME``, ``new-model``, …: a commented file to start from, which passes the suite as it is."""

import argparse
import keyword
import re
import sys
from importlib.metadata import packages_distributions
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from fedgrid.cli.other_templates import DATA, MODEL, PARTITION
from fedgrid.cli.parsing import Commands, path, with_examples
from fedgrid.cli.studies import as_in_study
from fedgrid.errors import UserError
from fedgrid.files import write_text
from fedgrid.loading import KINDS, names

TEMPLATE = '''"""{title}: one sentence of idea.

Authors, Title, Venue Year, Algorithm 1. Write the steps in the paper's order and say where you read it differently.

    w     s.server.theta      the server's model
    w^t   at.server.theta     the same, inside a loss
"""

from fedgrid.methods import Batch, Federation, Identity, LossContext, Method, State, Tensor, Tree, hp, squared_distance


class {title}(Method):
    source = "Authors, Venue Year"
    family = "one global model"  # what kind of method it is
    score = "global"  # the point of a round at which the paper scores it: global, received, adapted or trained
    shares = "θ"
    down = up = "|θ|"  # numbers that a client receives and sends in a round; fedgrid check counts them
    work = "E"  # forward-backward passes over a client's images in a round, with E local epochs
    # limiting cases in which this must equal another method, bit for bit; fedgrid check tests each
    identities = [Identity("fedavg", {{"strength": 0.0}})]

    # every field is a hyperparameter: --set strength=0.1, `{name}: {{strength: 0.1}}` in a study, and this help
    strength: float = hp(0.01, low=0)
    "Weight of the pull towards the server's model."

    def setup(self, fed: Federation) -> State:
        """Before the first round: what the server and the clients remember. Client entries have N rows."""
        return State(server={{"theta": fed.initial()}})

    def loss(self, theta: Tree, batch: Batch, at: LossContext) -> Tensor:
        """One client's objective on one batch, a pure function of its parameters."""
        pull = squared_distance(theta, at.server.theta)
        return super().loss(theta, batch, at) + self.strength / 2 * pull  # cross entropy, and the pull

    def round(self, fed: Federation, s: State) -> State:
        """One round of the participants: send, train, send back, combine."""
        start = fed.broadcast(s.server.theta)
        local = fed.train(start, self.loss)
        average = fed.average(fed.upload(local.theta))
        return s.update(server={{"theta": average}}, trained=local.theta)

    def global_model(self, s: State) -> Tree:
        """Scored on every client's test images; leave it out if there is no single model."""
        return s.server.theta
'''


class New(NamedTuple):
    """What is written of a kind of component, and what is said then."""

    command: str
    example: str
    template: str
    trial: str
    "Of `fedgrid run`."
    entry: str
    "In a study."


NEW = {
    "methods": New("new-method", "fedmine", TEMPLATE, "{file}", "methods: {{{name}: {{method: {file}}}}}"),
    "models": New("new-model", "mynet", MODEL, "fedavg --model {file}", "model: {file}"),
    "partition": New(
        "new-partition", "mykind", PARTITION, "fedavg --partition {file}", "heterogeneity: [{{partition: {file}}}]"
    ),
    "data": New("new-data", "mydata", DATA, "fedavg --data {file}", "data: [{file}]"),
}


def add_commands(commands: Commands) -> None:
    """Adds `fedgrid new-method` and its like for the other kinds of components to the command line."""
    for kind, new in NEW.items():
        text = f"write a commented one-file {KINDS[kind]} to start from"
        examples = (
            f"fedgrid {new.command} {new.example}\nfedgrid {new.command} {new.example} --folder src/fedgrid/{kind}"
        )
        parser = with_examples(commands, new.command, text, examples)
        text = f"lower case, e.g. {new.example}: name of the file and in studies"
        parser.add_argument("name", metavar="NAME", help=text)
        text = "where (default: here; the file may lie anywhere)"
        parser.add_argument("--folder", type=path, default=Path(), help=text)
        parser.set_defaults(call=_write, kind=kind)


def _write(arguments: argparse.Namespace) -> int:
    kind, name, file = arguments.kind, arguments.name, arguments.folder / f"{arguments.name}.py"
    new = NEW[kind]
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,99}", name):
        form = "at most 100 lower-case letters, digits and '_', starting with a letter"
        raise UserError(f"NAME: '{name[:40]}' must be {form}")
    title = "".join(word.capitalize() for word in name.split("_"))
    if keyword.iskeyword(name) or keyword.iskeyword(title):
        raise UserError(f"NAME: '{name}' is a reserved word of Python")
    if name in names(kind):
        raise UserError(f"NAME: a {KINDS[kind]} '{name}' already exists")
    if file.exists():
        raise UserError(f"NAME: {file} already exists")
    if name in {"fedgrid", *sys.stdlib_module_names, *packages_distributions()}:
        raise UserError(f"NAME: a file {file.name} would hide the module '{name}' from scripts in its folder")
    write_text(file, new.template.format(name=name, title=title))
    print(f"{file} is written. Try it, check it, use it:")
    print(f"  fedgrid run {new.trial.format(file=quote(str(file)))} --rounds 5")
    print(f"  fedgrid check {quote(str(file))}")
    path_in_study, where = as_in_study(file)
    print(f"  {new.entry.format(name=name, file=path_in_study)}   # in {where}")
    return 0
