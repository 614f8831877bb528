"""Names of a component's own that hide a name of its base class, whose meaning fedgrid relies on.

A helper called ``adapted`` would be taken for the function that the engine calls under this name.
"""

import ast
import dataclasses
import inspect
import itertools
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from fedgrid.grid.study.nodes import assigned_names
from fedgrid.grid.study.sources import is_ours
from fedgrid.loading import KINDS

ENGINES_OWN = {
    "facts": "which hands on what the class states about itself",
    "used": "which says which models clients use",
}
"Names of `Method` that no method may define, as `fedgrid.engine.federation.method.CLOSED` has them."
BASES: Mapping[str, tuple[str, str]] = {
    "methods": ("fedgrid.engine.federation.method", "Method"),
    "models": ("fedgrid.models.base", "Model"),
    "partition": ("fedgrid.partition.base", "Partition"),
    "data": ("fedgrid.data.base", "DataSet"),
}
"The class, with its module, that every component of a kind derives from."
CALLER = {"methods": "the engine", "models": "the engine", "partition": "fedgrid", "data": "fedgrid"}


def hidden_engine_names(file: Path) -> list[str]:
    """Where the classes of a method's file define one of `ENGINES_OWN`: file, line, and what to do."""
    tree = ast.parse(file.read_bytes(), filename=str(file))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and is_ours(node.module or "")]
    own = {alias.asname or alias.name for node in imports for alias in node.names}
    flaws = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and own.intersection(ast.unparse(base) for base in node.bases):
            own.add(node.name)
            for statement in node.body:
                for name in ENGINES_OWN.keys() & _names(statement):
                    what = f"'{name}' overrides Method.{name}, {ENGINES_OWN[name]} and belongs to the engine"
                    flaws.append(f"{file}, line {statement.lineno}: {what}; rename it")
    return flaws


def _names(statement: ast.stmt) -> set[str]:
    """What a statement in the body of a class defines."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return {statement.name}
    return assigned_names(statement)


def misfit(component: type, kind: str) -> str:
    """What is wrong with the class of a component of a kind as a whole; empty where nothing is."""
    module, name = BASES[kind]
    if any((cls.__module__, cls.__name__) == BASES[kind] for cls in component.__mro__):
        return ""
    return f"its class is not a {KINDS[kind]}; derive it from {module}.{name}"


def unfit_overrides(component: type, kind: str = "methods") -> list[str]:
    """Where a component defines a name of its base in a form that fedgrid cannot use: file, line, and what to do.

    The base of a method is `Method`, that of another kind the class of the package that it derives from.
    """
    classes = list(itertools.takewhile(lambda cls: not _is_base(cls, kind), component.__mro__))
    base = component.__mro__[len(classes)] if len(classes) < len(component.__mro__) else object
    return [
        f"{inspect.getsourcefile(cls)}, line {_line(cls, name)}: {flaw}"
        for cls in classes
        for name, value in vars(cls).items()
        if not name.startswith("_") and hasattr(base, name) and (flaw := _flaw(cls, base, kind, name))
    ]


def _is_base(cls: type, kind: str) -> bool:
    of_package = kind != "methods" and cls.__module__.startswith("fedgrid.")
    return of_package or (cls.__module__, cls.__name__) == BASES[kind]


def _flaw(cls: Any, base: type, kind: str, name: str) -> str:
    """What is wrong with the value that a class gives to a name of `base`; empty where nothing is."""
    inherited, value = inspect.getattr_static(base, name), vars(cls)[name]
    settings, of_base = ({field.name for field in dataclasses.fields(of)} for of in (cls, cast(Any, base)))
    if not inspect.isfunction(inherited):
        what = f"hides {base.__name__}.{name}, which states a fact about the {KINDS[kind]}; rename it"
        if name in vars(cls).get("__annotations__", {}) and name in settings - of_base:
            return f"the {'hyperparameter' if kind == 'methods' else 'setting'} '{name}' {what}"
        return f"the function '{name}' {what}" if inspect.isfunction(value) else ""
    wanted = _parameters(inherited)
    what = f"overrides {base.__name__}.{name}({', '.join(wanted)}), which {CALLER[kind]} calls"
    if not inspect.isfunction(value):
        return f"'{name}' is no function, but {what}; rename it"
    parameters = _parameters(value)
    takes_rest = any(p.kind is p.VAR_POSITIONAL for p in inspect.signature(value).parameters.values())
    if parameters == wanted or (takes_rest and parameters == wanted[: len(parameters)]):
        return ""
    mend = "rename it if it is a helper, or give it these parameters under these names"
    return f"'{name}({', '.join(parameters)})' {what}; {mend}"


def _parameters(function: Any) -> list[str]:
    """The names of a function's parameters that a caller has to give."""
    given = (p for p in inspect.signature(function).parameters.values() if p.default is p.empty)
    return [p.name for p in given if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]


def _line(cls: type, name: str) -> int:
    """The line in which the body of a class last defines a name."""
    source, first = inspect.getsourcelines(cls)
    (definition,) = ast.parse(textwrap.dedent("".join(source))).body
    body = definition.body if isinstance(definition, ast.ClassDef) else []
    return first + max((statement.lineno - 1 for statement in body if name in _names(statement)), default=0)
