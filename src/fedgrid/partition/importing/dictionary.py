"""Dictionaries of clients and row numbers, as JSON: of FedLab and NIID-Bench, of FL-bench, and their like.

Client → row numbers, or client → split → row numbers; a list stands for the clients 0, 1, … FL-bench keeps such a list
under ``data_indices``. Row numbers without a split are training images.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedgrid.errors import UserError
from fedgrid.partition.importing.rows import LARGEST_NUMBER, ImportedRows, numbered, split_number

FL_BENCH_KEY = "data_indices"
"The key below which FL-bench's file has the clients, beside ``separation``, which says nothing more on images."
FORM = "client → row numbers, or client → train, validation, test → row numbers"


def read_dictionary(file: Path) -> ImportedRows:
    """The rows of a JSON file; UserError in one sentence for any other content."""
    content, form = _content(file), "JSON of clients' row numbers"
    if isinstance(content, dict) and FL_BENCH_KEY in content:
        content, form = content[FL_BENCH_KEY], "JSON of FL-bench"
    if not isinstance(content, dict | list) or not content:
        raise UserError(f"{file}: has to be a mapping or a list of clients, {FORM}")
    entries = content.items() if isinstance(content, dict) else enumerate(content)
    held = {str(name): value for name, value in entries}
    names, positions = numbered([*held])
    client, split, image = [], [], []
    for name, value in held.items():
        for number, numbers in _splits(value, f"{file}: client {name[:40]!r}"):
            client.append(np.full(len(numbers), positions[name], np.int64))
            split.append(np.full(len(numbers), number, np.int64))
            image.append(numbers)
    if not sum(map(len, image)):
        raise UserError(f"{file}: no client has an image")
    clients, splits, images = (np.concatenate(parts) for parts in (client, split, image))
    return ImportedRows(names, clients, splits, "index", images, form=form)


def _content(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8-sig"), object_pairs_hook=_unique, parse_constant=_refuse)
    except (OSError, ValueError, RecursionError) as error:
        problem = " ".join(str(error).split())[:160]
        raise UserError(f"{file}: cannot be read as JSON ({problem})") from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        repeated = next(name for name in values if sum(key == name for key, _ in pairs) > 1)
        raise ValueError(f"duplicate key '{repeated[:40]}'")
    return values


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a row number")


def _splits(value: Any, where: str) -> Iterator[tuple[int, np.ndarray]]:
    """The row numbers of each split of a client."""
    if isinstance(value, Mapping):
        for name, numbers in value.items():
            yield split_number(name, where), _row_numbers(numbers, where)
    else:
        yield 0, _row_numbers(value, where)


def _row_numbers(values: Any, where: str) -> np.ndarray:
    if not isinstance(values, list):
        raise UserError(f"{where}: has {str(values)[:40]!r} in place of a list of row numbers; the form is {FORM}")
    for value in values:
        if type(value) is not int:
            raise UserError(f"{where}: {str(value)[:40]!r} is not a row number")
        if not 0 <= value <= LARGEST_NUMBER:
            raise UserError(f"{where}: {value} is not a row number; they count from 0")
    return np.array(values, np.int64)
