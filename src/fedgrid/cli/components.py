"""``fedgrid methods | …``, ``new-method | …``, ``check``: the components that there are, new ones, and their tests."""

import argparse
import importlib.util
import inspect
import keyword
import re
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from importlib.metadata import packages_distributions
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, NamedTuple

from fedgrid import shipped
from fedgrid.cli.parsing import Command, assignments, command, flag, option, path
from fedgrid.components import describe, parse_setting, resolve
from fedgrid.errors import UserError, nearest
from fedgrid.files import write_text
from fedgrid.grid.study.catalog import description
from fedgrid.grid.study.method_lists import group
from fedgrid.loading import KINDS, load, names

if TYPE_CHECKING:
    from fedgrid.suite.running import Reporter

LISTED = {"methods": "methods", "datasets": "data", "partitions": "partition", "models": "models"}
"The kinds of components by the commands that list them."


def _list(kind: str, arguments: argparse.Namespace) -> None:
    known = names(kind)
    if arguments.name and arguments.name not in known:
        raise UserError(f"unknown name '{arguments.name}'; {nearest(arguments.name, known)}")
    if kind == "methods" and not arguments.name:
        print("\n".join(_overview(known)))
        return
    listed = [arguments.name] if arguments.name else known
    print("\n\n".join(_block(name, description(kind, name)) for name in listed))


def _overview(known: list[str]) -> Iterator[str]:
    """A line for each method, by families, and what stands in it."""
    described = {name: description("methods", name) for name in known}
    width = max(map(len, known))
    for family in dict.fromkeys(group(method["facts"]["family"]) for method in described.values()):
        yield f"{family}:"
        for name, method in described.items():
            facts = method["facts"]
            if group(facts["family"]) == family:
                costs = f"down {facts['down']}, up {facts['up']}, work {facts['work']}, scored {facts['score']}"
                yield f"  {name:{width}}  {method['title']}: {costs}"
        yield ""
    yield OVERVIEW


OVERVIEW = """\
down, up: numbers that a client receives and sends in a round. |θ| is its whole model, |φ| its extractor, |π| its head,
C the number of classes, k that of features, N that of clients; M depends on the data. work: passes over its images in a
round, with E local epochs. scored: the model that its paper's tables show. docs/methods.md has the equations of each.
fedgrid methods NAME lists the settings of one."""


methods, datasets, partitions, models = (
    Command(
        command,
        f"list {command} with their settings and sources",
        [f"fedgrid {command}", f"fedgrid {command} {names(kind)[0]}"],
        [option("name", "only this one", nargs="?")],
        partial(_list, kind),
    )
    for command, kind in LISTED.items()
)


def _block(name: str, component: dict[str, Any]) -> str:
    facts = {"source": component["source"]} | component["facts"]
    lines = [f"{name}: {component['title']}", f"  {component['summary']}"]
    lines += [f"  {key}: {as_text(value)}" for key, value in facts.items() if value and key != "named"]
    parameters = component["parameters"]
    lines += [f"    {p['name']} = {as_text(p['default'])}{_limits(p)}  {p['doc']}" for p in parameters]
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
    limits = " | ".join(map(str, parameter.get("choices", ()))) or bounds(parameter)
    return f" ({limits})" if limits else ""


class New(NamedTuple):
    """How a new file of a kind of component is asked for, and what is said then."""

    command: str
    example: str
    trial: str
    "Of `fedgrid run`."
    entry: str
    "In a study."


NEW = {
    "methods": New("new-method", "fedmine", "{file}", "methods: {{{name}: {{method: {file}}}}}"),
    "models": New("new-model", "mynet", "fedavg --model {file}", "model: {file}"),
    "partition": New("new-partition", "mykind", "fedavg --partition {file}", "heterogeneity: [{{partition: {file}}}]"),
    "data": New("new-data", "mydata", "fedavg --data {file}", "data: [{file}]"),
}


LIKE = {"methods": [option("--like NAME", "begin with the file of this method of the package, such as fedper")]}
"Options that new files of a kind have besides."


def component_text(kind: str, name: str) -> str:
    """The text of a new file of that kind and name."""
    return shipped.template(f"cli/templates/{kind}.py.txt").substitute(name=name, title=_title(name))


def method_like(other: str, name: str) -> str:
    """The file of one of the package's methods as a method of one's own: another class, and no paper's key."""
    about, cls = description("methods", other), load("methods", other)
    text = Path(inspect.getfile(cls)).read_text(encoding="utf-8")
    text = re.sub(rf"\b{cls.__name__}\b", _title(name), text)
    text = re.sub(r'^    cite = ".*"\n', "", text, flags=re.MULTILINE)
    return re.sub(r'^    source = ".*"', f'    source = "Own, after {about["source"]}"', text, flags=re.MULTILINE)


