"""The JSON schema of a study for editors, made from its forms: ``python -m fedgrid.grid.study.json_schema > FILE``.

Settings of components are not in it, as they differ between methods, and any file may define one.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import MISSING, is_dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from fedgrid.grid.study.codec import LISTS, field_hints, keyed_fields
from fedgrid.grid.study.forms import StudyFile

TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}
LIMITS = {
    "low": "minimum",
    "above": "exclusiveMinimum",
    "high": "maximum",
    "longest": "maxLength",
    "form": "description",
}
"Limits, as of `fedgrid.components.hp`, that JSON schema has under another name."
LEAST = {"string": "minLength", "array": "minItems", "object": "minProperties"}


def study_schema() -> dict[str, Any]:
    """The schema (draft 2020-12) of a study's file."""
    forms: dict[str, Any] = {}
    top = _schema(StudyFile, forms)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **top, "$defs": forms}


def _schema(hint: Any, forms: dict[str, Any]) -> dict[str, Any]:
    """The schema of a hint; those of dataclasses go to `forms`, by name."""
    origin, arguments = get_origin(hint) or hint, get_args(hint)
    if origin is Annotated:
        return _limited(_schema(arguments[0], forms), arguments[1], forms)
    if origin in (Union, UnionType):
        return {"anyOf": [_schema(argument, forms) for argument in arguments]}
    if origin is Any:
        return {}
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in TYPES:
        return {"type": TYPES[origin]}
    if origin is tuple and arguments[-1] is not ...:
        return {"type": "array", "prefixItems": [_schema(part, forms) for part in arguments], "items": False}
    if origin in LISTS:
        return {"type": "array", "items": _schema(arguments[0], forms)}
    if is_dataclass(origin):
        name = getattr(origin, "__name__", "")
        if name not in forms:
            forms[name] = {}  # a place in their order
            forms[name] = _form(origin, forms)
        return {"$ref": f"#/$defs/{name}"}
    return {"type": "object"} | _others(arguments, forms)


def _form(kind: Any, forms: dict[str, Any]) -> dict[str, Any]:
    fields, hints = keyed_fields(kind), field_hints(kind)
    required = [key for key, f in fields.items() if f.default is MISSING and f.default_factory is MISSING]
    others = getattr(kind, "others", None)
    return {
        "type": "object",
        "properties": {key: _schema(hints[field.name], forms) for key, field in fields.items()},
        **({"required": required} if required else {}),
        **({"additionalProperties": False} if others is None else _others(get_args(others), forms)),
    }


def _others(arguments: tuple[Any, ...], forms: dict[str, Any]) -> dict[str, Any]:
    """What the keys of a mapping with any names may be called and hold."""
    if not arguments:
        return {}
    names, values = (_schema(argument, forms) for argument in arguments)
    return ({} if names == {"type": "string"} else {"propertyNames": names}) | {"additionalProperties": values}


def _limited(schema: dict[str, Any], limits: Mapping[str, Any], forms: dict[str, Any]) -> dict[str, Any]:
    named = {LIMITS[name]: value for name, value in limits.items() if name in LIMITS}
    if "choices" in limits:
        named["enum"] = list(limits["choices"])
    if "pattern" in limits:
        named["pattern"] = f"^({limits['pattern']})$"
    if limits.get("filled"):
        form = forms[schema["$ref"].removeprefix("#/$defs/")] if "$ref" in schema else schema
        named[LEAST[form["type"]]] = 1
    return schema | named | ({"uniqueItems": True} if limits.get("unique") else {})


if __name__ == "__main__":
    json.dump(study_schema(), sys.stdout, indent=1, ensure_ascii=False)
    print()
