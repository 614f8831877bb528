"""What Croissant says of partitions: their columns, how they were made, and what they cannot be used for."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from fedgrid.api.croissant.vocabulary import Column, record_set

COLUMNS = (
    Column("client", "sc:Integer", "Number of the client, from 0; −1 stands for all clients"),
    Column("split", "sc:Text", "What the client uses the image for: train, validation or test"),
    Column(
        "index",
        "sc:Integer",
        "Number of the image in the data set, from 0: the training part first and then the test part",
    ),
    Column("label", ["sc:Integer", "cr:Label"], "Class of the image, as its number in the data set's list of classes"),
    Column("domain", "sc:Text", "Domain of the image; empty where the data set has no domains"),
)
USE = "Training, validation and testing in benchmarks of personalised federated learning"
NO_IMAGES = (
    "Partitions hold indices and labels, and no images: they can be used only with a copy of the data set whose images "
    "have the checksum given under dataCollection."
)
SIMULATED = (
    "Clients are simulated: the images of one data set were dealt to them by a rule, so they show how methods compare "
    "under this rule, not how a deployed federation behaves."
)
NATURAL = "Clients stand for values that the data set records of its images, such as writers or devices."
INTENDED = "Differences between clients in classes, sizes or domains are intended: {}."
INHERITED = "Biases of the original data set carry over; fedgrid neither measures nor corrects them."
LABELS = "Labels are those of the original data set; fedgrid adds none."
Metadata = Mapping[str, Any]


def partition_record_set(name: str, file: str, metadata: Metadata) -> dict[str, Any]:
    """The rows of the partition in `file`."""
    return record_set(
        name, f"Which client holds which images of {metadata['data']}: {setting(metadata)}", file, COLUMNS
    )


def setting(metadata: Metadata) -> str:
    """The partition's setting with its seed, in words."""
    seed = metadata["spec"].get("seed")
    return f"{metadata['words']}" + ("" if seed is None else f", seed {seed}")


def origin(metadata: Metadata) -> str:
    """How a partition was made, in one sentence."""
    images = f"data set {metadata['data']} (checksum of its images: {metadata['data_checksum']})"
    if "origin" in metadata:
        source = metadata["origin"]
        return f"{setting(metadata)}: imported from a file ({source['form']}, SHA-256 {source['digest']}), {images}."
    settings = json.dumps(metadata["spec"].get("settings", {}), sort_keys=True, ensure_ascii=False)
    kind = metadata["spec"].get("name", "")
    return f"{setting(metadata)}: dealt by fedgrid's partition '{kind}' with settings {settings}, {images}."


def responsible_ai(partitions: Iterable[Metadata]) -> dict[str, Any]:
    """What is known of partitions, by the properties of the responsible-AI vocabulary without their prefix."""
    each = [*partitions]
    natural = any("names" in metadata for metadata in each)
    simulated = any("names" not in metadata for metadata in each)
    data = ", ".join(sorted({metadata["data"] for metadata in each}))
    settings = "; ".join(dict.fromkeys(metadata["words"] for metadata in each))
    names = "The metadata of natural partitions name the values that clients stand for. " if natural else ""
    return {
        "dataCollection": "\n".join(dict.fromkeys(map(origin, each))),
        "dataCollectionType": ["Secondary Data Analysis", "Software Collection"],
        "dataCollectionRawData": f"The images of {data}, which are not included.",
        "dataAnnotationProtocol": LABELS,
        "dataUseCases": [USE],
        "dataBiases": [INTENDED.format(settings), INHERITED],
        "dataLimitations": [NO_IMAGES, *[SIMULATED] * simulated, *[NATURAL] * natural],
        "personalSensitiveInformation": [f"{names}Files of partitions have no images, only their numbers and labels."],
    }
