"""The footnotes of a table: seeds that failed or are absent, by letter."""

from string import ascii_letters

import pandas as pd

from fedgrid.analysis.prose.phrases import listing
from fedgrid.analysis.scores.cells import WAITING
from fedgrid.analysis.scores.points import cell_frame
from fedgrid.analysis.scores.results import ROW, Results
from fedgrid.analysis.scores.summary import SCORED
from fedgrid.grid.plan.manifest_model import UNAVAILABLE


class Footnotes:
    """The footnotes of one table, by letter: notes on seeds that failed or are absent."""

    def __init__(self, results: Results, table: pd.DataFrame):
        """`table` has the columns of `ROW`, `status` and `seeds` (number of those that are good)."""
        self.by_entry = notes(results, table)
        self.texts: list[str] = []

    def letter(self, label: str, data: str, heterogeneity: str) -> str:
        """The letter to raise behind an entry, or nothing."""
        note = self.by_entry.get((label, data, heterogeneity))
        return self.add(note) if note else ""

    def add(self, note: str) -> str:
        """The letter of a note, which is a new one where there is none like it."""
        if note not in self.texts:
            self.texts.append(note)
        return letter(self.texts.index(note))


def letter(i: int) -> str:
    """The letter of number i, from 0: a to z, A to Z, then (53) and so on, so that several can stand side by side."""
    return ascii_letters[i] if i < len(ascii_letters) else f"({i + 1})"


def notes(results: Results, table: pd.DataFrame) -> dict[tuple[str, ...], str]:
    """(label, data, heterogeneity) → its footnotes."""
    planned = len(results.study.seeds)
    footnotes = {
        tuple(entry[name] for name in ROW): [f"over {entry['seeds']} of {planned} seeds"]
        for entry in table.to_dict("records")
        if entry["status"] in SCORED and entry["seeds"] < planned
    }
    cells = cell_frame(results)
    failed = cells[~cells["status"].isin(["ok", *WAITING])].groupby([*ROW, "status", "reason"], sort=False)
    for (*entry, status, reason), part in failed:
        seeds = f"{'seed' if len(part) == 1 else 'seeds'} {listing(map(str, part['seed']))} "
        everywhere = status == UNAVAILABLE and len(part) == planned
        footnotes.setdefault(tuple(entry), []).append(f"{'' if everywhere else seeds}{status}: {reason.rstrip('.')}")
    return {entry: "; ".join(parts) + "." for entry, parts in footnotes.items()}
