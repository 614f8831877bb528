"""The YAML of a study, read with care: a duplicate key, aliases without end, and a file too large are mistakes."""

from collections import Counter
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


class _Loader(yaml.SafeLoader):
    """YAML in which a key that stands twice is a mistake, not a silent loss; merge keys (``<<``) work.

    Composing a node raises ValueError once there are more than `MOST_VALUES`.
    """

    values = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self.values += 1
        if self.values > MOST_VALUES:  # counted here, since composing them all would take minutes
            raise ValueError(f"it holds more than {MOST_VALUES:,} values, the most that a study may have")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"]
        mapping = super().construct_mapping(node, deep)  # first, as it refuses keys that cannot be counted
        counts = Counter(self.construct_object(key, deep=True) for key in keys)
        for twice in (key for key, count in counts.items() if count > 1):
            raise yaml.constructor.ConstructorError(
                problem=f"the key '{twice}' stands twice", problem_mark=node.start_mark
            )
        return mapping


def read(file: Path) -> Any:
    """The YAML of a study, unchecked; UserError where there is none, it is not YAML, or it is too large."""
    try:
        check_regular(file, str(file), MOST_BYTES)
        loader = _Loader(file.read_text(encoding="utf-8"))
        top = loader.get_single_node()
        if top is None:
            return None
        _check_aliases(top)
        return loader.construct_document(top)
    except OSError as error:
        raise UserError(f"{file}: cannot be read ({reason(error)})") from error
    except (ValueError, OverflowError) as error:
        raise UserError(f"{file}: cannot be read ({error})") from error
    except RecursionError as error:
        raise UserError(f"{file}: not a study, it is nested too deeply") from error
    except yaml.YAMLError as error:
        line = f" in line {mark.line + 1}" if (mark := getattr(error, "problem_mark", None)) else ""
        raise UserError(f"{file}: not YAML{line} ({getattr(error, 'problem', error)})") from error


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
