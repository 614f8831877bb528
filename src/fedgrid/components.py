"""Methods, data sets, partitions and models are *components*: a class whose annotated fields are its settings.

The fields are everything at once: the schema of a study, the keys of ``--set``, the help text and the table in an
appendix. A field is declared with `hp`, and the string below it is its documentation::

    class FedProx(FedAvg):
        mu: float = hp(0.01, low=0)
        "Weight of the proximal term (Eq. 2)."
"""

import ast
import dataclasses
import functools
import inspect
import itertools
import math
import re
import textwrap
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, cast

from fedgrid.errors import UserError, nearest

KINDS = {"int", "float", "str", "bool", "None", "list", "mapping"}
"Types of settings; a list is one of choices, a mapping one of the settings of another component."
ELSEWHERE: Mapping[str, str] = {
    "alpha": "beta",  # of a Dirichlet distribution
    "communication_rounds": "rounds",
    "epochs": "local_epochs",
    "fraction_fit": "participation",
    "global_rounds": "rounds",
    "join_ratio": "participation",
    "lamda": "lam",
    "learning_rate": "lr",
    "local_learning_rate": "lr",
    "num_clients": "clients",
}
"What papers and other tools call a setting, and what it is called here."
LARGEST = 2**31 - 1
"Whole numbers are not larger than this: files and libraries keep many of them in 32 bits."


def hp(
    default: Any,
    *,
    low: float | None = None,
    above: float | None = None,
    high: float | None = None,
    choices: tuple[Any, ...] | None = None,
    pattern: str | None = None,
    form: str | None = None,
    was: str | None = None,
    since: str | None = None,
) -> Any:
    """A setting with its default and limits: `low` ≤ value ≤ `high`, value > `above`, value in `choices`.

    `pattern` is a regular expression that the value, written as a text, has to match from its first letter to its last,
    and `form` says the same to people. `was` is the setting's name in earlier versions, which is answered with its own.
    `since` is the version that brought a setting whose default changes nothing: where it has that default, it is not
    part of a key, so that earlier results keep theirs; see `identity`.
    """
    limits = {"low": low, "above": above, "high": high, "choices": choices, "pattern": pattern, "form": form}
    metadata = {key: value for key, value in (limits | {"was": was, "since": since}).items() if value is not None}
    return dataclasses.field(default=default, metadata=metadata)


class SettingError(UserError):
    """A wrong setting of a component: its `path` of names below `where`, and the `problem`.

    For an unknown setting, the path ends with its name, and the message's key is the mapping that lacks it.
    """

    def __init__(self, path: tuple[str, ...], problem: str, unknown: bool = False, where: str = ""):
        super().__init__(path, problem, unknown, where)
        self.path, self.problem, self.unknown, self.where = path, problem, unknown, where

    def __str__(self) -> str:
        return f"{'.'.join([self.where, *self.key])}: {self.problem}"

    @property
    def key(self) -> tuple[str, ...]:
        """The names below `where` in front of the problem."""
        return self.path[:-1] if self.unknown else self.path


@typing.dataclass_transform(frozen_default=True)
class Component:
    """Base of every component; subclasses become frozen dataclasses automatically."""

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]  # of every subclass

    title = ""
    "Name in tables; the class name where empty."
    source = ""
    "Citation (paper, year) or origin."
    product_limits: ClassVar[Sequence[tuple[str, str, float]]] = ()
    """Of a method: pairs of settings and the number below which their product has to be. The first one is a rate; where
    it is none, the study's rate counts."""
    renamed: ClassVar[Mapping[str, str]] = {}
    "Earlier names of what subclasses define → today's. A subclass may define either, and both can be read."

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        for earlier, today in cls.renamed.items():
            for name in {earlier, today} & vars(cls).keys():
                setattr(cls, today if name == earlier else earlier, vars(cls)[name])
        dataclasses.dataclass(frozen=True)(cls)

    def __post_init__(self) -> None:
        for name, kind in _nested(cast(Any, type(self))).items():  # which a specification holds as a mapping
            if isinstance(nested := getattr(self, name), Mapping):
                object.__setattr__(self, name, kind(**nested))
        for name, value in list(vars(self).items()):
            if isinstance(value, list):
                object.__setattr__(self, name, tuple(value))

    @classmethod
    def facts(cls) -> dict[str, Any]:
        """What else the grid must know before it may plan: plain values, part of `describe`."""
        return {}


