"""Components of a study with all their settings; an error about a setting names the line of the setting."""

from collections.abc import Mapping, Sequence
from typing import Any

from fedgrid.components import SettingError, identity, resolve
from fedgrid.files import slug
from fedgrid.grid.study.catalog import description
from fedgrid.grid.study.model import Configured, Placed, Settings
from fedgrid.grid.study.sections import Origin, Section, StudyError, located

SOURCE = ".py"
"How the path of a component's file ends."
Description = Mapping[str, Any]
"What `fedgrid.grid.study.catalog.description` says about a component."


def settings_of(about: Description, changes: Section, base: Settings | None = None) -> dict[str, Any]:
    """All settings of a component: the `changes` over `base` and the defaults; StudyError for a wrong one."""
    try:
        return resolve(about, {**(base or {}), **changes}, changes.origin.key)
    except SettingError as error:
        raise _wrong_setting(changes, error) from error


def _wrong_setting(changes: Section, error: SettingError) -> StudyError:
    """The error at the line of the setting; where that was laid over an entry, the sentence names the entry."""
    value: Any = changes
    origins = [changes.origin]
    for name in error.path:
        section = value if isinstance(value, Section) else Section()
        origins.append(section.origins.get(name) or origins[-1].child(name))
        value = section.get(name)
    origin, entry = origins[-1], origins[len(error.key)]
    if not error.unknown:
        return StudyError(origin, error.problem)
    key = origin.key.rpartition(".")[0]
    elsewhere = key != entry.key and not key.startswith(f"{entry.key}.")
    laid = f" (laid over {entry.label})" if elsewhere and entry.position else ""
    return StudyError(Origin(origin.file, origin.line, key), f"{error.problem}{laid}")


def configured(about: Description, changes: Section) -> Configured:
    """A component with its settings: the `changes` over the defaults; StudyError for a wrong one."""
    named = {name: about[name] for name in ("name", "title", "reference", "module", "file")}
    settings = settings_of(about, changes)
    return Configured(**named, settings=settings, identity=identity(about, settings))


def configured_component(kind: str, entry: Section, key: str = "name") -> tuple[Configured, Description]:
    """The component that an entry names under `key`, beside its settings, and its description."""
    with located(entry.origins[key]):
        about = description(kind, reference_of(entry[key], entry.origins[key]))
    return configured(about, entry - {key}), about


def reference_of(component: str, origin: Origin) -> str:
    """How the component that a study names at `origin` is found: a name, or the path of its file."""
    return origin.input_path(component) if component.endswith(SOURCE) else component


def named_entries(entries: Any, origin: Origin) -> list[Section]:
    """The entries of a list, or the one that stands for a list, as mappings: a name ``mnist`` as ``{name: mnist}``."""
    if isinstance(entries, Section):
        return [entries]
    if isinstance(entries, str):
        return [Section({"name": entries}, origin, {"name": origin})]
    pairs = zip(entries, entries.origins, strict=True)
    return [section for entry, origin in pairs for section in named_entries(entry, origin)]


def check_labels(labels: Sequence[Placed[str]]) -> None:
    """Raises StudyError for labels that are equal, or that a file's name could not tell apart."""
    first: dict[str, Placed[str]] = {}
    for label in labels:
        other = first.setdefault(slug(label.value), label)
        if other is not label:
            both = f"'{other.value}' and '{label.value}' are too alike"
            problem = f"duplicate label '{label.value}'" if other.value == label.value else both
            raise StudyError(label.origin, f"{problem}; give one of them another label")
