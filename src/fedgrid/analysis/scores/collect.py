"""Concatenate all cells of a study into one results.parquet."""

import json
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from fedgrid.analysis.scores.results import CELL, ROW, Results, whole
from fedgrid.command import run
from fedgrid.errors import Damaged, UserError
from fedgrid.files import parquet_writer, read_json, read_metadata, read_table, seal

WORDS = pa.dictionary(pa.int32(), pa.string())
COLUMNS = {
    **{name: WORDS for name in ROW},
    "seed": pa.int32(),
    "round": pa.int32(),
    "client": pa.int32(),
    "metric": WORDS,
    "value": pa.float64(),
}
FROM_MANIFEST = ["key", "label", "method", "data", "heterogeneity", "seed", "partition"]
FROM_CELL = ["status", "reason", "score", "rounds", "costs", "versions", "hardware"]
SINCE = ["domains", "sizes", "commit", "images"]
"""What else a cell may say of itself; those that were computed by an earlier release do not."""


def collect(manifest: Path, out: Path) -> None:
    """Write all cells that `manifest` (JSON) lists to `out`; `UserError` when it is unreadable."""
    write(read_manifest(manifest), out)


def write(listed: dict[str, Any], out: Path, absent: Mapping[str, Mapping[str, str]] = {}) -> None:
    """Write all cells of a study, `listed` as in its manifest, to `out` (Parquet), in that order.

    The rows are those of the cells with the columns label, data, heterogeneity and seed in front; the schema's metadata
    carry the manifest's name, the study, what its paper prints, and one entry a cell. The same inputs give the same
    bytes. Cells whose keys are in `absent`, the manifest's or this one, have no rows, and as status and reason what
    stands there. Raises `UserError` when another cell is missing or is not the one that is meant, and when cells of
    one data set were trained on different images.
    """
    absent = {**listed.get("absent", {}), **absent}
    cells = [described(cell, absent) for cell in listed["cells"]]
    check_images(listed["cells"], cells)
    published = listed.get("published", [])
    head = {"manifest": listed.get("manifest"), "study": listed["study"], "published": published, "cells": cells}
    schema = pa.schema(list(COLUMNS.items()), metadata=seal(json.dumps(head, ensure_ascii=False)))
    with parquet_writer(out, schema) as writer:
        for cell in listed["cells"]:
            if cell["key"] in absent:
                continue
            writer.write_table(labelled(cell, schema))


def in_memory(listed: dict[str, Any], keys: Iterable[str]) -> Results:
    """The results of some cells of a study, read without a file of their own; `listed` as for `write`."""
    wanted = [cell for cell in listed["cells"] if cell["key"] in set(keys)]
    schema = pa.schema(list(COLUMNS.items()))
    rows = pa.concat_tables([labelled(cell, schema) for cell in wanted])
    cells = [described(cell, {}) for cell in wanted]
    return whole({"study": listed["study"], "cells": cells}, rows.to_pandas())


def read_manifest(path: Path) -> dict[str, Any]:
    """Read a study's manifest, whose list of cells may be empty; `UserError` when there is none.

    Under `manifest` it has the file's name, by which results.parquet is known to be up to date.
    """
    manifest = read_json(path)
    if not {"study", "cells"} <= manifest.keys():
        raise UserError(f"the manifest {path} lists no cells.")
    return {"manifest": path.name, **manifest}


def described(cell: dict[str, Any], absent: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """What results.parquet says about one cell of the manifest, after a check that the file is that very cell."""
    names = {name: cell[name] for name in FROM_MANIFEST} | {"kept": cell.get("kept", {})}
    if cell["key"] in absent:
        return {**names, **absent[cell["key"]]}
    head = read_metadata(Path(cell["path"]))
    if head.get("key") != cell["key"]:
        raise Damaged(Path(cell["path"]), f"it holds the cell {head.get('key')}, but the manifest means {cell['key']}")
    return names | {name: head[name] for name in FROM_CELL} | {name: head.get(name) for name in SINCE}


def check_images(listed: Sequence[Mapping[str, Any]], cells: Sequence[Mapping[str, Any]]) -> None:
    """Raises `UserError` where cells were trained on other images than the store's, or than other cells' of their data.

    One key may stand for several copies of a data set whose authors published no checksum.
    """
    trained_on: dict[str, list[tuple[str, str]]] = {}
    for known, cell in zip(listed, cells, strict=True):
        if cell.get("images"):
            trained_on.setdefault(known["images"], []).append((cell["images"], known["path"]))
    for file, trained in trained_on.items():
        checksums = Counter(checksum for checksum, _ in trained)
        built = Path(file).is_file()
        meant = read_metadata(Path(file))["checksum"] if built else checksums.most_common(1)[0][0]
        others = [path for checksum, path in trained if checksum != meant]
        if others:
            which = f"{others[0]} and {len(others) - 1:,} more were" if others[1:] else f"{others[0]} was"
            than = f"that of {Path(file).parent}" if built else "other cells"
            raise UserError(
                f"{which} trained on another copy of the data set than {than}: delete these results and run the same "
                "command again"
            )


def labelled(cell: dict[str, Any], schema: pa.Schema) -> pa.Table:
    """The rows of one cell with its four names in front."""
    rows, _ = read_table(Path(cell["path"]))
    names = {name: pa.repeat(pa.scalar(cell[name]), len(rows)) for name in CELL}
    columns = [names[field.name] if field.name in names else rows[field.name] for field in schema]
    return pa.table([column.cast(field.type) for column, field in zip(columns, schema, strict=True)], schema=schema)


def main(argv: Sequence[str] | None = None) -> int:
    """Command line: MANIFEST OUT."""
    parser = ArgumentParser(prog="python -m fedgrid.analysis.scores.collect", description=__doc__)
    parser.add_argument("manifest", type=Path, help="results/<study>/manifest.json")
    parser.add_argument("out", type=Path, help="results.parquet to write")
    parser.set_defaults(action=collect)
    return run(parser, argv)


if __name__ == "__main__":
    raise SystemExit(main())
