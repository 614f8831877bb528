"""The YAML of a study, read with care: a key that stands twice, and aliases without end, are mistakes."""

import itertools
from pathlib import Path
from typing import Any

import yaml

from fedgrid.errors import UserError, reason

MOST_NODES = 100_000
"Values that a study may hold once its aliases are replaced by what they stand for."


class _Loader(yaml.SafeLoader):
    """YAML in which a key that stands twice is a mistake, not a silent loss; merge keys (``<<``) work."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        own = [key for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"]
        keys = [self.construct_object(key, deep=True) for key in own]
        for twice in {str(key) for key in keys if keys.count(key) > 1}:
            raise yaml.constructor.ConstructorError(
                problem=f"the key '{twice}' stands twice", problem_mark=node.start_mark
            )
        return super().construct_mapping(node, deep)


def read(file: Path) -> Any:
    """The YAML of a study, unchecked; UserError where there is none or it is not YAML."""
    try:
        if file.exists() and not file.is_file():
            raise UserError(f"{file}: is no file")
        text = file.read_text(encoding="utf-8")
        _check_size(file, yaml.compose(text, yaml.SafeLoader))
        return yaml.load(text, _Loader)
    except OSError as error:
        raise UserError(f"{file}: cannot be read ({reason(error)})") from error
    except (ValueError, OverflowError) as error:
        raise UserError(f"{file}: cannot be read ({error})") from error
    except RecursionError as error:
        raise UserError(f"{file}: not a study, it is nested too deeply") from error
    except yaml.YAMLError as error:
        line = f" in line {mark.line + 1}" if (mark := getattr(error, "problem_mark", None)) else ""
        raise UserError(f"{file}: not YAML{line} ({getattr(error, 'problem', error)})") from error


def _check_size(file: Path, top: yaml.Node | None) -> None:
    """Raises UserError for aliases that make a small file endless or huge."""
    sizes: dict[int, float] = {}

    def size(node: yaml.Node) -> float:
        if id(node) not in sizes:
            sizes[id(node)] = float("inf")  # what is met again below itself has no end
            inner = itertools.chain(*node.value) if isinstance(node, yaml.MappingNode) else node.value
            sizes[id(node)] = 1 + sum(map(size, inner if isinstance(node, yaml.CollectionNode) else ()))
        return sizes[id(node)]

    if top is not None and size(top) > MOST_NODES:
        raise UserError(f"{file}: its aliases (*name) stand for more than {MOST_NODES:,} values")
