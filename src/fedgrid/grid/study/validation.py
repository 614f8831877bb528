"""Checks the form of a study against its JSON schema; every mistake is one sentence with its file, line and key."""

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, cast

import yaml

from fedgrid.errors import nearest
from fedgrid.grid.study.sections import Entries, Origin, Section, StudyError

if TYPE_CHECKING:
    from jsonschema import ValidationError

WORDS = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "a whole number",
    "null": "nothing",
    "number": "a number",
    "object": "a mapping",
    "string": "a text",
}


def check_study(study: Section) -> Section:
    """The study with all defaults filled in; StudyError for the first mistake."""
    _check_texts(study, study.origin)
    study = _as_meant(study)
    _check(study, _schema())
    return _with_defaults(study, _schema())


def check_rows(methods: Section | Entries) -> None:
    """Raises StudyError for the first mistake in a file of methods, which has the form of a study's `methods`."""
    file = Section({"methods": methods}, methods.origin)
    _check_texts(file, file.origin)
    schema = {"$defs": _schema()["$defs"], "properties": {"methods": _schema()["properties"]["methods"]}}
    _check(file, schema)


def _check(section: Section, schema: Mapping[str, Any]) -> None:
    """StudyError for the first mistake of form.

    Nothing is checked where jsonschema is absent: an installed fedgrid has it, and a checkout of the source can train
    single cells on a machine that has no more than training needs.
    """
    if find_spec("jsonschema") is None:
        return
    from jsonschema import Draft202012Validator

    errors = sorted(Draft202012Validator(schema).iter_errors(section), key=_order)
    if errors:
        raise _mistake(section, errors[0])


def _order(error: "ValidationError") -> tuple[list[str], bool, str]:
    """The first of several mistakes is reported: from the top of the study, a misspelt key before the missing one."""
    return [*map(str, error.absolute_path)], error.validator != "additionalProperties", error.message


@cache
def _schema() -> dict[str, Any]:
    text = files("fedgrid.grid.study").joinpath("study.schema.yaml").read_text(encoding="utf-8")
    schema: dict[str, Any] = yaml.safe_load(text)
    return schema


def _check_texts(value: Any, origin: Origin) -> None:
    """Raises StudyError for a text that no file can hold, as YAML can write half of a letter, and for other keys."""
    if isinstance(value, Section):
        for key, below in value.items():
            if not isinstance(key, str):
                raise StudyError(value.origins[key], f"YAML reads this key as {key!r}, not as a text; put it in quotes")
            _check_texts(key, value.origins[key])
            _check_texts(below, value.origins[key])
    elif isinstance(value, Entries):
        for entry, origin in zip(value, value.origins, strict=True):
            _check_texts(entry, origin)
    elif isinstance(value, str) and re.search("[\0\ud800-\udfff]", value):
        raise StudyError(origin, f"{value[:40]!r} is not text that a file can hold")


def _as_meant(study: Section) -> Section:
    """The study with seeds such as 1.0 as integers, and with texts of ``--config`` as what they mean.

    A JSON schema takes 1.0 for a whole number; Snakemake's command line has ``download=false`` as a text.
    """
    changes = {name: _integer(study[name]) for name in ("partition_seed", "train_seed") if name in study}
    seeds, download = study.get("seeds"), study.get("download")
    if isinstance(seeds, Entries):
        changes["seeds"] = Entries(map(_integer, seeds), seeds.origin, seeds.origins)
    if download in ("true", "false"):
        changes["download"] = download == "true"
    return study | changes


def _integer(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _with_defaults(section: Section, schema: Mapping[str, Any]) -> Section:
    parts = schema.get("properties", {})
    filled = section | {key: part["default"] for key, part in parts.items() if key not in section and "default" in part}
    below = {k: _with_defaults(filled[k], part) for k, part in parts.items() if isinstance(filled.get(k), Section)}
    return filled | below


def _mistake(study: Section, error: "ValidationError") -> StudyError:
    """The error, at the value that it is about; one about a key that is absent is at the mapping that lacks it."""
    if error.validator == "oneOf" and (branch := _fitting_branch(error)):
        return _mistake(study, branch)
    value, origin = cast(Any, study), study.origin
    for key in error.absolute_path:
        value, origin = value[key], value.origins[key]
    about = origin
    if isinstance(value, Section):
        if error.validator == "additionalProperties":
            about = value.origins[_unknown(error)]
        elif not isinstance(error.instance, dict):  # it is about the name of a row or an experiment
            about = value.origins[error.instance]
    return StudyError(Origin(about.file, about.line, origin.key), _problem(error))


def _unknown(error: "ValidationError") -> Any:
    known = cast(Mapping[str, Any], error.schema)["properties"]
    return next(name for name in cast(Any, error.instance) if name not in known)


def _problem(error: "ValidationError") -> str:
    """What is wrong, in words, without the key."""
    rule, value = cast(Any, error.validator_value), cast(Any, error.instance)
    schema = cast(Mapping[str, Any], error.schema)
    if error.validator == "additionalProperties":
        unknown = _unknown(error)
        return f"unknown key '{unknown}'; {nearest(unknown, schema['properties'], schema.get('was'))}"
    if error.validator == "required":
        return f"the key '{next(name for name in rule if name not in value)}' is missing"
    if error.validator == "enum":
        return f"'{value}' is not a choice; {nearest(value, rule, schema.get('was'))}"
    if error.validator in ("oneOf", "type"):
        quotes = "; put a text in quotes" if isinstance(value, bool | int | float) and "string" in _kinds(error) else ""
        return f"expected {' or '.join(WORDS[kind] for kind in _kinds(error))}, got {value!r}{quotes}"
    if error.validator == "uniqueItems":
        return f"duplicate entry in {value!r}"
    if error.validator in ("minItems", "minProperties", "minLength"):
        return "must not be empty"
    if error.validator == "maxLength":
        return f"is too long: {len(value):,} characters, at most {rule:,}"
    if error.validator == "pattern":
        return f"{str(value)[:40]!r} must be {schema['description']}"
    return str(error.message)


def _fitting_branch(error: "ValidationError") -> "ValidationError | None":
    """The error inside the alternative whose type does fit, if there is one."""
    deeper = [e for e in error.context if e.validator != "type" or e.absolute_path != error.absolute_path]
    return deeper[0] if deeper else None


def _listed(value: str | list[str]) -> list[str]:
    return value if isinstance(value, list) else [value]


def _kinds(error: "ValidationError") -> list[str]:
    """The types that a value of a wrong one may have."""
    rule = cast(Any, error.validator_value)
    if error.validator == "oneOf":
        rule = [e.validator_value for e in error.context if e.validator == "type"]
    return list(dict.fromkeys(kind for alternative in _listed(rule) for kind in _listed(alternative)))
