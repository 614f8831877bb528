"""Checks the form of a study against its JSON schema; every mistake is one sentence that names the key."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from typing import Any, cast

import jsonschema
import yaml

from fedgrid.errors import UserError, nearest

WORDS = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "a whole number",
    "null": "nothing",
    "number": "a number",
    "object": "a mapping",
    "string": "a text",
}


PART = re.compile("(data|heterogeneity|methods|model|training|seeds|report|artifacts)[.:]")
"How a sentence begins that names a key which parts of an experiment have."


def checked(study: Any) -> dict[str, Any]:
    """The study with all defaults filled in; UserError for the first mistake."""
    if not isinstance(study, Mapping):
        raise UserError("study: a study is a mapping of keys such as name, data, methods")
    _check_letters(study)
    study = _as_meant(study)
    errors = sorted(_validator().iter_errors(dict(study)), key=lambda e: (list(map(str, e.absolute_path)), e.message))
    if errors:
        raise UserError(f"study: {_sentence(errors[0])}")
    return _filled(dict(study), _schema())


@contextmanager
def located(where: str, below: Callable[[], object] = lambda: None) -> Iterator[None]:
    """Puts `where` before the key in a UserError, unless it is empty or `below` raises the very same error.

    `where` is a part of an experiment, and `below` does the same with the study that lies under it: a mistake that
    stands there is told as one of the study.
    """
    try:
        yield
    except UserError as error:
        if not where or _complaint(below) == str(error):
            raise
        said = str(error).removeprefix("study: ")
        dot = "." if PART.match(said) else ": "
        raise UserError(f"{where}{dot}{said}") from error


def _complaint(check: Callable[[], object]) -> str:
    try:
        check()
    except UserError as error:
        return str(error)
    return ""


@cache
def _schema() -> dict[str, Any]:
    return yaml.safe_load(files("fedgrid.grid.study").joinpath("study.schema.yaml").read_text(encoding="utf-8"))


@cache
def _validator() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(_schema())


def _check_letters(value: Any) -> None:
    """Raises UserError for a text that no file can hold: YAML can write half of a letter."""
    if isinstance(value, Mapping):
        value = [*value.keys(), *value.values()]
    if isinstance(value, list):
        for one in value:
            _check_letters(one)
    elif isinstance(value, str) and re.search("[\0\ud800-\udfff]", value):
        raise UserError(f"study: {value[:40]!r} is no text that a file can hold")


def _as_meant(given: Mapping[str, Any]) -> dict[str, Any]:
    """The study with seeds such as 1.0 as integers, and with texts of ``--config`` as what they mean.

    A JSON schema takes 1.0 for a whole number; Snakemake's command line has ``download=false`` as a text.
    """
    study = dict(given)
    for name in ("partition_seed", "train_seed"):
        study |= {name: _integer(study[name])} if name in study else {}
    if isinstance(study.get("seeds"), list):
        study["seeds"] = [_integer(seed) for seed in study["seeds"]]
    for text, meant in (("true", True), ("false", False)):
        if study.get("download") == text:
            study["download"] = meant
    return study


def _integer(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _filled(value: dict[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    for key, part in schema.get("properties", {}).items():
        if key not in value and "default" in part:
            value[key] = part["default"]
        if isinstance(value.get(key), Mapping):
            value[key] = _filled(dict(value[key]), part)
    return value


def _sentence(error: jsonschema.ValidationError) -> str:
    if error.validator == "oneOf" and (branch := _fitting_branch(error)):
        return _sentence(branch)
    key = ".".join(map(str, error.absolute_path))
    rule, found = cast(Any, error.validator_value), cast(Any, error.instance)
    schema = cast(Mapping[str, Any], error.schema)
    if error.validator == "additionalProperties":
        known = schema["properties"]
        unknown = next(name for name in found if name not in known)
        inside = f" in {key}" if key else ""
        return f"unknown key '{unknown}'{inside}; {nearest(unknown, known, schema.get('was'))}"
    if error.validator == "required":
        missing = next(name for name in rule if name not in found)
        return f"{key + ': ' if key else ''}the key '{missing}' is missing"
    if error.validator == "enum":
        return f"{key}: '{found}' is not a choice; {nearest(found, rule, schema.get('was'))}"
    if error.validator in ("oneOf", "type"):
        return f"{key}: expected {_expected(error)}, got {found!r}"
    if error.validator == "uniqueItems":
        return f"{key}: an entry stands there twice in {found!r}"
    if error.validator in ("minItems", "minProperties", "minLength"):
        return f"{key}: must not be empty"
    if error.validator in ("pattern", "maxLength"):
        about = schema.get("description", f"at most {rule} letters")
        return f"{key or 'a name'}: {str(found)[:40]!r} must be {about}"
    return f"{key}: {error.message}"


def _fitting_branch(error: jsonschema.ValidationError) -> jsonschema.ValidationError | None:
    """The error inside the alternative whose type does fit, if there is one."""
    deeper = [e for e in error.context if e.validator != "type" or e.absolute_path != error.absolute_path]
    return deeper[0] if deeper else None


def _listed(value: str | list[str]) -> list[str]:
    return value if isinstance(value, list) else [value]


def _expected(error: jsonschema.ValidationError) -> str:
    rule = cast(Any, error.validator_value)
    if error.validator == "oneOf":
        rule = [e.validator_value for e in error.context if e.validator == "type"]
    kinds = list(dict.fromkeys(kind for one in _listed(rule) for kind in _listed(one)))
    return " or ".join(WORDS[kind] for kind in kinds)