def describe(cls: type[Component]) -> dict[str, Any]:
    """Everything a study needs to know of a component, as JSON: title, source, summary, parameters."""
    if missing := sorted(getattr(cls, "__abstractmethods__", ())):
        raise UserError(f"{cls.__name__}: it has to define {', '.join(missing)}")
    docs = _field_docs(cast(Any, cls))  # mypy takes no class with a hash of its own for a key
    try:
        hints = typing.get_type_hints(cls)
    except NameError as error:
        raise UserError(f"{cls.__name__}: the type of a setting is unknown ({error})") from error
    nested, parameters = _nested(cast(Any, cls)), []
    for f in dataclasses.fields(cls):
        where = f"{cls.__name__}: the setting '{f.name}'"
        if f.default is dataclasses.MISSING:
            raise UserError(f"{where} has no default; write {f.name}: type = hp(default)")
        types = [_type_name(alternative) for alternative in _alternatives(hints[f.name])]
        parameter = {"name": f.name, "types": types, "default": _plain(f.default), "doc": docs.get(f.name, "")}
        parameter |= f.metadata
        if f.name in nested:
            parameter["parameters"] = describe(nested[f.name])["parameters"]
        _check_declared(where, parameter)
        parameters.append(parameter)
    module_doc = inspect.getdoc(inspect.getmodule(cls)) or inspect.getdoc(cls) or ""
    return {
        "title": cls.title or cls.__name__,
        "source": cls.source,
        "summary": module_doc.partition("\n\n")[0].replace("\n", " "),
        "parameters": parameters,
        "facts": cls.facts() | {"product_limits": list(cls.product_limits)},
    }


def _check_declared(where: str, parameter: Mapping[str, Any]) -> None:
    """Raises UserError for a setting of a type that no study can hold, or whose default it would refuse itself."""
    if unknown := sorted(set(parameter["types"]) - KINDS):
        raise UserError(f"{where} is of the type {unknown[0]}; settings are {', '.join(sorted(KINDS))}")
    try:
        default = _checked(parameter, parameter["default"], ())
    except SettingError as error:
        raise UserError(f"{where} has a wrong default: {error.problem}") from error
    if default != parameter["default"]:
        raise UserError(f"{where} has the default {parameter['default']!r}, which is not of its type")


def resolve(description: Mapping[str, Any], settings: Mapping[str, Any], where: str) -> dict[str, Any]:
    """All settings of a component: the `settings` ones, checked, over the defaults.

    `where` names the place in the study for messages. Raises SettingError for an unknown name, a wrong type or a value
    outside its limits.
    """
    try:
        return _resolved(description, settings, ())
    except SettingError as error:
        error.where = where
        raise