def _title(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def _write(kind: str, arguments: argparse.Namespace) -> None:
    from fedgrid.cli.phrases import path_in_study  # listing components needs no planning, which takes time to import

    name, new = arguments.name, NEW[kind]
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,99}", name):
        form = "at most 100 lower-case letters, digits and '_', starting with a letter"
        raise UserError(f"NAME: '{name[:40]}' must be {form}")
    file: Path = arguments.folder / f"{name}.py"
    if {name, _title(name)} & {*keyword.kwlist}:
        raise UserError(f"NAME: '{name}' is a reserved word of Python")
    if name in names(kind):
        raise UserError(f"NAME: a {KINDS[kind]} '{name}' already exists")
    if file.exists():
        raise UserError(f"NAME: {file} already exists")
    if name in {"fedgrid", *sys.stdlib_module_names, *packages_distributions()}:
        raise UserError(f"NAME: a file {file.name} would hide the module '{name}' from scripts in its folder")
    like = arguments.like if kind in LIKE else None
    write_text(file, method_like(like, name) if like else component_text(kind, name))
    print(f"{file} is written. Try it, check it, use it:")
    print(f"  fedgrid run {new.trial.format(file=quote(str(file)))} --rounds 5")
    print(f"  fedgrid check {quote(str(file))}")
    named, study = path_in_study(file)
    print(f"  {new.entry.format(name=name, file=named)}   # in {study}")


new_method, new_model, new_partition, new_data = (
    Command(
        new.command,
        f"write a commented one-file {KINDS[kind]} to start from",
        [f"fedgrid {new.command} {new.example}{folder}" for folder in ("", f" --folder src/fedgrid/{kind}")],
        [
            option("name NAME", f"lower case, e.g. {new.example}: name of the file and in studies"),
            option("--folder", "where (default: here; the file may lie anywhere)", type=path, default=Path()),
            *LIKE.get(kind, ()),
        ],
        partial(_write, kind),
    )
    for kind, new in NEW.items()
)


@command(
    option("component COMPONENT", "path/to/mine.py, or a name in the package"),
    flag("--full", "run the checks that take longer, too"),
    assignments("set", "a setting of the model, partition or data set; methods are checked with their defaults"),
)
def check(arguments: argparse.Namespace) -> int:
    """Test a method, model, partition or data set: a file of your own, or a name.

    fedgrid check mine.py
    fedgrid check mine.py --full
    fedgrid check dirichlet --set beta=0.5
    """
    if importlib.util.find_spec("pytest") is None:
        raise UserError("fedgrid check needs pytest; install it with: pip install 'fedgrid[check]'")
    from fedgrid.suite.running import run  # torch takes seconds to import

    kind, component = _component(arguments.component, arguments.set)
    outcome = run(kind, component, arguments.full)
    if outcome.interrupted:
        return 130
    print(_conclusion(arguments.component, kind, outcome))
    return int(outcome.failed > 0)


def _component(reference: str, settings: list[str]) -> tuple[str, Any]:
    """Kind and instance of what is checked; a method's tests load it themselves, by its name or file."""
    from fedgrid.suite.subjects import subject

    kind, cls = subject(reference)
    about = describe(cls)  # raises UserError where a function is missing, or no study can hold a setting's type
    if kind == "methods":
        if settings:
            raise UserError("--set: methods are checked with their defaults and with the settings of their identities")
        return kind, reference
    component: Any = cls(**resolve(about, dict(parse_setting(about, text, "--set") for text in settings), "--set"))
    if kind == "data":
        from fedgrid.suite.data import root

        if not component.is_available(root()):
            component.load(root(), None)  # raises UserError, which says where the images have to be
    return kind, component


def _conclusion(reference: str, kind: str, outcome: "Reporter") -> str:
    """How many checks passed, in how many seconds, and what to do next."""
    failed = f", {outcome.failed} failed" if outcome.failed else ""
    counts = f"{outcome.passed} passed{failed} in {outcome.seconds:.1f} s"
    again = f"fedgrid check {quote(reference)}"
    if outcome.failed:
        return f"{counts}; fix the first failure and run again: {again}"
    if outcome.left:
        return f"{counts}; before you publish, run the other {outcome.left} checks: {again} --full"
    trial = NEW[kind].trial.format(file=quote(reference))
    compared = f", or compare it: fedgrid compare {quote(reference)}" if kind == "methods" else ""
    return f"{counts}; this {KINDS[kind]} passes the suite; train it: fedgrid run {trial}{compared}"
