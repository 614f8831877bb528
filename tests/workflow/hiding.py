"""Snakemake with some attributes of its workflow hidden from the Snakefile, as if they had been renamed."""

from collections.abc import Set
from typing import Any

from snakemake import cli
from snakemake.api import Workflow


class Without:
    """An object as it is, but for the attributes at some dotted paths below it."""

    def __init__(self, whole: Any, hidden: Set[str]):
        self.__dict__.update(whole=whole, hidden=hidden)

    def __getattr__(self, name: str) -> Any:
        below = {rest for first, _, rest in (path.partition(".") for path in self.hidden) if first == name}
        if "" in below:
            raise AttributeError(name)
        value = getattr(self.whole, name)
        return Without(value, below) if below else value

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.whole, name, value)


def main(arguments: list[str]) -> None:
    """Command line: ATTRIBUTE,… and Snakemake's own arguments. Snakemake itself still finds what is hidden."""
    hidden, original = set(arguments[0].split(",")), Workflow.__post_init__

    def hide(workflow: Workflow) -> None:
        original(workflow)
        workflow.globals["workflow"] = Without(workflow, hidden)

    Workflow.__post_init__ = hide
    cli.main(arguments[1:])
