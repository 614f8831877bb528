"""Writes the archive of a study. The same results give the same bytes."""

import hashlib
import html
import stat
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from fedgrid.api.archive import contents, crate
from fedgrid.api.archive.layout import (
    CHECKSUMS,
    ENVIRONMENT,
    METADATA,
    PAGE,
    PROJECT,
    PROVENANCE,
    README,
    RESULTS,
    Member,
)
from fedgrid.api.archive.provenance import as_bytes, environment, provenance
from fedgrid.api.libraries import import_optional
from fedgrid.errors import UserError
from fedgrid.files import replacing
from fedgrid.grid.plan.planned_study import Study

EPOCH = (1980, 1, 1, 0, 0, 0)
"The time of all members: the first that the format has."
COMPRESSED = (".parquet", ".pdf", ".safetensors")
"What compression would not make smaller."
UNDATED = "1980-01-01"
BLOCK = 2**20
NO_LICENSE = "Not stated; ask the authors."
TEXT = """\
# {title}

Open `index.html` in a browser: it is the page of the results, with tables and figures.

| | |
| --- | --- |
| `results/` | pages, tables (CSV, Markdown, LaTeX, HTML), figures, `results.parquet` with every number |
| `results/store/` | the results of each cell, and the partitions |
| `project/` | the study, and the files that it reads |
| `provenance.json`, `environment.json` | code and commit of each cell; versions and hardware |
| `ro-crate-metadata.json` | all of this for machines, as an [RO-Crate](https://www.researchobject.org/ro-crate/) |
| `checksums.sha256` | `sha256sum --check checksums.sha256` |

{cells} cells, computed by fedgrid {fedgrid}. Not in the archive: the images of {data}.

With fedgrid, `fedgrid open ARCHIVE` puts the results into a store, where `fedgrid go {study}` finds nothing to train.
"""
REDIRECT = """\
<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta http-equiv="refresh" content="0; url={page}"></head>
<body><p><a href="{page}">{title}</a></p></body></html>
"""


@dataclass(frozen=True)
class Bundle:
    """A study that is to be archived."""

    study: Study
    configfile: Path
    with_models: bool = True
    license: str = NO_LICENSE

    def write(self, out: Path) -> int:
        """Writes the archive; returns the number of its files.

        Raises UserError where the study is not complete, and `Damaged` where a result has changed since it was written.
        """
        members = self._members()
        digests = {member.name: _digest(member) for member in members}
        lines = "".join(f"{digests[name]}  {name}\n" for name in sorted(digests))
        every = sorted([*members, Member(CHECKSUMS, "Checksums", lines.encode())], key=lambda member: member.name)
        with replacing(out) as temporary, zipfile.ZipFile(temporary, "w") as archive:
            for member in every:
                _add(archive, member, digests.get(member.name))
        return len(every)

    def _members(self) -> list[Member]:
        """All but the checksums."""
        import_optional("rocrate", "archive", "fedgrid bundle")  # before every file is read
        study, cells = self.study, contents.finished_cells(self.study)
        contents.check_complete(study)
        metadata_by_key = contents.metadata_by_key(cells)
        project = list(contents.project_members(self.configfile, study))
        listed = [
            *contents.result_members(study),
            *contents.stored_members(study, cells, self.with_models),
            *project,
            *self._made(metadata_by_key, project),
        ]
        members = list({member.name: member for member in listed}.values())
        digests = {member.name: _digest(member) for member in members}
        about = {
            "name": study.title or study.name,
            "description": f"Results of a study of personalised federated learning: {len(cells)} cells",
            "datePublished": max((str(head.get("finished", ""))[:10] for head in metadata_by_key.values()), default="")
            or UNDATED,
            "license": self.license,
        }
        versions = environment(metadata_by_key.values())["archived_with"]
        return [*members, Member(METADATA, "Description", crate.description(about, members, digests, versions))]

    def _made(self, metadata_by_key: Mapping[str, Mapping[str, Any]], project: Sequence[Member]) -> list[Member]:
        """What is made for the archive: page, README, provenance, environment."""
        study = self.study
        inside = (member.name for member in project if member.source == self.configfile)
        name = next((name.removeprefix(f"{PROJECT}/") for name in inside if name.startswith(PROJECT)), "")
        of_study = provenance(study, name, metadata_by_key)
        title, data = study.title or study.name, {planned.title for planned in study.datasets.values()}
        text = TEXT.format(
            title=title,
            cells=len(metadata_by_key),
            fedgrid=", ".join(sorted({head["versions"]["fedgrid"] for head in metadata_by_key.values()})),
            data=", ".join(sorted(data)),
            study=name or self.configfile.name,
        )
        return [
            Member(PAGE, "Page of the results", self._page(title)),
            Member(README, "What is in the archive", text.encode()),
            Member(PROVENANCE, "Study, code and commit of each cell", as_bytes(of_study)),
            Member(ENVIRONMENT, "Versions and hardware", as_bytes(environment(metadata_by_key.values()))),
        ]

    def _page(self, title: str) -> bytes:
        """The study's page; where its links lead to pages of experiments, a page that leads to it."""
        page = self.study.folder / "report.html"
        if not self.study.has_experiments:
            return page.read_bytes()
        link = f"{RESULTS}/{page.relative_to(self.study.results).as_posix()}"
        return REDIRECT.format(title=html.escape(title), page=html.escape(link)).encode()


def _blocks(member: Member) -> Iterator[bytes]:
    with BytesIO(member.source) if isinstance(member.source, bytes) else open(member.source, "rb") as file:
        while block := file.read(BLOCK):
            yield block


def _digest(member: Member) -> str:
    total = hashlib.sha256()
    for block in _blocks(member):
        total.update(block)
    return total.hexdigest()


def _add(archive: zipfile.ZipFile, member: Member, digest: str | None) -> None:
    """Adds a member; UserError where its file has changed since its `digest` was taken."""
    info = zipfile.ZipInfo(member.name, EPOCH)
    info.create_system, info.external_attr = 3, (stat.S_IFREG | 0o644) << 16
    info.compress_type = zipfile.ZIP_STORED if member.name.endswith(COMPRESSED) else zipfile.ZIP_DEFLATED
    info.file_size = member.size
    total = hashlib.sha256()
    with archive.open(info, "w") as target:
        for block in _blocks(member):
            total.update(block)
            target.write(block)
    if digest and total.hexdigest() != digest:
        raise UserError(f"{member.source!s} changed while it was archived; run the same command again")
