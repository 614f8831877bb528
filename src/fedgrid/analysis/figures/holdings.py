"""The caption of a picture of a partition: who holds what, and how different clients are."""

from collections.abc import Mapping
from typing import Any


def holdings(title: str, picture: str, metadata: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    """The caption of a picture of a partition, a second paragraph on how different clients are.

    `found` are its statistics, `picture` says how to read the drawing.
    """
    images, size = found["images"], found["size"]
    kept = f", {images['validation']:,} of them for validation" if images["validation"] else ""
    held = f"{size['min']:,} to {size['max']:,}" if size["min"] < size["max"] else f"{size['min']:,}"
    total = images["train"] + images["validation"]
    sentences = [
        f"{title}: who holds what.",
        picture,
        f"A client holds {held} training images; there are {total:,} in all{kept}.",
        tested_on(metadata, found),
    ]
    apart = f"\n\n{distances(found)}" if found["jensen_shannon"]["mean"] is not None else ""
    return " ".join(sentences) + apart


def tested_on(metadata: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    """Which test images the clients of a partition have."""
    if not found["shared_test"]:
        return f"Every client has its own test images, {found['images']['test']:,} in all."
    weighted = ", each weighing its classes as in its own training images" if metadata["test"] == "weighted" else ""
    return f"All clients share {found['shared_test']:,} official test images{weighted}."


def distances(found: Mapping[str, Any]) -> str:
    """How different the clients of a partition are, in words that say what is measured."""
    return (
        "The Jensen–Shannon distance between the class distributions of two clients (base 2; 0: equal, 1: no common "
        f"class) is {found['jensen_shannon']['mean']:.2f} on average over all pairs; the earth mover's distance of a "
        f"client's class distribution to that of all training images (Σ|pᵢ − p|, 0 to 2) is "
        f"{found['earth_mover']['mean']:.2f} on average."
    )
