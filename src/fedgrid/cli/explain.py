"""``fedgrid explain``: what the key of a cell is made of."""

import argparse
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fedgrid.cli.finding import the_cell
from fedgrid.cli.parsing import with_examples
from fedgrid.cli.studies import add_configfile, study_of
from fedgrid.files import read_metadata
from fedgrid.grid.identity import NOT_COUNTED, modules_of_cell
from fedgrid.grid.planned import Cell
from fedgrid.grid.planned_study import Study

EXAMPLES = "fedgrid explain 3fa1b2c4\nfedgrid explain fedcosr s0 --configfile config/mnist.yaml"


def add_commands(commands: argparse._SubParsersAction) -> None:
    text = "what the key of a cell is made of: settings, partition, data, and the code that can change its numbers"
    explain = with_examples(commands, "explain", text, EXAMPLES)
    explain.add_argument("words", nargs="+", metavar="WORD", help="of a cell: its key, method, data set, sSEED")
    add_configfile(explain)
    explain.set_defaults(call=_explain)


def _explain(arguments: argparse.Namespace) -> int:
    study = study_of(arguments)
    kept = _of_other_code(study, arguments.words)
    if kept:
        print("\n".join(_kept(kept, study)))
    else:
        print("\n".join(_planned(the_cell(study, arguments.words, "explain"))))
    return 0


def _planned(cell: Cell) -> Iterator[str]:
    partition, data = cell.partition, cell.partition.data
    yield f"{cell.words}: {'trained' if cell.done else 'to be trained'}"
    yield f"key        {cell.key}"
    yield from _settings(cell.spec)
    digest = f", rows {read_metadata(partition.file)['digest'][:16]}" if partition.file.is_file() else ", not built yet"
    yield f"partition  {partition.key}, {partition.words}, seed {partition.seed}{digest}"
    checksum = f", images {read_metadata(data.files['train'])['checksum'][:16]}" if data.built else ", not built yet"
    yield f"data       {data.key}, {data.title}{checksum}"
    component = cell.row.component
    counted = modules_of_cell(component.module, component.file, cell.model.module)
    yield f"code       {cell.code}, of {len(counted)} modules:"
    yield from (f"           {digest}  {name}" for name, digest in counted.items())
    yield "not counted, for it cannot change a number:"
    yield from (f"           {name}: {reason}" for name, reason in NOT_COUNTED.items())


def _settings(spec: Mapping[str, Any]) -> Iterator[str]:
    for part in ("method", "model"):
        settings = ", ".join(f"{name}={value}" for name, value in spec[part]["settings"].items())
        yield f"{part:10} {spec[part]['name']}{f': {settings}' if settings else ''}"
    yield f"training   {', '.join(f'{name}={value}' for name, value in spec['training'].items())}"
    yield f"seed       {spec['seed']}"


def _of_other_code(study: Study, words: list[str]) -> Path | None:
    """The finished cell with that key, where it is none of the study's as it is now."""
    if len(words) > 1 or not re.fullmatch("[0-9a-f]{4,16}", words[0]):
        return None
    if any(key.startswith(words[0]) for key in study.by_key):
        return None
    found = [file for file in study.store.glob(f"cells/**/s*-{words[0]}*.parquet") if file.name.count(".") == 1]
    return found[0] if len(found) == 1 else None


def _kept(file: Path, study: Study) -> Iterator[str]:
    """What a finished cell says of its key, and which of its modules are others now."""
    metadata = read_metadata(file)
    yield f"{file}: of another study, or of other code or data"
    yield f"key        {metadata['key']}"
    yield from _settings(metadata["spec"])
    yield f"code       {metadata['code']}, of {len(metadata['modules'])} modules; {_compared(metadata, study)}"


def _compared(metadata: Mapping[str, Any], study: Study) -> str:
    """How a finished cell's code differs from that of the study's cells of the same method."""
    cell = next((c for c in study.cells if c.row.component.name == metadata["spec"]["method"]["name"]), None)
    if cell is None:
        return "the study has no cell of this method to compare it with"
    component = cell.row.component
    now = modules_of_cell(component.module, component.file, cell.model.module)
    changed = [name for name, code in metadata["modules"].items() if now.get(name) != code]
    return f"other than now: {', '.join(changed)}" if changed else "the same as now: settings or data differ"
