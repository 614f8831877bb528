"""Results in a store that are not a planned cell's own, but of the same components and seed."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fedgrid.grid.plan.cell_metadata import CellMetadata, known_metadata
from fedgrid.grid.plan.model import Cell
from fedgrid.settings import ARTIFACTS


@dataclass(frozen=True)
class StoredResults:
    """Results like those of a planned cell, under whichever code or with another number of rounds."""

    cell: Cell
    file: Path
    metadata: CellMetadata

    @property
    def state(self) -> Path:
        """Where their state is, if it was kept."""
        return state_of(self.file)

    @property
    def artifacts(self) -> dict[str, Path]:
        """The files of the artifacts that the study asks for, by kind; some may be missing."""
        return self.cell.kept_beside(self.file)


def state_of(results: Path) -> Path:
    """Where the state of a cell with these results is, if it was kept."""
    return results.with_suffix(ARTIFACTS["state"])


def other_results(cell: Cell, store: Path | None = None) -> Iterator[StoredResults]:
    """Complete results of other keys beside those of a cell in `store` (None: its own), in no order."""
    folder = (store or cell.store) / cell.file.parent.relative_to(cell.store)
    for file in folder.glob(f"s{cell.seed}-*.parquet"):
        metadata = known_metadata(file) if file.name.count(".") == 1 and file != cell.file else None
        if metadata and metadata.key != cell.key:
            yield StoredResults(cell, file, metadata)
