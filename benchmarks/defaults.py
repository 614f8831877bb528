"""Are the defaults of methods good ones? The table of ``benchmarks/results/methods/defaults-digits.yaml``.

``python -m benchmarks.defaults RESULTS.parquet``, after the study was run, writes the table to standard output. The
rule: at the study's defaults a method's default settings are within 2 points of the best of themselves, of the better
of FedAvg and FedPer, and of six values of its first hyperparameter. `EXPECTED` names those that are not, and why.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq

from benchmarks.markdown import table

RULE = 2.0
"Points of accuracy."
BASES = ("fedavg", "fedper")
"What a study without the method would have."
EXPECTED: Mapping[str, str] = {}
"By method, why its default is worse."


@dataclass(frozen=True)
class Judged:
    """A method's accuracy at its defaults, beside what it could have been; in %."""

    method: str
    default: float
    best: float
    value: str
    "The searched value with the best accuracy, in words; empty for a method without a search."
    base: float

    @property
    def behind(self) -> float:
        """Points by which the default is worse than the best of all."""
        return max(self.default, self.best, self.base) - self.default


def judged(accuracy: Mapping[str, float]) -> list[Judged]:
    """Methods in their order, from the mean accuracy of every row of the study by its label."""
    base = max(accuracy[name] for name in BASES)
    searched: dict[str, dict[str, float]] = {}
    for label, value in accuracy.items():
        method, _, setting = label.partition(", ")
        if setting:
            searched.setdefault(method, {})[setting] = value
    names = sorted({label.partition(", ")[0] for label in accuracy})
    rows = []
    for name in names:
        of_values = searched.get(name, {})
        value = max(of_values, key=lambda setting: of_values[setting], default="")
        default = accuracy[name] if name in accuracy else float("nan")
        rows.append(Judged(name, default, of_values.get(value, default), value, base))
    return rows


def accuracy_of(file: Path) -> dict[str, float]:
    """Mean accuracy in % of every row of a study, by its label."""
    results: pd.DataFrame = pq.read_table(file).to_pandas()
    return (100 * results.groupby("row", sort=False)["score"].mean()).to_dict()


def page(rows: list[Judged]) -> str:
    """A line for each method."""
    lines = []
    for row in rows:
        verdict = "" if row.behind <= RULE else EXPECTED.get(row.method, "**not explained**")
        best = f"{row.best:.2f} ({row.value})" if row.value else "–"
        lines.append((row.method, f"{row.default:.2f}", best, f"{row.base:.2f}", f"{row.behind:.2f}", verdict))
    return table(("method", "default", "best of six", "FedAvg or FedPer", "behind", "why"), lines)


if __name__ == "__main__":
    print(page(judged(accuracy_of(Path(sys.argv[1])))))
