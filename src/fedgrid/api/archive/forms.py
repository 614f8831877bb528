"""Forms that venues ask for, filled in as far as a study and its cells have the answers."""

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from fedgrid.analysis.tables.common.grid import MARKDOWN
from fedgrid.api.archive.layout import APPENDIX, CHECKLIST
from fedgrid.quantities import counted, duration


def filled_forms(facts: dict[str, Any]) -> dict[str, str]:
    """The reproducibility checklist and the artifact appendix by name; `facts` are those of `study_facts`."""
    return {name: _templates().get_template(f"{name}.j2").render(**facts) for name in (CHECKLIST, APPENDIX)}


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("fedgrid.api.archive"),
        autoescape=False,  # it is Markdown; `plain` escapes what a study says
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"plain": _plain, "duration": duration, "settings": _settings}
    environment.globals |= {"counted": counted}
    return environment


def _plain(text: str) -> str:
    """A text of the study in one line, as Markdown prints it unchanged."""
    return " ".join(str(text).split()).translate(MARKDOWN)


def _settings(values: dict[str, list[str]]) -> str:
    """Settings with their values, several of which differ between cells."""
    return ", ".join(f"`{name}: {' | '.join(known)}`" for name, known in values.items()) or "no settings"
