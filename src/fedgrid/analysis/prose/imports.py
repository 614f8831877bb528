"""What captions say of what came in from elsewhere, and of images that balancing left out: origin, form and digest."""

from collections import Counter
from pathlib import Path

from fedgrid.analysis.prose.phrases import listing
from fedgrid.analysis.scores.results import Results
from fedgrid.files import read_metadata
from fedgrid.grid.plan.manifest_model import LEFT_OUT

PAIRED = "paired by seed, since its partitions are the same as those of the other rows"
UNPAIRED = (
    "compared by Welch’s t-test and not paired by seed, since its file does not say that its seeds stand for the same "
    "partitions"
)


def imported(results: Results) -> list[str]:
    """Sentences on cells of other stores, on partitions of other programs, on external rows, and on images left out."""
    return [*sources(results), *partitions(results), *rows(results), *left_out(results)]


def sources(results: Results) -> list[str]:
    """A sentence on whose the cells are, where several stores computed them; empty where one computed all."""
    cells = {cell.key: cell for cell in results.trained}.values()
    counts = Counter(cell.source for cell in cells)
    if len(counts) < 2:
        return []
    elsewhere = sorted((-number, source) for source, number in counts.items() if source)
    parts = [f"{counts['']:,} computed here"] if counts[""] else []
    parts += [f"{-number:,} of {source}" for number, source in elsewhere]
    return [f"Cells of {len(counts)} sources: {listing(parts)}."]


def partitions(results: Results) -> list[str]:
    """A sentence on each heterogeneity that was imported, with the name, the form and the digest of its file."""
    labels = dict.fromkeys(heterogeneity for _, heterogeneity in results.columns)
    texts = {label: results.study.described.get(label, "") for label in labels}
    came_in = {label: text for label, text in texts.items() if "imported from" in text}
    return [f"Partition of another program, {label}: {text}." for label, text in came_in.items()]


def rows(results: Results) -> list[str]:
    """A sentence on each row of external results: where they come from, and how they are compared."""
    sentences = []
    for label, row in results.study.methods.items():
        cells = [cell for cell in results.finished if cell.label == label and cell.external]
        if cells:
            test = PAIRED if all(cell.same_partition for cell in cells) else UNPAIRED
            sentences.append(f"{results.names[label]}: not trained here; external results ({row.external}), {test}.")
    return sentences


def left_out(results: Results) -> list[str]:
    """A sentence on the columns in which balancing the domains leaves out images, as in their first seeds."""
    files: dict[tuple[str, str], Path] = {}
    for cell in results.cells:
        files.setdefault(cell.column, cell.partition)
    metadata = {column: read_metadata(file) for column, file in files.items() if file.is_file()}
    words = {column: of_column.get(LEFT_OUT, {}).get("words") for column, of_column in metadata.items()}
    texts = [f"{', '.join(results.titles(*column))}: {text}" for column, text in words.items() if text]
    return [f"{listing(texts)}."] if texts else []
