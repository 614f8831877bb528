"""What other papers print of the same columns, and how far their orders of rows agree with this paper's."""

from collections.abc import Mapping, Sequence

import pandas as pd

from fedgrid.analysis.papers.agreement import between_papers, limits_text, text
from fedgrid.analysis.tables.common.grid import Entry, Grid

Numbers = Sequence[Mapping[str, str]]
THIS = ""
"""The name of this paper among the others."""


def agreement_with_papers(printed: Numbers, papers: Mapping[str, Numbers]) -> pd.DataFrame:
    """τ of this paper's `printed` numbers with those of each other one: the columns of `between_papers`."""
    parts = [between_papers({THIS: printed, name: numbers}) for name, numbers in papers.items()]
    filled = [part for part in parts if len(part)]
    return pd.concat(filled, ignore_index=True) if filled else between_papers({})


def grid(table: pd.DataFrame) -> Grid:
    """`compared` as a table to print."""
    rows = []
    for entry in table.to_dict("records"):
        name = ", ".join(filter(None, (entry[part] for part in ("data", "heterogeneity", "domain"))))
        values = [entry["other"], str(entry["rows"]), str(entry["equal"]), text(entry["tau"]), limits_text(entry)]
        rows.append((name, list(map(Entry, values))))
    header = [[(name, 1) for name in ("Paper", "Rows", "Equal", "Kendall’s τ", "95 % interval")]]
    caption = (
        "What another paper prints of the same columns: agreement of the order of rows, Kendall’s τ-b, over the rows "
        "that both print. Equal: rows with the very same number, which one paper may have taken from the other."
    )
    return Grid(caption, "Column", header, rows)
