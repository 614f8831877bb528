"""Partitions that others reuse: published with checksums, and checked when they are read."""

import hashlib
import re
import shutil
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fedgrid.errors import Damaged, UserError
from fedgrid.files import as_json, read_metadata, read_table, replacing, write_text
from fedgrid.partition.common.rows import EVERYONE, SPLITS, digest_of
from fedgrid.partition.common.statistics import statistics

FACTS = {
    "clients": int,
    "words": str,
    "data": str,
    "data_checksum": str,
    "classes": list,
    "domains": list,
    "test": str,
    "digest": str,
    "spec": dict,
}
"What the metadata must say, and in which form."
COLUMNS = ("client", "split", "index", "label", "domain")
SUMS = "SHA256SUMS"
README = "# Published partitions"


def checked(file: Path) -> tuple[pa.Table, dict[str, Any]]:
    """Like `opened`, for a file published by others: raises UserError for a damaged one too."""
    with _published(file):
        return opened(file)


def facts(file: Path) -> dict[str, Any]:
    """The metadata of a partition published by others; UserError as in `checked`."""
    with _published(file):
        return _facts(file)


def opened(file: Path) -> tuple[pa.Table, dict[str, Any]]:
    """The rows and the metadata of a partition.

    Raises `Damaged`, and UserError for a file that is no partition, holds other rows than its metadata promise, or is
    another one than a file SHA256SUMS beside it says. The digest covers the rows; only SHA256SUMS covers every byte.
    """
    metadata = _facts(file)
    try:
        _check_sum(file)
        table, _ = read_table(file)
        table.validate(full=True)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise _unusable(file, type(error).__name__) from error
    missing = [name for name in COLUMNS if name not in table.column_names]
    if missing:
        raise UserError(f"{file}: not a partition of fedgrid: the column '{missing[0]}' is missing")
    _check_rows(file, table, metadata)
    if digest_of(table) != metadata["digest"]:
        raise UserError(f"{file}: its rows do not match its metadata; fetch or build it again")
    return table, metadata


def _facts(file: Path) -> dict[str, Any]:
    """The metadata of a partition; UserError where there is none, or where they lack one of `FACTS`."""
    metadata = read_metadata(file)
    for name, kind in FACTS.items():
        if not isinstance(metadata.get(name), kind):
            raise UserError(f"{file}: not a partition of fedgrid: its metadata lack '{name}'; make or export it again")
    return metadata


@contextmanager
def _published(file: Path) -> Iterator[None]:
    """A damaged file is not one that the same command would make again."""
    try:
        yield
    except Damaged as error:
        raise _unusable(file, error.why) from error


def _unusable(file: Path, why: str) -> UserError:
    return UserError(f"{file}: no partition that can be used ({why}); fetch or make it again")


def publish(file: Path, folder: Path) -> Path:
    """Copies a partition into `folder` under a speaking name and returns the path of the copy.

    Beside it: NAME.json (metadata and statistics), SHA256SUMS and README.md, both for all partitions of the folder.
    Raises UserError for a file that `checked` refuses, and where a different file would be overwritten.
    """
    table, metadata = checked(file)
    target = folder / f"{speaking_name(metadata)}.parquet"
    described = metadata | {"statistics": statistics(table, metadata["clients"], len(metadata["classes"]))}
    text = as_json(described)
    _check_new(target, file.read_bytes())
    _check_new(target.with_suffix(".json"), text.encode())
    readme = folder / "README.md"
    if readme.exists() and not readme.read_text(encoding="utf-8", errors="replace").startswith(README):
        raise UserError(f"{readme} already exists and does not belong to a partition; export to another folder")
    with replacing(target) as temporary:
        shutil.copyfile(file, temporary)
    write_text(target.with_suffix(".json"), text)
    sums = read_sums(folder) | {name.name: sum_of(name) for name in (target, target.with_suffix(".json"))}
    write_text(folder / SUMS, "".join(f"{sums[name]}  {name}\n" for name in sorted(sums)))
    write_text(readme, _readme(folder, sums))
    return target


