"""Checks the form of a study against its JSON schema; every mistake is one sentence with its file, line and key."""

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, cast

import jsonschema
import yaml

from fedgrid.errors import UserError, nearest
from fedgrid.grid.study.nodes import Node, Origin

WORDS = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "a whole number",
    "null": "nothing",
    "number": "a number",
    "object": "a mapping",
    "string": "a text",
}


def check_study(study: Node) -> Node:
    """The study with all defaults filled in; UserError, with its file and line, for the first mistake."""
    if not isinstance(study.value, dict):
        raise study.origin.mistake("a study is a mapping of keys such as name, data, methods")
    _check_letters(study)
    study = _as_meant(study)
    errors = sorted(_validator().iter_errors(study.plain), key=lambda e: (list(map(str, e.absolute_path)), e.message))
    if errors:
        raise _mistake(study, errors[0])
    return _filled(study, _schema())


@cache
def _schema() -> dict[str, Any]:
    text = files("fedgrid.grid.study").joinpath("study.schema.yaml").read_text(encoding="utf-8")
    schema: dict[str, Any] = yaml.safe_load(text)
    return schema


@cache
def _validator() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(_schema())


def _check_letters(node: Node) -> None:
    """Raises UserError for a text that no file can hold: YAML can write half of a letter."""
    if isinstance(node.value, dict):
        for key, below in node.value.items():
            _check_letters(Node(key, below.origin))
            _check_letters(below)
    elif isinstance(node.value, list):
        for below in node.value:
            _check_letters(below)
    elif isinstance(node.value, str) and re.search("[\0\ud800-\udfff]", node.value):
        raise node.origin.mistake(f"{node.value[:40]!r} is no text that a file can hold")


def _as_meant(study: Node) -> Node:
    """The study with seeds such as 1.0 as integers, and with texts of ``--config`` as what they mean.

    A JSON schema takes 1.0 for a whole number; Snakemake's command line has ``download=false`` as a text.
    """
    changes = {}
    for name in ("partition_seed", "train_seed"):
        if node := study.get(name):
            changes[name] = _integer(node)
    seeds, download = study.get("seeds"), study.get("download")
    if seeds and isinstance(seeds.value, list):
        changes["seeds"] = Node([_integer(seed) for seed in seeds.items], seeds.origin)
    if download and download.value in ("true", "false"):
        changes["download"] = Node(download.value == "true", download.origin)
    return study.updated(changes)


def _integer(node: Node) -> Node:
    whole = isinstance(node.value, float) and node.value.is_integer()
    return Node(int(node.value), node.origin) if whole else node


def _filled(node: Node, schema: Mapping[str, Any]) -> Node:
    changes = {}
    for key, part in schema.get("properties", {}).items():
        below = node.get(key)
        if below is None and "default" in part:
            below = Node.of(part["default"], node.origin.child(key))
        if below is not None:
            changes[key] = _filled(below, part) if isinstance(below.value, dict) else below
    return node.updated(changes)


def _mistake(study: Node, error: jsonschema.ValidationError) -> UserError:
    """The error, at the value that it is about; one about a key that is absent is at the mapping that lacks it."""
    if error.validator == "oneOf" and (branch := _fitting_branch(error)):
        return _mistake(study, branch)
    path = list(error.absolute_path)
    node, key = study.below(*path), None
    if error.validator == "additionalProperties":
        key = _unknown(error)
    elif node and isinstance(node.value, dict) and not isinstance(error.instance, dict):
        key = error.instance  # it is about the name of a row or an experiment
    origin, line_of = study.origin_of(*path), study.origin_of(*path, *([] if key is None else [key]))
    return Origin(line_of.file, line_of.line, origin.key).mistake(_problem(error))


def _unknown(error: jsonschema.ValidationError) -> Any:
    known = cast(Mapping[str, Any], error.schema)["properties"]
    return next(name for name in cast(Any, error.instance) if name not in known)


def _problem(error: jsonschema.ValidationError) -> str:
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
        return f"expected {_expected(error)}, got {value!r}"
    if error.validator == "uniqueItems":
        return f"duplicate entry in {value!r}"
    if error.validator in ("minItems", "minProperties", "minLength"):
        return "must not be empty"
    if error.validator in ("pattern", "maxLength"):
        return f"{str(value)[:40]!r} must be {schema.get('description', f'at most {rule} letters')}"
    return str(error.message)


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
