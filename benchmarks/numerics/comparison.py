"""What two trees computed of the same cases, compared bit for bit."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.numerics.worker import FAILED
from fedgrid.files import read_table
from fedgrid.jobs.comparison import difference
from fedgrid.settings import ARTIFACTS

INPUTS = (".train.parquet", ".test.parquet", ".partition.parquet")
"With what the names of files of images and of partitions end."
STATISTICS = ".partition.json"
"With what the names of files end that describe a partition."
WORDS = ("key", "source", "note", "words", "spec", "form")
"Entries of what such files say of themselves that are no numbers, or are the code's own identity."


def differences(before: Path, now: Path) -> Iterator[str]:
    """The first difference of each file of a case, in words; a case that fails in both trees in the same way has none.

    `before` and `now` are the folders of the case.
    """
    names = sorted({file.name for folder in (before, now) for file in folder.iterdir() if not _is_artifact(file)})
    for name in names:
        earlier, today = before / name, now / name
        if not (earlier.is_file() and today.is_file()):
            why = reason(now)
            yield f"{name}: {'only now' if today.is_file() else 'no more'}" + (f" ({why})" if why else "")
        elif sentence := _difference(earlier, today):
            yield f"{name}: {sentence}"


def reason(folder: Path) -> str:
    """What went wrong where a case failed; empty where it did not."""
    file = folder / FAILED
    return file.read_text(encoding="utf-8").strip().splitlines()[-1] if file.is_file() else ""


def _difference(before: Path, now: Path) -> str:
    if before.name == FAILED:
        return "" if before.read_bytes() == now.read_bytes() else f"fails otherwise ({reason(now.parent)})"
    if before.name.endswith(STATISTICS):
        one, other = (_without_words(json.loads(file.read_text(encoding="utf-8"))) for file in (before, now))
        return "" if one == other else "other statistics"
    if before.name.endswith(INPUTS):
        return _difference_of_inputs(before, now)
    artifacts = {kind: (before.with_suffix(end), now.with_suffix(end)) for kind, end in ARTIFACTS.items()}
    unequal = [kind for kind, (one, other) in artifacts.items() if one.is_file() != other.is_file()]
    if unequal:
        return f"the artifact '{unequal[0]}' is in one of them alone"
    return difference(before, now, {kind: files for kind, files in artifacts.items() if files[0].is_file()})


def _difference_of_inputs(before: Path, now: Path) -> str:
    (rows, facts), (rows_now, facts_now) = (_told(*read_table(file)) for file in (before, now))
    if not rows.equals(rows_now):
        return "other rows"
    one, other = _without_words(facts), _without_words(facts_now)
    names = [name for name in {**one, **other} if one.get(name) != other.get(name)]
    return f"other {', '.join(names)}" if names else ""


def _told(rows: pa.Table, facts: Mapping[str, Any]) -> tuple[pa.Table, dict[str, Any]]:
    """Columns of texts and facts without those that say nothing: a tree may not know of them yet."""
    nothing = [name for name in rows.column_names if rows[name].to_pylist() in (["null"], ["{}"])]
    return rows.drop_columns(nothing), {name: fact for name, fact in facts.items() if fact not in (None, {})}


def _without_words(value: Any) -> Any:
    """Facts, at whatever depth, without those that are `WORDS`."""
    if not isinstance(value, dict):
        return value
    return {name: _without_words(fact) for name, fact in value.items() if name not in WORDS}


def _is_artifact(file: Path) -> bool:
    return file.name.endswith(tuple(ARTIFACTS.values())) or ".rows" in file.name
