"""What fedgrid holds besides Python code: rules, profiles, studies and papers, a page of docs.

A clone has these folders at its top, where Snakemake and readers look for them; a wheel, and the code that a run keeps,
have them inside the package.
"""

from pathlib import Path
from string import Template

PACKAGE = Path(__file__).parent


def folder(name: str) -> Path:
    """The folder ``workflow``, ``profiles``, ``config`` or ``docs``, of which a wheel has the page on methods alone."""
    inside = PACKAGE / name
    return inside if inside.is_dir() else PACKAGE.parents[1] / name


def study_rules() -> str:
    """The file of the rules, for the ``include`` of a Snakefile."""
    return str(folder("workflow") / "rules" / "study.smk")


def template(path: str) -> Template:
    """A text of the package, in which ``$name`` stands for what is to be filled in."""
    return Template((PACKAGE / path).read_text(encoding="utf-8"))
