"""The names in an archive; all else in it is refused."""

import hashlib
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import IO

from fedgrid.settings import ARTIFACTS, ROWS

PAGE, README, METADATA = "index.html", "README.md", "ro-crate-metadata.json"
CHECKSUMS = "checksums.sha256"
"The SHA-256 of every other file, as ``sha256sum --check`` reads it."
PROVENANCE = "provenance.json"
"What fedgrid has to know: the study, and the code and the commit of each cell."
ENVIRONMENT = "environment.json"
"Versions and hardware."
TOP = (PAGE, README, METADATA, CHECKSUMS, PROVENANCE, ENVIRONMENT)
"What every archive has."
CROISSANT, CHECKLIST, APPENDIX = "croissant.json", "reproducibility-checklist.md", "artifact-appendix.md"
"A description as a data set, and two forms that venues ask for."
FORMS = (CROISSANT, CHECKLIST, APPENDIX)
"What the archive of a whole study has too; archives of fedgrid 1.0 lack them."
RESULTS, PROJECT, OUTSIDE = "results", "project", "outside"
"Folders: results with the store; files of the study, as they lie in its working folder; those that lie elsewhere."
STEERING = ("profiles", "results", "snakefile", "workflow")
"Where nothing of a project may lie: Snakemake would obey it, or fedgrid take it for a result."
STORED = ("cells", "choices", "originals", "partitions")
"Folders of the store that are in an archive."
RESULT_KINDS = (
    *(".csv", ".html", ".json", ".md", ".parquet", ".pdf", ".png", ".svg", ".tex", ".txt"),
    *ARTIFACTS.values(),
    ARTIFACTS["state"] + ROWS,
)
"How the names of results end; none of them is code."
ENCODING = "utf-8"
BLOCK = 2**20


@dataclass(frozen=True)
class Member:
    """A file of an archive; its content is in a file or, where it was made for the archive, at hand."""

    name: str
    title: str
    "What it is, for a reader."
    source: Path | bytes

    @property
    def size(self) -> int:
        """In bytes."""
        return len(self.source) if isinstance(self.source, bytes) else self.source.stat().st_size

    def open(self) -> IO[bytes]:
        """Its content."""
        return BytesIO(self.source) if isinstance(self.source, bytes) else open(self.source, "rb")

    @property
    def digest(self) -> str:
        """The SHA-256 of its content."""
        with self.open() as content:
            return digest(content)


def digest(content: IO[bytes]) -> str:
    """The SHA-256 of what is left of a file."""
    return hashlib.file_digest(content, "sha256").hexdigest()  # type: ignore[arg-type]


def copy(source: IO[bytes], target: IO[bytes]) -> str:
    """Copies what is left of a file; returns its SHA-256."""
    total = hashlib.sha256()
    while block := source.read(BLOCK):
        total.update(block)
        target.write(block)
    return total.hexdigest()
