"""Draws the collaboration graphs of a finished study that keeps `cooperation`: rows are methods, columns rounds.

python -m benchmarks.graphs MANIFEST OUT.svg --heterogeneity dirichlet-beta0.1-clients10-weighted
"""

import argparse
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from fedgrid.analysis.figures.common.style import drawing
from fedgrid.files import read_table
from fedgrid.grid.plan.manifest_model import read_manifest

ROUNDS = (2, 6, 12, 16)


def graphs(manifest: Path, heterogeneity: str) -> dict[str, pd.DataFrame]:
    """By method's label, what each client (rows) has of each other one: round, client, other, value."""
    graphs_by_row = {}
    for cell in read_manifest(manifest).cells:
        if cell.heterogeneity == heterogeneity:
            file = cell.path.with_suffix(".cooperation.parquet")
            table = read_table(file)[0].to_pandas()
            graphs_by_row[cell.label] = table[table["matrix"].astype("str") == "graph"]
    return graphs_by_row


def drawn(graphs_by_row: dict[str, pd.DataFrame]) -> Figure:
    """A heat map of W for every method and round, all on one scale from 0 to 1."""
    with drawing():
        figure = Figure(figsize=(1.7 * len(ROUNDS), 1.75 * len(graphs_by_row)), layout="constrained")
        axes = figure.subplots(len(graphs_by_row), len(ROUNDS), squeeze=False)
        for row, (label, table) in zip(axes, graphs_by_row.items(), strict=True):
            row[0].set_ylabel(label.replace("_", " "))
            for place, number in zip(row, ROUNDS, strict=True):
                one = table[table["round"] == number].pivot(index="client", columns="other", values="value")
                image = place.imshow(one, vmin=0, vmax=1, cmap="cividis")
                place.set(title=f"round {number}", xticks=[], yticks=[])
                place.grid(False)
        figure.colorbar(image, ax=axes, label="weight in a client's mixture", shrink=0.6)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.graphs", description=__doc__)
    parser.add_argument("manifest", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--heterogeneity", required=True)
    arguments = parser.parse_args()
    drawn(graphs(arguments.manifest, arguments.heterogeneity)).savefig(arguments.out)


if __name__ == "__main__":
    main()
