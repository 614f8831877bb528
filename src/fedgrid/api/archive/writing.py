"""Writes the archive of a study. The same results give the same bytes."""

import html
import stat
import zipfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from fedgrid import shipped
from fedgrid.api.archive import contents, crate, layout
from fedgrid.api.archive.croissant import Archived, croissant
from fedgrid.api.archive.forms import filled_forms
from fedgrid.api.archive.layout import CHECKSUMS, PROJECT, RESULTS, Member, copy
from fedgrid.api.archive.provenance import as_bytes, environment, provenance
from fedgrid.api.archive.study_facts import FinishedStudy, in_commands, study_facts
from fedgrid.api.libraries import import_optional
from fedgrid.errors import UserError
from fedgrid.files import replacing
from fedgrid.grid.plan.cell_metadata import CellMetadata, read_results
from fedgrid.grid.plan.planned_study import Study
from fedgrid.quantities import counted

EPOCH = (1980, 1, 1, 0, 0, 0)
"The time of all members: the first that the format has."
COMPRESSED = (".pdf", ".safetensors")
"What compression would not make smaller."
UNDATED = "1980-01-01"
NO_LICENSE = "Not stated; ask the authors."


def write_archive(
    study: Study,
    configfile: Path,
    out: Path,
    with_models: bool,
    license: str = "",
    keys: Collection[str] | None = None,
) -> int:
    """Writes the archive of a study, or of its cells with these `keys` alone; returns the number of its files.

    Raises UserError where the study or one of these cells is not complete, and `Damaged` where a result has changed
    since it was written.
    """
    import_optional("rocrate", "archive", "fedgrid bundle")  # before every file is read
    if keys is None:
        contents.check_complete(study)
    else:
        contents.check_finished(study, keys)
    cells = contents.finished_cells(study, keys)
    heads = {key: read_results(cell.file)[1] for key, cell in cells.items()}
    project = list(contents.project_members(configfile, study))
    results = [
        *(contents.result_members(study) if keys is None else ()),
        *contents.stored_members(study, cells, with_models),
    ]
    listed = [*results, *project, *_made(study, configfile, heads, project, keys is not None)]
    members = {member.name: member for member in listed}
    digests = {name: member.digest for name, member in members.items()}
    if keys is None:
        size = sum(member.size for member in [*results, *project])
        finished = FinishedStudy(study, _study_file(configfile, project) or configfile.name, cells, heads, size)
        forms = _forms(finished, members, digests, license)
        members |= {form.name: form for form in forms}
        digests |= {form.name: form.digest for form in forms}
    about = {
        "name": study.title or study.name,
        "description": f"Results of a study of personalised federated learning: {len(cells)} cells",
        "datePublished": max((head.finished[:10] for head in heads.values()), default="") or UNDATED,
        "license": license or NO_LICENSE,
    }
    versions = environment(heads.values())["archived_with"]
    description = Member(layout.METADATA, "Description", crate.description(about, members.values(), digests, versions))
    digests[layout.METADATA] = description.digest
    lines = "".join(f"{digests[name]}  {name}\n" for name in sorted(digests))
    every = [*members.values(), description, Member(CHECKSUMS, "Checksums", lines.encode())]
    with replacing(out) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for member in sorted(every, key=lambda member: member.name):
            _add(archive, member, digests.get(member.name))
    return len(every)


def _made(
    study: Study, configfile: Path, heads: Mapping[str, CellMetadata], project: Sequence[Member], is_part: bool
) -> list[Member]:
    """What is made for the archive: page, README, provenance, environment; `is_part`: it has no tables and no page."""
    name = _study_file(configfile, project)
    title = study.title or study.name
    readme = "cells.md" if is_part else "README.md"
    text = shipped.template(f"api/archive/templates/{readme}").substitute(
        title=title,
        cells=len(heads),
        fedgrid=", ".join(sorted({head.versions["fedgrid"] for head in heads.values()})),
        data=", ".join(sorted({planned.title for planned in study.datasets.values()})),
        study=in_commands(name or configfile.name, study.scale),
    )
    return [
        Member(layout.PAGE, "Page of the results", _cells_page(title, len(heads)) if is_part else _page(study, title)),
        Member(layout.README, "What is in the archive", text.encode()),
        Member(layout.PROVENANCE, "Study, code and commit of each cell", as_bytes(provenance(study, name, heads))),
        Member(layout.ENVIRONMENT, "Versions and hardware", as_bytes(environment(heads.values()))),
    ]


def _study_file(configfile: Path, project: Iterable[Member]) -> str:
    """The study's file from the folder of its project; empty where it lies outside of it."""
    inside = (member.name for member in project if member.source == configfile)
    return next((name.removeprefix(f"{PROJECT}/") for name in inside if name.startswith(PROJECT)), "")


def _forms(
    finished: FinishedStudy, members: Mapping[str, Member], digests: Mapping[str, str], license: str
) -> list[Member]:
    """What venues and catalogs of data sets ask for."""
    archived = Archived(finished.study, finished.cells, finished.heads, members, digests, license)
    filled = filled_forms(study_facts(finished))
    return [
        Member(layout.CROISSANT, "Numbers and partitions as a data set, in Croissant", croissant(archived)),
        Member(layout.CHECKLIST, "Reproducibility checklist", filled[layout.CHECKLIST].encode()),
        Member(layout.APPENDIX, "Artifact appendix", filled[layout.APPENDIX].encode()),
    ]


def _page(study: Study, title: str) -> bytes:
    """The study's page; where its links lead to pages of experiments, a page that leads to it."""
    page = study.folder / "report.html"
    if not study.has_experiments:
        return page.read_bytes()
    link = html.escape(f"{RESULTS}/{page.relative_to(study.results).as_posix()}")
    redirect = shipped.template("api/archive/templates/index.html")
    return redirect.substitute(title=html.escape(title), page=link).encode()


def _cells_page(title: str, cells: int) -> bytes:
    """The page of an archive of some cells, which has no tables."""
    page = shipped.template("api/archive/templates/cells.html")
    return page.substitute(title=html.escape(title), cells=counted(cells, "cell")).encode()


def _add(archive: zipfile.ZipFile, member: Member, digest: str | None) -> None:
    """Adds a member; UserError where its file has changed since its `digest` was taken."""
    info = zipfile.ZipInfo(member.name, EPOCH)
    info.create_system, info.external_attr = 3, (stat.S_IFREG | 0o644) << 16
    info.compress_type = zipfile.ZIP_STORED if member.name.endswith(COMPRESSED) else zipfile.ZIP_DEFLATED
    info.file_size = member.size
    with member.open() as source, archive.open(info, "w") as target:
        written = copy(source, target)
    if digest and written != digest:
        raise UserError(f"{member.source!s} changed while it was archived; run the same command again")
