"""What a paper says of its numbers, each sentence with the rule that checks it."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from fedgrid.grid.study.codec import Limits, Misfit

ALL = "all"
"In a claim: every row that takes part."
OTHERS = "others"
"In a claim about a lead: the best other row of each column, which need not be the same one."
RULES = ("leads", "last", "within", "above", "difference", "rises", "falls", "grows", "shrinks")
"Keys of a claim that say what is checked; a claim has at most one."
Metric = Annotated[
    str,
    Limits(
        pattern=r"accuracy(@(0?\.[0-9]+|1))?|std_clients|worst_tenth|worst_client|jain|(clean|fgsm|pgd20)_accuracy"
        "|(loss_)?roughness|rounds|bytes|seconds",
        form="accuracy, std_clients, worst_tenth, worst_client, jain, clean_accuracy, fgsm_accuracy, pgd20_accuracy, "
        "roughness, loss_roughness, rounds, bytes, seconds, or accuracy@ with a share of the rounds such as 0.5",
    ),
]
Names = Annotated[list[str], Limits(filled=True, unique=True)]
Rows = str | Names
"Printed names of rows, or `ALL` or `OTHERS`."


@dataclass(frozen=True)
class Claim:
    """A sentence of a paper, and one of `RULES` that checks it, or none."""

    says: Annotated[str, Limits(filled=True)]
    leads: str | None = None
    "The row that is better than every other one."
    last: str | None = None
    "The row that every other one is better than."
    within: tuple[str, Annotated[int, Limits(low=1)]] | None = None
    "A row, and the number of the best rows that it is among."
    above: tuple[Rows, Rows] | None = None
    "Rows, and those that each of them is better than."
    difference: tuple[Rows, Rows] | None = None
    "Rows whose differences lie within `by`, without a direction."
    rises: Rows | None = None
    "Rows whose numbers become higher from column to column."
    falls: Rows | None = None
    "Rows whose numbers become lower from column to column."
    grows: tuple[str, Rows] | None = None
    "A row whose lead over other ones becomes larger from column to column; `others` is the best of them."
    shrinks: tuple[str, Rows] | None = None
    "A row whose lead over other ones becomes smaller from column to column."
    metric: Metric | Annotated[list[Metric], Limits(filled=True)] = "accuracy"
    "What is compared; with several, all must agree."
    metrics: tuple[Metric, Metric] | None = None
    "Of `rises` and `falls`: from which metric to which, within a column."
    columns: Names = field(default_factory=list)
    "The columns that the sentence is about, in its order; empty: all."
    rows: Names = field(default_factory=list)
    "The rows that take part; empty: all."
    by: tuple[float | None, float | None] | None = None
    "Limits of the difference, in `unit`; null: none."
    unit: Literal["points", "percent"] = "points"
    "Percent are of the row that one compares with, or of the number that rises or falls."
    most: bool | Annotated[float, Limits(above=0, high=1)] = False
    "Whether more than half of the comparisons of a column will do, or the share of them that must be as claimed."

    def __post_init__(self) -> None:
        needing = "difference" if self.difference else "unit" if self.unit != "points" else ""
        if needing and self.by is None:
            raise Misfit(f"the key 'by' is missing, which '{needing}' needs")

    @property
    def rule(self) -> str | None:
        """The key of its rule; None where no rule checks it."""
        return next((key for key in RULES if getattr(self, key) is not None), None)

    @property
    def named_rows(self) -> list[str]:
        """The rows that its rule names."""
        arguments = getattr(self, self.rule) if self.rule else ()
        groups = arguments if isinstance(arguments, tuple) else (arguments,)
        names = [name for group in groups for name in (group if isinstance(group, list) else [group])]
        return [name for name in dict.fromkeys(names) if isinstance(name, str) and name not in (ALL, OTHERS)]
