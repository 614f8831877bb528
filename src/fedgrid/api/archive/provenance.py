"""Which code, commit, versions and hardware a study's cells have, as plain values of the archive."""

import platform
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Any

import fedgrid
from fedgrid.errors import UserError
from fedgrid.files import as_json
from fedgrid.grid.plan.cell_metadata import CellMetadata, Commit
from fedgrid.grid.plan.keys import code_of
from fedgrid.grid.plan.planned_study import Study
from fedgrid.grid.study.codec import decode, encode
from fedgrid.grid.study.fingerprint import fingerprint, modules
from fedgrid.grid.study.ledger import ENGINE
from fedgrid.grid.study.sources import Sources
from fedgrid.loading import OUTSIDE
from fedgrid.shipped import PACKAGE

FORMAT = 1


@dataclass(frozen=True)
class CellCode:
    """Which code computed a cell."""

    file: str
    "Its results, below the store."
    code: str
    "Digest of all modules that can change its numbers."
    commit: Commit | None = None


@dataclass(frozen=True)
class Provenance:
    """What an archive says for fedgrid."""

    format: int
    fedgrid: str
    study: str
    "The study's file in its working folder; empty where it lies outside of it."
    scale: str
    results: str
    "The folder that the study names for results."
    cells: Mapping[str, CellCode]
    "By key."
    modules: Mapping[str, Mapping[str, str]]
    "By digest of code, the digest of each module."
    partitions: Mapping[str, str]
    "Module of a partition's kind or a data set → digest of its code."

    def differing(self) -> dict[str, int]:
        """Modules of fedgrid whose code is another one here, and how many of the cells that concerns."""
        number: Counter[str] = Counter()
        here = {
            code: modules(ENGINE, None, _entries([*filter(_is_here, names)])) for code, names in self.modules.items()
        }
        for cell in self.cells.values():
            code = self.modules[cell.code].items()
            number.update(name for name, digest in code if _is_ours(name) and here[cell.code].get(name) != digest)
        of_data = (name for name, known in self.partitions.items() if not _is_here(name) or fingerprint(name) != known)
        return {**number, **dict.fromkeys(of_data, len(self.cells))}


def provenance(study: Study, file: str, metadata: Mapping[str, CellMetadata]) -> Provenance:
    """That of a study whose file has that name; `metadata` are those of its finished cells, by key."""
    cells = {**study.by_key, **study.known}
    files = {key: cells[key].file.relative_to(study.store).as_posix() for key in metadata}
    components = [("partition", p.component) for p in study.partitions.values()]
    components += [("data", d.component) for d in study.datasets.values()]
    return Provenance(
        format=FORMAT,
        fedgrid=fedgrid.__version__,
        study=file,
        scale=study.scale,
        results=study.results.as_posix(),
        cells={key: CellCode(files[key], head.code, head.commit) for key, head in metadata.items()},
        modules={head.code: head.modules for head in metadata.values()},
        partitions={c.module: code_of(kind, c) for kind, c in components if not c.module.startswith(OUTSIDE)},
    )


def as_bytes(values: Any) -> bytes:
    """JSON."""
    return as_json(encode(values)).encode()


def from_values(values: Any) -> Provenance:
    """The inverse of `encode`; UserError where they are not what this version of fedgrid writes."""
    try:
        decoded = decode(Provenance, values)
        if decoded.format != FORMAT:
            raise ValueError(f"its format is {decoded.format}")
        if not all(map(str.isprintable, (decoded.study, decoded.scale, decoded.results))):
            raise ValueError("one of its names cannot be printed")
        if any(cell.code not in decoded.modules for cell in decoded.cells.values()):
            raise ValueError("the code of a cell is not described")
    except ValueError as error:
        raise UserError(f"its description is not one of this version of fedgrid ({error})") from error
    return decoded


def environment(metadata: Iterable[CellMetadata]) -> dict[str, Any]:
    """Versions and hardware of all cells, each kind once with the number of its cells, and versions here."""
    kinds: dict[str, dict[str, Any]] = {}
    for head in metadata:
        described = {"versions": head.versions, "hardware": head.hardware}
        kinds.setdefault(as_json(described), {**described, "cells": 0})["cells"] += 1
    here = {"python": platform.python_version(), "fedgrid": fedgrid.__version__, **_requirements()}
    return {"cells": [kinds[text] for text in sorted(kinds)], "archived_with": here}


def _requirements() -> dict[str, str]:
    """The version of each library that fedgrid requires."""
    versions = {}
    for name in [re.split(r"[^\w.-]", text)[0] for text in requires("fedgrid") or () if "extra ==" not in text]:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions


def _entries(names: Collection[str]) -> list[str]:
    """Those of the modules that none of the others imports: what a key names, and the rest belongs to."""
    sources = Sources.of(ENGINE)
    imported = {found for name in names for found in sources.closure([name]) if found != name}
    return [name for name in names if name not in imported]


def _is_ours(name: str) -> bool:
    return name.startswith("fedgrid.") and ":" not in name


def _is_here(name: str) -> bool:
    """Whether a name is that of a module of this fedgrid."""
    path = PACKAGE.joinpath(*name.split(".")[1:])
    return _is_ours(name) and (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).is_file()
