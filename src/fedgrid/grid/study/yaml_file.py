"""The YAML of a study, read with care: a duplicate key, aliases without end, and a file too large are mistakes."""

from dataclasses import replace
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import yaml

from fedgrid.errors import UserError, reason
from fedgrid.files import check_regular
from fedgrid.grid.study.misreadings import decimal_comma, misreading
from fedgrid.grid.study.sections import Entries, Origin, Section, StudyError

MOST_VALUES = 100_000
"Values that a study may hold, its keys, lists and mappings included, and aliases replaced by what they stand for."
MOST_BYTES = 4_000_000
"Size of a study's file."
MOST_LEVELS = 100
"Mappings and lists that may stand in one another."
PLAIN = {
    "'\\t'": "a tab, where YAML has spaces",
    "expected <block end>": "the line is indented less or more than those above that it belongs to",
    "could not find expected ':'": "no ':' after a key, in this line or the one above",
}
"What a problem is in plain words, by what the parser says of it."
_SafeLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"The one of libyaml is ten times as fast; a few installations of PyYAML lack it."


class _Twice(yaml.constructor.ConstructorError):
    """A key that a mapping has twice: of YAML, but one of its values would be lost silently."""


class _Loader(_SafeLoader):  # type: ignore[misc, valid-type]  # one of two classes
    """Gives mappings and lists that know the lines of what they hold."""

    def _section(self, composed: yaml.MappingNode, origin: Origin) -> Section:
        self.flatten_mapping(composed)  # merge keys (``<<``)
        for (key, value), following in pairwise(composed.value):
            if problem := decimal_comma(value, *following):
                raise StudyError(origin.child(key.value, _line(key)), problem)
        values, origins = {}, {}
        for key_node, value_node in composed.value:
            key = self.value(key_node, origin.child(key_node.value, _line(key_node)))
            origins[key] = origin.child(key, _line(key_node))
            values[key] = self.value(value_node, origins[key])
        return Section(values, origin, origins)

    def value(self, composed: yaml.Node, origin: Origin) -> Any:
        """A composed value; mappings and lists know the lines of what they hold.

        Raises StudyError for one that YAML reads as something other than what is written.
        """
        if problem := misreading(composed):
            raise StudyError(origin, problem)
        if isinstance(composed, yaml.MappingNode):
            return self._section(composed, origin)
        if isinstance(composed, yaml.SequenceNode):
            origins = [origin.child(i, _line(entry)) for i, entry in enumerate(composed.value)]
            return Entries(map(self.value, composed.value, origins), origin, origins)
        return self._scalar(composed)

    def _scalar(self, composed: yaml.Node) -> Any:
        """The value of a scalar; ConstructorError for one that is not what its tag says."""
        try:
            return self.construct_object(composed, deep=True)
        except (ValueError, LookupError) as error:
            problem = f"'{composed.value[:40]}' is not of the type {composed.tag.rpartition(':')[2]}"
            raise yaml.constructor.ConstructorError(problem=problem, problem_mark=composed.start_mark) from error

    def check(self, top: yaml.Node) -> None:
        """Raises ValueError for aliases that make a small file endless or huge; else as `_check_keys`."""
        sizes: dict[int, float] = {}

        def size(node: yaml.Node) -> float:
            if id(node) not in sizes:
                sizes[id(node)] = float("inf")  # what is met again below itself has no end
                self._check_keys(node)
                inner = chain(*node.value) if isinstance(node, yaml.MappingNode) else node.value
                sizes[id(node)] = 1 + sum(map(size, inner if isinstance(node, yaml.CollectionNode) else ()))
            return sizes[id(node)]

        if size(top) == float("inf"):
            raise ValueError("one of its aliases (*name) contains itself")
        if size(top) > MOST_VALUES:
            held = f"with its aliases (*name) it holds {size(top):,} values"
            raise ValueError(f"{held}, and a study may have {MOST_VALUES:,}")

    def _check_keys(self, node: yaml.Node) -> None:
        """Raises ConstructorError for a duplicate key, which would be lost silently, or one that is not a scalar."""
        names: dict[Any, int] = {}
        pairs = node.value if isinstance(node, yaml.MappingNode) else ()
        for key in [key for key, _ in pairs if key.tag != "tag:yaml.org,2002:merge"]:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(problem="a key must be a text", problem_mark=key.start_mark)
            name = key.value if misreading(key) else self._scalar(key)
            if name in names:
                raise _Twice(
                    problem=f"the key '{name}' is there twice, first in line {names[name]}", problem_mark=key.start_mark
                )
            names[name] = _line(key)


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def read(file: Path) -> Section:
    """The YAML of a study, unchecked; UserError where it is missing, not a mapping, or too large."""
    value, origin = _read(file)
    if not isinstance(value, Section):
        raise StudyError(origin, "a study is a mapping of keys such as name, data, methods")
    return value


