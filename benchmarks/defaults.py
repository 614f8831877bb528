"""Are the defaults of methods good ones? A page of a study that has them beside six values of a hyperparameter.

``python -m benchmarks.defaults TABLE.csv…``, the tables of accuracy of such studies, writes the table of
``benchmarks/results/methods/defaults.md`` to standard output. The rule: at the study's defaults a method's default
settings are within 2 points of the best of themselves, of the better of FedAvg and FedPer, and of six values of its
first hyperparameter, where they were tried. Where they are not, the page beside the table says why.
"""

import csv
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.markdown import table

RULE = 2.0
"Points of accuracy."
BASES = ("fedavg", "fedper")
"What a study without the method would have."
SEARCHED = " six"
"With which the label of a row ends that has six values; the value stands behind a comma."


@dataclass(frozen=True)
class Judged:
    """A method's accuracy in % at its defaults, beside what it could have been."""

    method: str
    default: float
    base: float
    best: float | None
    "Of six values; None where none were tried."
    value: str

    @property
    def behind(self) -> float:
        """Points by which the default is worse than the best of all."""
        return max(self.default, self.base, self.best or 0.0) - self.default


def judged(rows: Mapping[str, tuple[float, str]]) -> list[Judged]:
    """Methods in the order of their defaults' accuracy; `rows` has accuracy in % and the point scored, by label.

    A method that scores one global model is compared with FedAvg, every other with the better of both bases.
    """
    searched: dict[str, dict[str, float]] = {}
    for label, (accuracy, _) in rows.items():
        row, _, setting = label.partition(", ")
        if row.endswith(SEARCHED):
            searched.setdefault(row.removesuffix(SEARCHED), {})[setting] = accuracy
    results = []
    for label, (accuracy, score) in rows.items():
        if SEARCHED in label:
            continue
        bases = BASES[:1] if score == "accuracy_global" else BASES
        values = searched.get(label, {})
        value = max(values, key=lambda setting: values[setting], default="")
        results.append(Judged(label, accuracy, max(rows[name][0] for name in bases), values.get(value), value))
    return sorted(results, key=lambda row: -row.default)


def read(*files: Path) -> dict[str, tuple[float, str]]:
    """Accuracy in % and the point that is scored, of every row of some tables that has one, by its label."""
    found = {}
    for file in files:
        with file.open(newline="", encoding="utf-8") as opened:
            rows = [row for row in csv.DictReader(opened) if row["accuracy"]]  # one of six values may diverge
        found |= {row["label"]: (100 * float(row["accuracy"]), row["score"]) for row in rows}
    return found


def page(rows: list[Judged]) -> str:
    """A line for each method."""
    lines = []
    for row in rows:
        best = f"{row.best:.2f} ({row.value})" if row.best is not None else "–"
        lines.append((row.method, f"{row.default:.2f}", best, f"{row.base:.2f}", f"{row.behind:.2f}", _verdict(row)))
    return table(("method", "default", "best of six", "base", "behind", ""), lines)


def _verdict(row: Judged) -> str:
    return "" if row.behind <= RULE else "more than 2 points"


if __name__ == "__main__":
    print(page(judged(read(*map(Path, sys.argv[1:])))))
