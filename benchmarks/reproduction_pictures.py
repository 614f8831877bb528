"""One picture a paper for docs/reproduction.md: what it prints in one column, and what kept runs of each scale came to.

python -m benchmarks.reproduction writes them; each holds a digest of its numbers, by which a test knows it.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from fedgrid.analysis.figures.common.palette import COLOURS, GREY
from fedgrid.analysis.figures.common.style import drawing, write_figure
from fedgrid.analysis.tables.common.pivot import AVERAGED

RUNS = Path("benchmarks/results/papers")
SCALES = {"small": COLOURS[0], "long": COLOURS[1]}
"""The scales of kept runs with their colours, the cheaper one first."""
FOLDER = Path("docs/images/reproduction")
WIDTH, HEIGHT, MARGIN = 5.6, 0.21, 0.9
"""Of the picture, of a row and of what stands around the rows, in inches."""


@dataclass(frozen=True)
class Column:
    """The column of a paper that its main claim is about."""

    experiment: str
    data: str
    heterogeneity: str
    source: str

    @property
    def title(self) -> str:
        """Its name in the picture."""
        return f"{self.source}: {self.data}, {self.heterogeneity}"


COLUMNS = {
    "fedcosr": Column("table2", "CIFAR-100", "20 classes", "FedCoSR, Table II"),
    "fedcrl": Column("table2", "CIFAR-10", "Dirichlet 0.1", "FedCRL, Table II"),
    "fedccl": Column("table4", "CIFAR-10", "Dirichlet 0.5", "FedCCL, Table 4"),
    "fedsac": Column("table1", "CIFAR-10", "Dirichlet 0.1", "FedSaC, Table 1"),
}
"""FedSSC prints rounds to one accuracy, of three methods: no picture."""


def numbers(paper: str) -> pd.DataFrame:
    """By row, in printed order from the highest: `printed`, and of each scale with results its mean and `…_std`.

    NaN at a scale where rows have different numbers of seeds, which are other partitions: their means do not compare.
    """
    column, scales = COLUMNS[paper], []
    for scale in SCALES:
        file = RUNS / scale / paper / "printed.csv"
        if file.is_file():
            here = of_column(pd.read_csv(file), column)
            ours = here[["ours", "ours_std_seeds"]].set_axis([scale, f"{scale}_std"], axis=1)
            if here["seeds"].dropna().nunique() > 1:
                ours[:] = np.nan
            scales.append(ours if scales else ours.assign(printed=here["number"]))
    return pd.concat(scales, axis=1).drop(index=AVERAGED, errors="ignore").sort_values("printed", ascending=False)


def of_column(table: pd.DataFrame, column: Column) -> pd.DataFrame:
    """Its accuracies, by row."""
    place = (table["data"] == column.data) & (table["heterogeneity"] == column.heterogeneity)
    of_experiment = (table["folder"] == column.experiment) & (table["metric"] == "accuracy")
    return table[place & of_experiment].set_index("row")


def digest(table: pd.DataFrame, decimals: int = 2) -> str:
    """Of the numbers that a picture shows."""
    return hashlib.sha256(table.round(decimals).to_csv().encode()).hexdigest()[:16]


def draw(table: pd.DataFrame, column: Column) -> Figure:
    """A line a row: a hollow mark for what is printed, and a filled one with its spread for each scale."""
    figure = Figure(figsize=(WIDTH, HEIGHT * len(table) + MARGIN))
    axes = figure.add_subplot()
    lines = range(len(table))
    shown = {scale: colour for scale, colour in SCALES.items() if scale in table and table[scale].notna().any()}
    axes.plot(table["printed"], lines, "o", mfc="white", mec=GREY, ms=5, label="printed")
    for scale, colour in shown.items():
        spread = table[f"{scale}_std"].fillna(0)
        axes.errorbar(table[scale], lines, xerr=spread, fmt="o", color=colour, ms=4.5, lw=1, label=scale)
    axes.set(yticks=lines, yticklabels=table.index, xlabel="Accuracy (%)", title=column.title)
    axes.invert_yaxis()
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -2.2 * HEIGHT / figure.get_figheight()), ncols=1 + len(shown))
    return figure


def write() -> None:
    """Draw every picture anew."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for paper, column in COLUMNS.items():
        table = numbers(paper)
        with drawing():
            write_figure(draw(table, column), FOLDER / f"{paper}.svg", f"{column.title} [{digest(table)}]")
