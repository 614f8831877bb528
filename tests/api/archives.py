"""Archives made by hand, with whatever names and contents a test needs."""

import hashlib
import io
import json
import zipfile

from fedgrid.api.archive.layout import CHECKSUMS, TOP

STUDY = "name: s\ndata: digits\nheterogeneity: [{partition: homogeneous, clients: 4}]\nseeds: [0]\nmethods: [local]\n"
PROJECT = {"project/study.yaml": STUDY.encode()}
PROVENANCE = {
    **{"format": 1, "fedgrid": "0.2.0", "study": "study.yaml", "scale": "full", "results": "results"},
    **{"cells": {}, "modules": {}, "partitions": {}},
}


def contents(project=PROJECT, **provenance):
    """Names and contents of an archive in which nothing is wrong: of a project, with changes of its provenance."""
    made = {name: b"text" for name in TOP if name != CHECKSUMS} | {"results/digits/report.html": b"page"}
    return made | {"provenance.json": json.dumps(PROVENANCE | provenance).encode(), **project}


def is_untouched(folder):
    """Whether nothing but the lock of a store was written below a folder."""
    return not [file for file in folder.rglob("*") if file.is_file() and file.name != ".lock"]


def packed(files, checksums=None, infos=(), **changes):
    """A zip of files, with checksums of all; `infos` are further members (ZipInfo, content)."""
    entries = [*files.items(), *((info.filename, content) for info, content in infos)]
    sums = "".join(f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in entries)
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", **changes) as file:
        for name, content in files.items():
            file.writestr(zipfile.ZipInfo(name), content, compress_type=changes.get("compression"))
        for info, content in infos:
            file.writestr(info, content)
        if checksums is not False:
            file.writestr(CHECKSUMS, sums if checksums is None else checksums)
    return target.getvalue()
