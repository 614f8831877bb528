"""The YAML of a study, in which every value knows the file, the line and the key that it comes from.

A duplicate key, aliases without end, and a file too large are mistakes.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import yaml

from fedgrid.errors import UserError, reason
from fedgrid.files import check_regular

MOST_VALUES = 100_000
"Values that a study may hold, its keys, lists and mappings included, and aliases replaced by what they stand for."
MOST_BYTES = 4_000_000
"Size of a study's file."
COMMAND_LINE = "command line"
"In place of a file's name, for values that are given to a command."


@dataclass(frozen=True)
class Origin:
    """Where a value comes from: file and line, and the key below which it is written there."""

    file: str = ""
    "As its user names it; empty where a study is made by code."
    line: int = 0
    "Counted from 1; 0 where there are no lines."
    key: str = ""
    "With dots, as in ``experiments.table2.training``; empty for a whole study."

    @property
    def place(self) -> str:
        """File and line, as in ``study.yaml:14``."""
        return f"{self.file}:{self.line}" if self.line else self.file

    def child(self, key: Any, line: int = 0) -> "Origin":
        """The origin of a value below this one, on the same line unless another one is given."""
        return Origin(self.file, line or self.line, f"{self.key}.{key}" if self.key else str(key))

    def mistake(self, problem: str) -> UserError:
        """The error for a wrong value: its place, its key and the problem."""
        return UserError(": ".join(filter(None, [self.place, self.key, problem])))

    @contextmanager
    def located(self) -> Iterator[None]:
        """Puts this place and key in front of a UserError that names neither."""
        try:
            yield
        except UserError as error:
            raise self.mistake(str(error)) from error


@dataclass(frozen=True)
class Node:
    """A value of a study: a scalar, or a mapping or list of nodes."""

    value: Any
    origin: Origin = Origin()

    @classmethod
    def of(cls, plain: Any, origin: Origin = Origin()) -> "Node":  # noqa: B008, for it is frozen
        """The node of plain values, all of one place."""
        if isinstance(plain, Mapping):
            return cls({key: cls.of(value, origin.child(key)) for key, value in plain.items()}, origin)
        if isinstance(plain, list | tuple):
            return cls([cls.of(value, origin.child(i)) for i, value in enumerate(plain)], origin)
        return cls(plain, origin)

    @property
    def plain(self) -> Any:
        """The value without origins."""
        if isinstance(self.value, dict):
            return {key: node.plain for key, node in self.value.items()}
        return [node.plain for node in self.value] if isinstance(self.value, list) else self.value

    @property
    def mapping(self) -> dict[Any, "Node"]:
        """The nodes of a mapping by key; none of an absent value."""
        return {} if self.value is None else self.value

    @property
    def items(self) -> list["Node"]:
        """The nodes of a list."""
        return self.value

    def get(self, key: Any) -> "Node | None":
        """The node below a key of a mapping, or at a place of a list; None where there is none."""
        if isinstance(self.value, dict):
            return self.value.get(key)
        is_place = isinstance(self.value, list) and isinstance(key, int) and key < len(self.value)
        return self.value[key] if is_place else None

    def at(self, key: Any) -> Any:
        """The plain value below a key; None where there is none."""
        node = self.get(key)
        return None if node is None else node.plain

    def without(self, *keys: str) -> "Node":
        """A mapping without some of its keys."""
        return Node({key: node for key, node in self.mapping.items() if key not in keys}, self.origin)

    def updated(self, changes: Mapping[Any, "Node"]) -> "Node":
        """A mapping with other values for some keys."""
        return Node({**self.mapping, **changes}, self.origin)

    def origin_of(self, *path: Any) -> Origin:
        """The origin of the value at a path below; that of an absent one is where its mapping begins."""
        node = self
        for i, key in enumerate(path):
            below = node.get(key)
            if below is None:
                origin = node.origin
                for name in path[i:]:
                    origin = origin.child(name)
                return origin
            node = below
        return node.origin


class _Loader(yaml.SafeLoader):
    """Composes YAML; raises ValueError once there are more than `MOST_VALUES`."""

    values = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self.values += 1
        if self.values > MOST_VALUES:  # counted here, since composing them all would take minutes
            raise ValueError(f"it holds more than {MOST_VALUES:,} values, the most that a study may have")
        return super().compose_node(parent, index)

    def node(self, composed: yaml.Node, origin: Origin) -> Node:
        """The value of a composed node, with its lines; a key that stands twice is a mistake, not a silent loss."""
        origin = Origin(origin.file, composed.start_mark.line + 1, origin.key)
        if isinstance(composed, yaml.MappingNode):
            self._check_keys(composed)
            self.flatten_mapping(composed)  # merge keys (``<<``)
            pairs = [(self.construct_object(key, deep=True), key, value) for key, value in composed.value]
            return Node({key: self._below(value, origin, key, at) for key, at, value in pairs}, origin)
        if isinstance(composed, yaml.SequenceNode):
            below = [self.node(value, origin.child(i)) for i, value in enumerate(composed.value)]
            return Node(below, origin)
        return Node(self.construct_object(composed, deep=True), origin)

    def _below(self, value: yaml.Node, origin: Origin, key: Any, at: yaml.Node) -> Node:
        node = self.node(value, origin.child(key))
        return Node(node.value, origin.child(key, at.start_mark.line + 1))  # a mapping begins where its key stands

    def _check_keys(self, composed: yaml.MappingNode) -> None:
        keys = [key for key, _ in composed.value if key.tag != "tag:yaml.org,2002:merge"]
        for key in keys:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(problem="found unhashable key", problem_mark=key.start_mark)
        counts = Counter(self.construct_object(key, deep=True) for key in keys)
        for twice in (key for key, count in counts.items() if count > 1):
            problem, mark = f"duplicate key '{twice}'", composed.start_mark
            raise yaml.constructor.ConstructorError(problem=problem, problem_mark=mark)


def read(file: Path) -> Node:
    """The YAML of a study, unchecked; UserError where there is none, it is not YAML, or it is too large."""
    try:
        check_regular(file, str(file), MOST_BYTES)
        loader = _Loader(file.read_text(encoding="utf-8"))
        top = loader.get_single_node()
        if top is None:
            return Node(None, Origin(str(file), 1))
        _check_aliases(top)
        return loader.node(top, Origin(str(file)))
    except OSError as error:
        raise UserError(f"{file}: cannot be read ({reason(error)})") from error
    except (ValueError, OverflowError) as error:
        raise UserError(f"{file}: cannot be read ({error})") from error
    except RecursionError as error:
        raise UserError(f"{file}: not a study, it is nested too deeply") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        raise UserError(f"{file}{line}: not YAML ({getattr(error, 'problem', error)})") from error


def _check_aliases(top: yaml.Node) -> None:
    """Raises ValueError for aliases that make a small file endless or huge."""
    sizes: dict[int, float] = {}

    def size(node: yaml.Node) -> float:
        if id(node) not in sizes:
            sizes[id(node)] = float("inf")  # what is met again below itself has no end
            inner = chain(*node.value) if isinstance(node, yaml.MappingNode) else node.value
            sizes[id(node)] = 1 + sum(map(size, inner if isinstance(node, yaml.CollectionNode) else ()))
        return sizes[id(node)]

    if size(top) == float("inf"):
        raise ValueError("one of its aliases (*name) stands for a value that holds the alias itself")
    if size(top) > MOST_VALUES:
        raise ValueError(
            f"with its aliases (*name) it holds {size(top):,} values, and a study may have {MOST_VALUES:,}"
        )


def given(config: Any, files: Node) -> Node:
    """A study as Snakemake merged it from `files` and its command line, each value with the place it comes from."""
    if files.plain == config:
        return files
    if not isinstance(config, Mapping):
        return Node.of(config, Origin(COMMAND_LINE, key=files.origin.key))
    nodes = {}
    for key, value in config.items():
        known = files.get(key) if isinstance(files.value, dict) else None
        nodes[key] = given(value, known) if known else Node.of(value, Origin(COMMAND_LINE, key=_key(files, key)))
    return Node(nodes, files.origin)


def _key(parent: Node, key: Any) -> str:
    return parent.origin.child(key).key


def merged(files: list[Node]) -> Node:
    """Several files of a study, each over those before it, as Snakemake merges them: mappings merge, all else replaces."""
    top = files[0]
    for over in files[1:]:
        top = _merge(top, over)
    return top


def _merge(base: Node, over: Node) -> Node:
    if not isinstance(base.value, dict) or not isinstance(over.value, dict):
        return over
    changes = {key: _merge(base.value[key], node) if key in base.value else node for key, node in over.value.items()}
    return base.updated(changes)
