"""The description of an archive as an RO-Crate (https://www.researchobject.org/ro-crate), by the library rocrate."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import fedgrid
from fedgrid.api.archive.layout import METADATA, PAGE, Member
from fedgrid.api.libraries import import_optional
from fedgrid.files import as_json

TYPES = {
    ".csv": "text/csv",
    ".html": "text/html",
    ".json": "application/json",
    ".md": "text/markdown",
    ".parquet": "application/vnd.apache.parquet",
    ".pdf": "application/pdf",
    ".py": "text/x-python",
    ".svg": "image/svg+xml",
    ".tex": "text/x-tex",
    ".txt": "text/plain",
    ".yaml": "application/yaml",
}
PYPI = "https://pypi.org/project/"
ENGINE = f"{PYPI}fedgrid/"


def description(
    about: Mapping[str, str], members: Iterable[Member], digests: Mapping[str, str], versions: Mapping[str, str]
) -> bytes:
    """The text of ``ro-crate-metadata.json``.

    `about` has name, description, datePublished and license of the whole; `digests` are the SHA-256 of members by name.
    The same members give the same bytes.
    """
    crate = import_optional("rocrate.rocrate", "archive", "fedgrid bundle").ROCrate()
    model = import_optional("rocrate.model", "archive", "fedgrid bundle")
    for name, value in about.items():
        crate.root_dataset[name] = value
    files = [crate.add_file(dest_path=member.name, properties=_properties(member, digests)) for member in members]
    page = next(file for file in files if file.id == PAGE)
    crate.root_dataset["mainEntity"] = page
    about_fedgrid = {"name": "fedgrid", "version": fedgrid.__version__, "url": ENGINE}
    software = model.SoftwareApplication(crate, ENGINE, about_fedgrid)
    software["softwareRequirements"] = [
        crate.add(model.SoftwareApplication(crate, f"{PYPI}{name}/", {"name": name, "version": number}))
        for name, number in sorted(versions.items())
        if name not in ("fedgrid", "python")
    ]
    action = {"name": "Training, evaluation and drawing", "endTime": about["datePublished"]}
    crate.add_action(crate.add(software), identifier="#run", result=[page], properties=action)
    graph = crate.metadata.generate()
    graph["@graph"].sort(key=lambda entity: (entity["@id"] != METADATA, entity["@id"] != "./", entity["@id"]))
    return as_json(json.loads(json.dumps(graph))).encode()


def _properties(member: Member, digests: Mapping[str, str]) -> dict[str, Any]:
    suffix = f".{member.name.rpartition('.')[2]}"
    return {
        "name": member.title,
        "contentSize": str(member.size),
        "sha256": digests[member.name],
        "encodingFormat": TYPES.get(suffix, "application/octet-stream"),
    }
