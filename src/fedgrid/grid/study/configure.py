"""Components of a study with all their settings; a wrong one is named by its line."""

from collections.abc import Mapping, Sequence
from typing import Any

from fedgrid.components import SettingError, resolve
from fedgrid.errors import UserError
from fedgrid.files import slug
from fedgrid.grid.study.catalog import description
from fedgrid.grid.study.model import Configured, Placed, Settings
from fedgrid.grid.study.nodes import Node, Origin
from fedgrid.grid.study.overlay import each, leaves

Description = Mapping[str, Any]
"What `fedgrid.grid.study.catalog.description` says of a component."


def settings_of(about: Description, given: Node, base: Settings | None = None) -> dict[str, Any]:
    """All settings of a component: the `given` ones over `base` and the defaults; UserError for a wrong one."""
    try:
        return resolve(about, {**(base or {}), **(given.plain or {})}, given.origin.key)
    except SettingError as error:
        raise _wrong_setting(given, error) from error


def _wrong_setting(given: Node, error: SettingError) -> UserError:
    """The error at the line of the setting; where that was laid over an entry, the sentence names the entry."""
    origin = given.origin_of(*error.path)
    if not error.unknown:
        return origin.mistake(error.problem)
    key, entry = origin.key.rpartition(".")[0], given.origin_of(*error.key)
    laid = f" (laid over {entry.label})" if key != entry.key and entry.place else ""
    return Origin(origin.file, origin.line, key).mistake(f"{error.problem}{laid}")


def configured(about: Description, given: Node) -> Configured:
    """A component with the `given` settings over its defaults; UserError for a wrong one."""
    named = {name: about[name] for name in ("name", "title", "reference", "module", "file")}
    return Configured(**named, settings=settings_of(about, given))


def configured_component(kind: str, entry: Node, key: str = "name") -> tuple[Configured, Description]:
    """A component from its name, or from a mapping that names it under `key`, beside its settings."""
    named = Node({key: entry}, entry.origin) if isinstance(entry.value, str) else entry
    reference = named.mapping[key]
    with reference.origin.located():
        about = description(kind, reference.plain)
    return configured(about, named.without(key)), about


def single_entries(entry: Node) -> list[tuple[Node, dict[str, Any]]]:
    """The entries that one with lists stands for, with what each takes; UserError for a list without values."""
    for _, value in leaves(entry):
        if value.value == []:
            raise value.origin.mistake("a list of values must not be empty")
    return list(each(entry))


def check_labels(labels: Sequence[Placed[str]]) -> None:
    """Raises UserError for labels that are equal, or that a file's name could not tell apart."""
    first: dict[str, Placed[str]] = {}
    for label in labels:
        other = first.setdefault(slug(label.value), label)
        if other is not label:
            both = f"'{other.value}' and '{label.value}' are too alike"
            what = f"duplicate label '{label.value}'" if other.value == label.value else both
            raise label.origin.mistake(f"{what}; give one of them another label")
