"""A folder of published partitions with its description in Croissant."""

from pathlib import Path
from typing import Any

import fedgrid
from fedgrid.api.croissant import partitions
from fedgrid.api.croissant.vocabulary import FILE, JSON, PARQUET, data_set, file_object
from fedgrid.files import as_json, read_metadata, write_text
from fedgrid.partition.common.publish import publish, read_sums


def export_partition(file: Path, folder: Path, license: str = "") -> Path:
    """Copies a partition into a folder for others, with statistics and checksums; returns the path of the copy.

    The folder's ``croissant.json`` describes all of its partitions; `license` is theirs. Raises as `publish` does.
    """
    copy = publish(file, folder)
    write_text(folder / FILE, as_json(described(folder, license)))
    return copy


def described(folder: Path, license: str = "") -> dict[str, Any]:
    """The description of a folder of published partitions."""
    sums = read_sums(folder)
    files = [folder / name for name in sorted(sums) if name.endswith(".parquet") and (folder / name).is_file()]
    metadata = {file: read_metadata(file) for file in files}
    objects = []
    for file, known in metadata.items():
        beside, words = file.with_suffix(".json"), partitions.setting(known)
        objects += [
            file_object(file.name, f"Partition: {words}", PARQUET, file.stat().st_size, sums[file.name]),
            file_object(
                beside.name, f"Metadata and statistics: {words}", JSON, beside.stat().st_size, sums[beside.name]
            ),
        ]
    data = ", ".join(sorted({known["data"] for known in metadata.values()}))
    about = {
        "name": f"Partitions of {data}",
        "description": f"Which client holds which images of {data}, for federated learning; written by fedgrid "
        f"{fedgrid.__version__}. Images are not included.",
    }
    records = [partitions.partition_record_set(file.stem, file.name, known) for file, known in metadata.items()]
    rights = {"license": license} if license else {}
    return data_set(about | rights, partitions.responsible_ai(metadata.values()), objects, records)
