"""What tables and pages say of adopted cells: earlier versions carried results of earlier code to a new key."""

from collections import Counter
from dataclasses import dataclass

from fedgrid.analysis.prose.phrases import listing
from fedgrid.analysis.scores.cells import FinishedCell, checked_on
from fedgrid.analysis.scores.results import Results
from fedgrid.quantities import counted


@dataclass(frozen=True, order=True)
class Group:
    """Cells of a method that were carried together: at one time, between the same code, on the same evidence."""

    date: str
    method: str
    before: str
    "Digest of the earlier code."
    now: str
    "Digest of the code under which the results count since."
    checked: tuple[str, ...]
    "Keys of the cells that were trained again and compared."
    of: int
    "Number of cells of the group in all studies that were adopted together."
    fedgrid: str
    "The version that carried them."


def adopted(results: Results) -> list[str]:
    """A sentence on the cells that were adopted from earlier code; empty where none was."""
    cells = _adopted(results)
    if not cells:
        return []
    finished = len({cell.key for cell in results.trained})
    some = "finished cells" if len(results.trained) < len(results.to_train) else "cells"
    versions = listing(sorted({cell.versions["fedgrid"] for cell in cells}))
    latest = {_groups(cell)[-1] for cell in cells}
    checked, of = sum(len(group.checked) for group in latest), sum(group.of for group in latest)
    were, whose = ("was", "its") if len(cells) == 1 else ("were", "their")
    return [
        f"{len(cells):,} of {finished:,} {some} {were} adopted from earlier code (fedgrid {versions}). As a check, "
        f"{checked:,} of the {of:,} cells of {whose} group{'s' * (len(latest) > 1)} "
        f"{'was' if checked == 1 else 'were'} trained again and gave the same bits."
    ]


def groups(results: Results) -> list[str]:
    """A phrase on each group of adopted cells, the oldest first: method, code, evidence and date."""
    sizes = Counter(group for cell in _adopted(results) for group in _groups(cell))
    return [_described(group, size) for group, size in sorted(sizes.items())]


def _described(group: Group, size: int) -> str:
    code = f"{group.before[:8]} → {group.now[:8]}"
    if group.before == group.now:
        code = f"{group.now[:8]}, and earlier code of their data or partitions"
    evidence = f"{checked_on(len(group.checked), group.of)} on {group.date[:10]} with fedgrid {group.fedgrid}"
    return f"{group.method}: {counted(size, 'cell')} of code {code}, {evidence}"


def _adopted(results: Results) -> list[FinishedCell]:
    """The adopted cells, each once."""
    return list({cell.key: cell for cell in results.finished if cell.adopted}.values())


def _groups(cell: FinishedCell) -> list[Group]:
    """The groups in which the results of an adopted cell were carried, the oldest first."""
    codes = [*(adoption.code for adoption in cell.adopted[1:]), cell.code]
    return [
        Group(entry.date, cell.method, entry.code, now, tuple(entry.checked), entry.of, entry.fedgrid)
        for entry, now in zip(cell.adopted, codes, strict=True)
    ]
