"""The values of a study, each with the file, the line and the key that it comes from."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from fedgrid.errors import UserError

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

    @property
    def label(self) -> str:
        """Its place and its key, as in ``study.yaml:14: training.lr``."""
        return ": ".join(filter(None, [self.place, self.key]))

    def child(self, key: Any, line: int = 0) -> "Origin":
        """The origin of a value below this one, on the same line unless another one is given."""
        return Origin(self.file, line or self.line, f"{self.key}.{key}" if self.key else str(key))

    def mistake(self, problem: str) -> UserError:
        """The error for a wrong value: its place, its key and the problem."""
        return UserError(f"{self.label}: {problem}" if self.label else problem)

    @contextmanager
    def located(self) -> Iterator[None]:
        """Puts this place in front of a UserError, and this key where the error does not begin with it."""
        try:
            yield
        except UserError as error:
            problem = str(error)
            if self.key and problem.startswith((f"{self.key}: ", f"{self.key}.")):
                raise Origin(self.file, self.line).mistake(problem) from error
            raise self.mistake(problem) from error


@dataclass(frozen=True)
class Node:
    """A value of a study: a scalar, or a mapping or list of nodes."""

    value: Any
    origin: Origin = Origin()

    @classmethod
    def of(cls, plain: Any, origin: Origin = Origin()) -> "Node":
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
        nodes: dict[Any, Node] = self.value or {}
        return nodes

    @property
    def items(self) -> list["Node"]:
        """The nodes of a list."""
        nodes: list[Node] = self.value
        return nodes

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

    def below(self, *path: Any) -> "Node | None":
        """The node at a path below; None where there is none."""
        node: Node | None = self
        for key in path:
            node = node.get(key) if node else None
        return node

    def origin_of(self, *path: Any) -> Origin:
        """The origin of the value at a path below; that of an absent one is where its mapping begins."""
        if not path:
            return self.origin
        below = self.get(path[0])
        if below:
            return below.origin_of(*path[1:])
        origin = self.origin
        for key in path:
            origin = origin.child(key)
        return origin


def given(config: Any, files: Node) -> Node:
    """A study as Snakemake merged it from `files` and its command line, each value with the place it comes from."""
    if files.plain == config:
        return files
    if not isinstance(config, Mapping):
        return Node.of(config, Origin(COMMAND_LINE, key=files.origin.key))
    nodes = {}
    for key, value in config.items():
        known = files.get(key) or Node(None, Origin(COMMAND_LINE, key=files.origin.child(key).key))
        nodes[key] = given(value, known)
    return Node(nodes, files.origin)


def merged(files: list[Node]) -> Node:
    """Several files of a study, each over those before it, as Snakemake does: mappings merge, all else replaces."""
    top = files[0]
    for over in files[1:]:
        top = _merge(top, over)
    return top


def _merge(base: Node, over: Node) -> Node:
    if not isinstance(base.value, dict) or not isinstance(over.value, dict):
        return over
    changes = {key: _merge(base.value[key], node) if key in base.value else node for key, node in over.value.items()}
    return base.updated(changes)
