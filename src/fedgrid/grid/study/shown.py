"""The tables and figures that an experiment shows, each with its options."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from fedgrid.components import LARGEST
from fedgrid.errors import nearest
from fedgrid.grid.study.codec import RAW, Limits, Misfit
from fedgrid.grid.study.sections import Section

SPREADS = ("worst_tenth", "worst_client", "jain")
OF_ROWS = ("std", *SPREADS, "ranks", "averaged", "arrows", "domains", "delta")
TABLES: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("accuracy", "attacks", "new_clients"), OF_ROWS),
    **dict.fromkeys(("classes", "costs", "settings", "search", "budgets", "ranking"), ()),
    "rounds": ("target", "costs"),
    "phases": ("names",),
    "against": ("row",),
    "bytes": ("formula",),
}
FIGURES: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("traffic", "bars", "gains", "ranking", "ablation", "confusion", "calibration", "trust"), ()),
    **dict.fromkeys(("distribution", "partition", "shares"), ()),
    **dict.fromkeys(("curves", "loss"), ("window",)),
    "sweep": ("over", "names", "matrix"),
    "tsne": ("colour", "points", "perplexity"),
    "heatmap": ("rounds",),
}


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A table or a figure of an experiment."""

    section: Section = field(metadata={RAW: True})
    table: Annotated[str, Limits(choices=tuple(TABLES))] = ""
    figure: Annotated[str, Limits(choices=tuple(FIGURES))] = ""
    std: bool = False
    worst_tenth: bool = False
    worst_client: bool = False
    jain: bool = False
    ranks: bool = False
    averaged: bool = False
    arrows: bool = False
    domains: bool = False
    delta: str = ""
    target: Annotated[float, Limits(above=0, high=100)] | None = None
    costs: bool = False
    formula: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    row: Annotated[str, Limits(filled=True)] = ""
    window: Annotated[int, Limits(low=1, high=LARGEST)] = 1
    over: Annotated[str, Limits(filled=True)] = ""
    matrix: Annotated[str, Limits(filled=True)] = ""
    colour: Literal["class", "client"] = "class"
    points: Annotated[int, Limits(low=5)] = 5
    perplexity: Annotated[float, Limits(above=1)] = 2.0
    rounds: Annotated[list[Literal["last"] | Annotated[int, Limits(low=1)]], Limits(filled=True, unique=True)] = field(
        default_factory=list
    )

    def __post_init__(self) -> None:
        if not self.table and not self.figure:
            raise Misfit("the key 'table' is missing")
        known = ["table", *TABLES[self.table]] if self.table else ["figure", *FIGURES[self.figure]]
        for name in self.section:
            if name not in known:
                raise Misfit(f"unknown key '{name}'; {nearest(name, known)}", key=name)
        if self.table == "rounds" and self.target is None:
            raise Misfit("the key 'target' is missing")
