"""What YAML 1.1 reads as something other than what is written: octal numbers, numbers to the base 60, dates, tags."""

import re
from functools import reduce

import yaml

TAG_PREFIX = "tag:yaml.org,2002:"
STUDY_KINDS = ("bool", "float", "int", "map", "null", "seq", "str")
"Kinds of values that a study holds."
OWN_MEANING = {"timestamp": "a date", "merge": "the key of a merge", "value": "the key of a default value"}
"Other kinds that YAML gives to a value in no quotes."
DIGITS = re.compile("[0-9]+")
LEADING_ZERO = re.compile("[-+]?0[0-7_]+")


def misreading(node: yaml.Node) -> str:
    """Why a node is refused, and what to write instead; empty for one that YAML reads as it is written."""
    kind, text = node.tag.removeprefix(TAG_PREFIX), node.value if isinstance(node, yaml.ScalarNode) else ""
    if kind == "int" and LEADING_ZERO.fullmatch(text):
        decimal, octal = (int(text.replace("_", ""), base) for base in (10, 8))
        numbers = " or ".join(map(str, dict.fromkeys([decimal, octal])))
        return f"YAML reads {text} as the octal number {octal}; write {numbers}, or '{text}' for a text"
    if kind in ("int", "float") and ":" in text:
        number = _base_60(text)
        return f"YAML reads {text} as the number {number} to the base 60; write '{text}' for a text, or {number}"
    if kind in OWN_MEANING:
        return f"YAML reads {text} as {OWN_MEANING[kind]}; write '{text}' for a text"
    return "" if kind in STUDY_KINDS else f"the tag {node.tag.replace(TAG_PREFIX, '!!')} has no meaning here"


def decimal_comma(value: yaml.Node, next_key: yaml.Node, next_value: yaml.Node) -> str:
    """Why ``{lr: 0,05}`` is refused, the value of an entry and the next one; empty where no comma was a decimal one."""
    parts = [node.value for node in (value, next_key) if isinstance(node, yaml.ScalarNode)]
    side_by_side = value.end_mark.line == next_key.start_mark.line
    if len(parts) < 2 or not all(map(DIGITS.fullmatch, parts)) or next_value.value or not side_by_side:
        return ""
    return f"YAML reads {','.join(parts)} as two entries; write {'.'.join(parts)}"


def _base_60(text: str) -> str:
    parts = text.lstrip("+-").replace("_", "").split(":")
    number = reduce(lambda higher, part: 60 * higher + float(part), parts, 0.0)
    return f"{'-' * text.startswith('-')}{number:.12g}"
