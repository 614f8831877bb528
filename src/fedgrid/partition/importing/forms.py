"""Which foreign form a file or folder has: told from its name and its first bytes."""

import functools
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq

from fedgrid.data.sources.digests import digest, digests
from fedgrid.errors import UserError, reason
from fedgrid.files import METADATA, check_regular
from fedgrid.partition.importing.dictionary import read_dictionary
from fedgrid.partition.importing.pfllib import PARTS, client_files
from fedgrid.partition.importing.rows import ImportedRows
from fedgrid.partition.importing.table import read_table

Kind = Literal["CSV", "Parquet", "JSON", "PFLlib"]
SUFFIXES: dict[str, Kind] = {".csv": "CSV", ".parquet": "Parquet", ".json": "JSON"}
PICKLED = (".pkl", ".pickle", ".pt", ".pth")
LARGEST_BYTES = 2**31
"Of a file of rows: 100 million rows take less."


@dataclass(frozen=True)
class Form:
    """A foreign partition, its form known."""

    path: Path
    kind: Kind

    @property
    def digest(self) -> str:
        """SHA-256 of the file; of a folder, of the digests of its files by their names."""
        if self.kind != "PFLlib":
            return digest(self.path)
        files = [file for by_client in client_files(self.path).values() for file in by_client.values()]
        return hashlib.sha256(json.dumps(digests(files, self.path)).encode()).hexdigest()

    @property
    def rows(self) -> ImportedRows:
        """Of a file, the rows; a folder of images has none before they are matched."""
        return _read(self.path, self.kind, self.digest)

    @property
    def title(self) -> str:
        """What captions call the form."""
        return "PFLlib's npz files" if self.kind == "PFLlib" else self.rows.form


def form_of(path: Path) -> Form:
    """The form of a file or folder; UserError with what to do for one that has none, or that fedgrid wrote."""
    if not path.exists():
        raise UserError(f"there is no file {path}")
    if path.is_dir():
        return _form_of_folder(path)
    check_regular(path, str(path), LARGEST_BYTES)
    begin = _first_bytes(path)
    if path.suffix.lower() in PICKLED or begin[:1] == b"\x80":
        raise UserError(
            f"{path}: is a pickle, which can run any program when it is loaded; where you trust it, turn it into JSON "
            f"by these three lines of Python, and import {path.stem}.json: {_conversion(path)}"
        )
    if path.suffix.lower() == ".npz":
        raise UserError(f"{path}: is one client's file; name the folder that has PFLlib's folders train and test")
    kind = SUFFIXES.get(path.suffix.lower())
    if kind is None:
        known = f"{', '.join(SUFFIXES)}, or a folder of PFLlib"
        raise UserError(f"{path}: no form of partition ends so; known: {known}")
    if not begin:
        raise UserError(f"{path}: is empty")
    if _is_of_fedgrid(path):
        raise UserError(f'{path}: is a partition that fedgrid wrote; name it as it is: {{partition: "file:{path}"}}')
    return Form(path, kind)


def refuse_foreign(path: Path) -> None:
    """Raises UserError where a file that stands for a published partition is of another program: how to import it."""
    foreign = path.is_dir() or (path.is_file() and path.suffix.lower() in (*SUFFIXES, *PICKLED, ".npz"))
    if not foreign or _is_of_fedgrid(path) is not False:
        return
    kind = form_of(path).kind  # or why it cannot be imported either
    raise UserError(
        f"{path}: is not a partition that fedgrid published; import it ({kind}): fedgrid import-partition {path} "
        f"--data DATA, or in a study {{partition: {{import: {path}}}}}"
    )


def _is_of_fedgrid(path: Path) -> bool | None:
    """Whether fedgrid wrote a file; None where it is called Parquet and is none, as whoever reads it says."""
    if path.suffix.lower() != ".parquet":
        return False
    try:
        return METADATA in (pq.read_metadata(path).metadata or {})
    except (OSError, pa.ArrowException):
        return None


def _form_of_folder(folder: Path) -> Form:
    if any((folder / part).is_dir() for part in PARTS):
        client_files(folder)
        return Form(folder, "PFLlib")
    if folder.name in PARTS and any(folder.glob("*.npz")):
        raise UserError(f"{folder}: is one part alone; name the folder above it, {folder.parent}")
    raise UserError(f"{folder}: is a folder without PFLlib's folders train and test; name a file, or such a folder")


def _first_bytes(path: Path) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(2)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({reason(error)})") from error


def _conversion(path: Path) -> str:
    """Python that turns a pickled dictionary into JSON."""
    write = f"json.dump(clients, open({path.stem + '.json'!r}, 'w'), default=lambda array: array.tolist())"
    return f"import json, pickle; clients = pickle.load(open({path.name!r}, 'rb')); {write}"


@functools.lru_cache(maxsize=8)  # planning asks for the rows of a file several times
def _read(path: Path, kind: Kind, digest: str) -> ImportedRows:
    return read_dictionary(path) if kind == "JSON" else read_table(path)