def read_rows(file: Path) -> Section | Entries:
    """The YAML of a file of methods that a study includes, unchecked; UserError as for a study."""
    value, origin = _read(file)
    if not isinstance(value, Section | Entries):
        raise StudyError(origin, "a file of methods is a list of names, or a mapping of names to settings")
    return value


def read_value(text: str, option: str, key: str) -> Any:
    """The value of a `key` that an option has, as a study would have it; UserError as for a study."""
    return _parse(text, Origin(option, key=key))[0]


def _read(file: Path) -> tuple[Any, Origin]:
    """The value that a file holds, and where it begins."""
    try:
        check_regular(file, str(file), MOST_BYTES)
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"{file}: cannot be read ({reason(error)})") from error
    except UnicodeDecodeError as error:
        byte = f"byte {error.object[error.start]:#04x} at position {error.start}"
        raise UserError(f"{file}: not YAML ({byte} is not UTF-8)") from error
    return _parse(text, Origin(str(file)))


def _parse(text: str, source: Origin) -> tuple[Any, Origin]:
    """The value of a text, and where it begins."""
    try:
        _check_syntax(text)
        loader = _Loader(text)
        top = loader.get_single_node()
        origin = _origin_at_line(source, _line(top) if top else 1)
        if top is None:
            return None, origin
        loader.check(top)
        return loader.value(top, origin), origin
    except (ValueError, OverflowError) as error:
        raise UserError(f"{source.label}: cannot be read ({error})") from error
    except RecursionError as error:
        raise UserError(f"{source.label}: cannot be read (it is nested too deeply)") from error
    except yaml.reader.ReaderError as error:
        origin = _origin_at_line(source, text.count("\n", 0, error.position) + 1)
        raise StudyError(origin, f"not YAML (the character {chr(error.character)!r} is not allowed)") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        origin = _origin_at_line(source, mark.line + 1 if mark else 0)
        problem = str(getattr(error, "problem", error))
        problem = next((plain for jargon, plain in PLAIN.items() if jargon in problem), problem)
        raise StudyError(origin, problem if isinstance(error, _Twice) else f"not YAML ({problem})") from error


def _origin_at_line(source: Origin, line: int) -> Origin:
    """A line of a file; the value of a key on a command line has none."""
    return source if source.key else replace(source, line=line)


def _check_syntax(text: str) -> None:
    """Raises YAMLError for what is not YAML, and ValueError for more than `MOST_VALUES` or `MOST_LEVELS`."""
    try:
        _check_size(text, _SafeLoader)
    except yaml.YAMLError:
        _check_size(text, yaml.SafeLoader)  # libyaml names a later line, and not what is there
        raise


def _check_size(text: str, loader: type) -> None:
    values = levels = 0
    for event in yaml.parse(text, loader):  # composing so many would take minutes
        values += isinstance(event, yaml.NodeEvent)
        levels += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if values > MOST_VALUES:
            raise ValueError(f"it holds more than {MOST_VALUES:,} values, the most that a study may have")
        if levels > MOST_LEVELS:
            raise ValueError(f"it is nested more than {MOST_LEVELS} levels deep")
