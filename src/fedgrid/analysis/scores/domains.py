"""Domains of clients: where a table has a column for each, with their mean at the end of the group."""

import pandas as pd

from fedgrid.analysis.scores.results import CELL, Results

Column = tuple[str, str, str]
"""Data set, heterogeneity, domain."""
EVERY, AVERAGE = "", "avg"
"""Domains of a column that is of all clients: where domains make no columns, and behind those that do."""


def columns(results: Results, domains: bool) -> list[Column]:
    """All (data, heterogeneity, domain) in study order; one with the domain `EVERY` where there are none to tell apart.

    Of a column whose cells have no results, domains are not known.
    """
    known: dict[tuple[str, str], dict[str, None]] = {}
    for cell in results.finished if domains else []:
        names = filter(None, cell.domains or [])
        known.setdefault(cell.column, {}).update(dict.fromkeys(names))
    return [
        (*column, domain)
        for column in results.columns
        for domain in ([*known[column], AVERAGE] if known.get(column) else [EVERY])
    ]


def clients(results: Results) -> pd.DataFrame:
    """One row per (cell, client) whose client has a `domain`."""
    rows = [
        (*cell.table_position, client, domain)
        for cell in results.finished
        for client, domain in enumerate(cell.domains or [])
        if domain
    ]
    return pd.DataFrame(rows, columns=[*CELL, "client", "domain"]).astype({"client": "int32", "seed": "int32"})
