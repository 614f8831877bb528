"""The results of all cells of a study, in memory and as one results.parquet."""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from fedgrid.analysis.scores.cells import FinishedCell, with_results
from fedgrid.analysis.scores.external import external_cells
from fedgrid.analysis.scores.results import CELL, ROW, Results, from_parts, in_sentences
from fedgrid.errors import UserError
from fedgrid.files import parquet_writer, read_metadata, read_table, seal
from fedgrid.grid.plan.manifest_model import Cell, Manifest
from fedgrid.grid.study.codec import encode

WORDS = pa.dictionary(pa.int32(), pa.string())
COLUMNS = {
    **{name: WORDS for name in ROW},
    "seed": pa.int32(),
    "round": pa.int32(),
    "client": pa.int32(),
    "metric": WORDS,
    "value": pa.float64(),
}


def collect(manifest: Manifest, out: Path, made_from: str | None = None) -> Results:
    """The results of all cells of an experiment, in the order of its `manifest`, which are also written to `out`.

    The rows are those of the cells with the columns label, data, heterogeneity and seed in front; the schema's metadata
    carry the name of the manifest's file, `made_from`, by which they are known to be up to date, the study, what its
    paper prints, and one entry a cell. The same inputs give the same bytes. Cells that the manifest says to have no
    results have no rows. Raises `UserError` when another cell is missing or is not the one that is meant, and when
    cells of one data set were trained on different images.
    """
    cells = [with_results(cell) for cell in manifest.cells]
    check_images(cells)
    external = list(external_cells(manifest))
    cells += [cell for cell, _ in external]
    printed = {"published": manifest.published, "published_elsewhere": manifest.published_elsewhere}
    head = encode({"manifest": made_from, "study": manifest.study, **printed, "cells": cells})
    schema = pa.schema(list(COLUMNS.items()), metadata=seal(json.dumps(head, ensure_ascii=False)))
    tables = [labelled(cell, read_table(cell.path)[0], schema) for cell in manifest.cells if not cell.status]
    tables += [labelled(cell, rows, schema) for cell, rows in external]
    with parquet_writer(out, schema) as writer:
        for table in tables:
            writer.write_table(table)
    return from_parts(head, pa.concat_tables([schema.empty_table(), *tables]))


def in_memory(manifest: Manifest, keys: Iterable[str]) -> Results:
    """The results of some cells of an experiment, read from the cells' files."""
    chosen = set(keys)
    wanted = [cell for cell in manifest.cells if cell.key in chosen]
    schema = pa.schema(list(COLUMNS.items()))
    rows = pa.concat_tables([labelled(cell, read_table(cell.path)[0], schema) for cell in wanted])
    return Results(in_sentences(manifest.study), [with_results(cell) for cell in wanted], rows.to_pandas())


def check_images(cells: Iterable[Cell]) -> None:
    """Raises `UserError` where cells were trained on other images than the store's, or than other cells' of their data.

    One key may stand for several copies of a data set whose authors published no checksum.
    """
    trained_on: dict[Path, list[tuple[str, Path]]] = {}
    for cell in cells:
        if isinstance(cell, FinishedCell) and cell.images and cell.images_file:
            trained_on.setdefault(cell.images_file, []).append((cell.images, cell.path))
    for file, trained in trained_on.items():
        checksums = Counter(checksum for checksum, _ in trained)
        built = file.is_file()
        expected = read_metadata(file)["checksum"] if built else checksums.most_common(1)[0][0]
        others = [path for checksum, path in trained if checksum != expected]
        if others:
            which = f"{others[0]} and {len(others) - 1:,} more were" if others[1:] else f"{others[0]} was"
            than = f"that of {file.parent}" if built else "other cells"
            raise UserError(
                f"{which} trained on another copy of the data set than {than}: delete these results and run the same "
                "command again"
            )


def labelled(cell: Cell, rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows of one cell with its four names in front."""
    values = zip(CELL, cell.table_position, strict=True)
    names = {name: pa.repeat(pa.scalar(value), len(rows)) for name, value in values}
    columns = [names[field.name] if field.name in names else rows[field.name] for field in schema]
    return pa.table([column.cast(field.type) for column, field in zip(columns, schema, strict=True)], schema=schema)