def _resolved(description: Mapping[str, Any], settings: Mapping[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    parameters = {p["name"]: p for p in description["parameters"]}
    for name in settings:
        if name not in parameters:
            raise _unknown(name, parameters, path)
    return {n: _checked(p, settings[n], (*path, n)) if n in settings else p["default"] for n, p in parameters.items()}


def identity(description: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The `settings` of a component as they enter keys: plain, without those that came later and have their default.

    They may be those of an earlier version: a setting that had another name then is given today's.
    """
    renamed = {p["was"]: p["name"] for p in description["parameters"] if "was" in p}
    named = {renamed.get(name, name): _plain(value) for name, value in settings.items()}
    parameters = {p["name"]: p for p in description["parameters"]}
    counted = {n: v for n, v in named.items() if not _is_neutral(parameters.get(n, {}), v)}
    nested = {n: identity(parameters[n], v) for n, v in counted.items() if isinstance(v, Mapping) and n in parameters}
    return counted | nested


def _is_neutral(parameter: Mapping[str, Any], value: Any) -> bool:
    return "since" in parameter and value == parameter["default"]


def parse_setting(description: Mapping[str, Any], text: str, where: str) -> tuple[str, Any]:
    """The name and value in ``name=value`` as typed on a command line; the type is that of the setting."""
    name, equals, value = text.partition("=")
    if not equals:
        raise UserError(f"{where}: '{text}' is not of the form name=value")
    known = {p["name"]: p for p in description["parameters"]}
    if name not in known:
        raise _unknown(name, known, (), where)
    if "parameters" in known[name] and "=" in value:
        return name, dict(parse_setting(known[name], setting, f"{where}.{name}") for setting in value.split(","))
    return name, _from_text(known[name]["types"], value)


def _unknown(name: str, parameters: Mapping[str, Any], path: tuple[str, ...], where: str = "") -> SettingError:
    renamed = {p["was"]: p["name"] for p in parameters.values() if "was" in p}
    our_name = ELSEWHERE.get(name)
    hint = f"it is called '{our_name}' here" if our_name in parameters else nearest(name, parameters, renamed)
    problem = f"unknown setting '{name}'; {hint}"
    return SettingError((*path, str(name)), problem, unknown=True, where=where)


def _from_text(kinds: list[str], text: str) -> Any:
    constants: dict[str, bool | None] = {"true": True, "false": False} if "bool" in kinds else {}
    constants |= {"none": None} if "None" in kinds else {}
    if text.lower() in constants:
        return constants[text.lower()]
    if "list" in kinds:
        return [entry.strip() for entry in text.split(",")]
    for kind, convert in (("int", int), ("float", float)):
        if kind in kinds:
            try:
                return convert(text)
            except ValueError:
                continue  # another of the setting's types may fit; the check that follows names the right ones
    return text


def _checked(parameter: Mapping[str, Any], value: Any, path: tuple[str, ...]) -> Any:
    kinds = parameter["types"]
    if isinstance(value, Mapping) and "mapping" in kinds:
        return _resolved(parameter, value, path)
    if isinstance(value, list) and "list" in kinds:
        return [_checked({**parameter, "types": ["str"]}, entry, path) for entry in value]
    if type(value) is int and abs(value) > LARGEST:
        raise SettingError(path, f"must be between -{LARGEST} and {LARGEST}")
    if "float" in kinds and type(value) is int:
        value = float(value)  # YAML reads `mu: 1` as an integer; one value must have one identity
    if isinstance(value, str) and "float" in kinds and "str" not in kinds:
        value = _from_text(["float"], value)  # YAML 1.1 reads 1e-3 as a text
    if type(value).__name__ not in kinds and not (value is None and "None" in kinds):
        raise SettingError(path, f"expected {' or '.join(kinds)}, got {value!r}")
    if problem := limit_problem(parameter, value):
        raise SettingError(path, problem)
    return value


def limit_problem(limits: Mapping[str, Any], value: Any) -> str:
    """What is wrong with a value by its `limits`; empty where nothing is.

    Limits are those of `hp` and, of texts, lists and mappings, `longest` (letters), `filled` (not empty) and `unique`.
    """
    if isinstance(value, float) and not math.isfinite(value):
        return f"must be a finite number, got {value!r}"
    if "choices" in limits and value not in limits["choices"]:
        return f"'{value}' is not a choice; {nearest(value, limits['choices'], limits.get('was_choice'))}"
    if limits.get("filled") and not value:
        return "must not be empty"
    if "longest" in limits and len(value) > limits["longest"]:
        return f"is too long: {len(value):,} characters, at most {limits['longest']:,}"
    if "pattern" in limits and not re.fullmatch(limits["pattern"], str(value)):
        return f"{str(value)[:40]!r} must be {limits['form']}"
    if limits.get("unique") and (
        twice := [entry for i, entry in enumerate(value) if repr(entry) in map(repr, value[:i])]
    ):
        return f"{twice[0]!r} is in the list twice"
    if value is None or isinstance(value, str):
        return ""
    if "low" in limits and value < limits["low"]:
        return f"must be at least {limits['low']}, got {value}"
    if "above" in limits and value <= limits["above"]:
        return f"must be greater than {limits['above']}, got {value}"
    if "high" in limits and value > limits["high"]:
        return f"must be at most {limits['high']}, got {value}"
    return ""


def _plain(default: Any) -> Any:
    return list(default) if isinstance(default, tuple) else default


def _type_name(hint: Any) -> str:
    if _is_component(hint):
        return "mapping"
    if typing.get_origin(hint) is tuple:
        return "list"
    return "None" if hint is type(None) else hint.__name__


def _alternatives(hint: Any) -> tuple[Any, ...]:
    union = typing.get_origin(hint) in (types.UnionType, typing.Union)
    return typing.get_args(hint) if union else (hint,)


def _is_component(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Component)


@functools.cache
def _nested(cls: type[Component]) -> dict[str, type[Component]]:
    """The components among the settings, by the setting's name."""
    return {f.name: kind for f in dataclasses.fields(cls) for kind in _alternatives(f.type) if _is_component(kind)}


@functools.cache  # it reads the source
def _field_docs(cls: type) -> dict[str, str]:
    """The string below each annotated field, of the class and its bases."""
    docs: dict[str, str] = {}
    for base in reversed([c for c in cls.__mro__ if issubclass(c, Component) and c is not Component]):
        definition = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
        assert isinstance(definition, ast.ClassDef)
        for field, text in itertools.pairwise(definition.body):
            if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
                continue
            if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
                docs[field.target.id] = inspect.cleandoc(str(text.value.value))
    return docs
