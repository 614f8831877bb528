"""Pages that are made from templates."""

from pathlib import Path
from typing import Any

from jinja2 import StrictUndefined, Template


def rendered(template: Path, **values: Any) -> str:
    """The text of a template with these values, all of which it has to be given."""
    text = template.read_text(encoding="utf-8")
    return Template(text, keep_trailing_newline=True, undefined=StrictUndefined).render(values)