def speaking_name(metadata: Mapping[str, Any]) -> str:
    """Data set, setting and seed (or, without one, 8 digits of the digest) in letters that every file system takes."""
    letters = "".join(_plain(letter) for letter in f"{metadata['data']} {metadata['words']}".lower())
    seed = metadata["spec"].get("seed")
    end = metadata["digest"][:8] if seed is None else f"s{seed}"
    return "-".join([*re.findall(r"[a-z0-9_.]*[a-z0-9]", letters), end])


def read_sums(folder: Path) -> dict[str, str]:
    """File name → SHA-256, from the file SHA256SUMS in `folder`; empty where there is none."""
    sums = folder / SUMS
    lines = sums.read_text(encoding="utf-8", errors="replace").splitlines() if sums.is_file() else []
    return {name: digest for digest, name in re.findall(r"^([0-9a-f]{64}) [ *](.+)$", "\n".join(lines), re.MULTILINE)}


def sum_of(file: Path) -> str:
    """SHA-256 of a file's bytes."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _plain(letter: str) -> str:
    """A Greek letter becomes its name, β → beta; everything else without its accents."""
    name = unicodedata.name(letter, "")
    return name.split()[-1].lower() if name.startswith("GREEK") else unicodedata.normalize("NFKD", letter)[0]


def _check_sum(file: Path) -> None:
    promised = read_sums(file.parent).get(file.name)
    if promised is not None and promised != sum_of(file):
        raise UserError(f"{file}: its SHA-256 is not that of {file.parent / SUMS}; fetch it again")


def _check_rows(file: Path, table: pa.Table, metadata: Mapping[str, Any]) -> None:
    """Raises UserError for values that no partition of so many clients and classes has."""
    if metadata["clients"] < 1:
        raise UserError(f"{file}: a partition has at least one client")
    if "names" in metadata and not _are_names(metadata["names"], metadata["clients"]):
        raise UserError(f"{file}: the names of the metadata are not a list of texts for each client")
    highest = {"client": metadata["clients"] - 1, "label": len(metadata["classes"]) - 1, "index": None}
    for name, high in highest.items():
        column, low = table[name], EVERYONE if name == "client" else 0
        if not pa.types.is_integer(column.type) or column.null_count:
            raise UserError(f"{file}: the column '{name}' must be whole numbers")
        limits = pc.min_max(column).as_py() if len(column) else {"min": low, "max": low}
        if limits["min"] < low or (high is not None and limits["max"] > high):
            raise UserError(f"{file}: the column '{name}' goes beyond the clients and classes of the metadata")
    unknown = set(pc.unique(table["split"]).to_pylist()) - set(SPLITS)
    if unknown:
        raise UserError(f"{file}: unknown split {unknown.pop()!r}; known: {', '.join(SPLITS)}")


def _are_names(names: Any, clients: int) -> bool:
    """Whether these are the values that natural clients stand for, a list of texts for each of so many clients."""
    if not isinstance(names, list) or len(names) != clients:
        return False
    return all(isinstance(values, list) and all(isinstance(value, str) for value in values) for values in names)


def _check_new(path: Path, content: bytes) -> None:
    if path.exists() and path.read_bytes() != content:
        raise UserError(f"{path} already exists and differs; delete it or export to another folder")


def _readme(folder: Path, sums: Mapping[str, str]) -> str:
    files = [folder / name for name in sorted(sums) if name.endswith(".parquet") and (folder / name).is_file()]
    entries = [(file.name, read_metadata(file)) for file in files]
    rows = [
        f"| {name} | {facts_of_file['data']} | {facts_of_file['words']} | {facts_of_file['digest'][:16]} |"
        for name, facts_of_file in entries
    ]
    return f"""{README}

| file | data set | setting | digest of the rows |
| --- | --- | --- | --- |
{chr(10).join(rows)}

Each file says which client holds which images of the data set; the JSON file beside it holds its metadata
and statistics. Check that the files are whole with `sha256sum -c {SUMS}`.

To use one in a study of fedgrid, name its data set as `data` and the file as the heterogeneity:

```yaml
data: {entries[0][1]["data"]}
heterogeneity: [{{partition: "file:path/to/{entries[0][0]}"}}]
```

In the path, `{{seed}}` stands for the seed of the partition. The study stops with a sentence where its images are not
those that the partition was made for, or where the rows were changed.
"""
