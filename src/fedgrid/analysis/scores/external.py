"""External results as cells of an experiment, so that tables, tests and figures have them like all other rows."""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from fedgrid.analysis.scores.cells import FinishedCell
from fedgrid.files import read_metadata, read_table
from fedgrid.grid.plan.cell_metadata import Costs, Seconds
from fedgrid.grid.plan.manifest_model import REPORTED, Cell, Manifest
from fedgrid.grid.study.external import ExternalRow, ExternalScore, planned_scores

METRIC = f"accuracy_{REPORTED}"
EVERYONE = -1
"The client of a test image that all clients share."
MEAN = EVERYONE
"In place of a client: the mean over all clients, where the file has no more."


def external_cells(manifest: Manifest) -> Iterator[tuple[FinishedCell, pa.Table]]:
    """The cells of external results, each with its rows (round, client, metric, value), in the order of the columns.

    Raises UserError where a file is not the one that the study was planned with.
    """
    first = {(cell.data, cell.heterogeneity, cell.seed): cell for cell in reversed(manifest.cells)}
    for row in manifest.external:
        scores = planned_scores(row)
        for (data, heterogeneity, seed), beside in reversed(first.items()):
            of_cell = [score for score in scores if (*score.column, score.seed) == (data, heterogeneity, seed)]
            if of_cell:
                yield _cell(row, beside, of_cell, manifest), _rows(of_cell, beside.partition, manifest)


def _cell(row: ExternalRow, beside: Cell, scores: list[ExternalScore], manifest: Manifest) -> FinishedCell:
    position = row.label, beside.data, beside.heterogeneity, beside.seed
    return FinishedCell(
        key=row.key_of(*position),
        label=row.label,
        method=row.label,
        data=beside.data,
        heterogeneity=beside.heterogeneity,
        seed=beside.seed,
        path=Path(row.path),
        partition=beside.partition,
        status="ok",
        score=REPORTED,
        rounds=max(_round(score, manifest) for score in scores),
        costs=Costs(Seconds(0.0)),
        versions={},
        hardware={},
        external=row.origin,
        same_partition=_is_same(scores, beside.partition),
    )


def _is_same(scores: Iterable[ExternalScore], partition: Path) -> bool:
    """Whether all rows say that they are of the partition in this file, by the digest of its rows."""
    named = {score.partition for score in scores}
    return "" not in named and partition.is_file() and all(map(read_metadata(partition)["digest"].startswith, named))


def _round(score: ExternalScore, manifest: Manifest) -> int:
    return manifest.study.rounds if score.round is None else score.round


def _rows(scores: list[ExternalScore], partition: Path, manifest: Manifest) -> pa.Table:
    """Accuracies as they are, and the test images of the clients where the partition is in the store."""
    clients = list(dict.fromkeys(MEAN if score.client is None else score.client for score in scores))
    images = _test_images(partition)
    samples = {client: sum(images.values()) if client == MEAN else images.get(client, 0) for client in clients}
    known = {client: number for client, number in samples.items() if number}
    first = min(_round(score, manifest) for score in scores)
    rows = [(_round(s, manifest), MEAN if s.client is None else s.client, METRIC, s.value) for s in scores]
    rows += [(first, client, "test_samples", float(number)) for client, number in known.items()]
    names = ("round", "client", "metric", "value")
    return pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))


def _test_images(partition: Path) -> Counter[int]:
    """By client, its test images, those that all share included; nothing without the partition's file."""
    if not partition.is_file():
        return Counter()
    table, metadata = read_table(partition)
    tests = table.filter(pc.equal(table["split"].cast(pa.string()), "test"))
    images = Counter(tests["client"].to_pylist())
    shared = images.pop(EVERYONE, 0)
    return images + Counter(dict.fromkeys(range(metadata["clients"]), shared))
