"""The terms of Croissant 1.1 and of its responsible-AI vocabulary 1.0, as plain JSON-LD."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

FILE = "croissant.json"
"Its usual name."
PARQUET, JSON = "application/x-parquet", "application/json"
CONFORMS_TO = ["http://mlcommons.org/croissant/1.1", "http://mlcommons.org/croissant/RAI/1.0"]
CROISSANT_TERMS = (
    *("arrayShape", "citeAs", "column", "containedIn", "equivalentProperty", "extract", "field", "fileProperty"),
    *("fileObject", "fileSet", "format", "includes", "isArray", "isLiveDataset", "jsonPath", "key", "md5"),
    *("parentField", "path", "recordSet", "references", "regex", "repeated", "replace", "samplingRate"),
    *("separator", "source", "subField", "transform"),
)
CONTEXT: Mapping[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    **{term: f"cr:{term}" for term in CROISSANT_TERMS},
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "description": {"@container": "@language"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "name": {"@container": "@language"},
    "rai": "http://mlcommons.org/croissant/RAI/",
    "sc": "https://schema.org/",
}
"The context that the specification gives."


@dataclass(frozen=True)
class Column:
    """A column of a Parquet file."""

    name: str
    types: str | Sequence[str]
    "Data types, such as ``sc:Integer``."
    description: str


def file_object(name: str, description: str, encoding: str, size: int, sha256: str) -> dict[str, Any]:
    """A file by its path from the description; `size` in bytes."""
    return {
        "@type": "cr:FileObject",
        "@id": name,
        "name": name,
        "description": description,
        "contentUrl": name,
        "contentSize": f"{size} B",
        "encodingFormat": encoding,
        "sha256": sha256,
    }


def record_set(name: str, description: str, file: str, columns: Iterable[Column]) -> dict[str, Any]:
    """The rows of a Parquet file."""
    return {
        "@type": "cr:RecordSet",
        "@id": name,
        "name": name,
        "description": description,
        "field": [
            {
                "@type": "cr:Field",
                "@id": f"{name}/{column.name}",
                "name": column.name,
                "description": column.description,
                "dataType": column.types,
                "source": {"fileObject": {"@id": file}, "extract": {"column": column.name}},
            }
            for column in columns
        ],
    }


def data_set(
    about: Mapping[str, Any],
    responsible_ai: Mapping[str, Any],
    files: Sequence[Mapping[str, Any]],
    record_sets: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """A whole description.

    `about` has name, description and further properties of schema.org, `responsible_ai` those of the vocabulary for
    responsible AI without their prefix.
    """
    return {
        "@context": dict(CONTEXT),
        "@type": "sc:Dataset",
        "conformsTo": CONFORMS_TO,
        **about,
        **{f"rai:{name}": value for name, value in responsible_ai.items()},
        "distribution": [*files],
        "recordSet": [*record_sets],
    }
