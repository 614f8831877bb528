"""What tables and figures of kept predictions say about themselves."""

from collections.abc import Iterable

from fedgrid.analysis.prose import captions
from fedgrid.analysis.prose.phrases import listing
from fedgrid.analysis.scores.points import POINTS
from fedgrid.analysis.scores.predictions import BINS, PREDICTIONS, Tallies, weighted_columns
from fedgrid.analysis.scores.results import Results
from fedgrid.analysis.scores.summary import rounds_asked
from fedgrid.grid.plan.manifest_model import Cell

CONFIDENCE = f"Confidence is the probability of the predicted class; it is divided into {BINS} bins of equal width."
ERROR = (
    "ECE, the expected calibration error (Guo et al., ICML 2017): |accuracy − mean confidence| of a bin, averaged over "
    "the bins, each weighted by its images"
)
ONCE = "An image counts once for each client that is tested on it."


def counted_images(results: Results) -> str:
    """Whose images are counted in one figure."""
    together = " together" if len(results.study.seeds) > 1 else ""
    return f"The images of all clients and of {captions.seeds(results)} are counted{together}. {ONCE}"


def protocol(results: Results, tallies: Tallies) -> list[str]:
    """At which point and in which round predictions are made, and how they differ from what scores count."""
    other_rounds = set(rounds_asked(results).values()) - {"last"}
    weighted = weighted_columns(results, tallies.cells)
    columns = listing(results.column(*column) for column in weighted) if weighted else ""
    return [
        captions.scored_at(results, tallies.cells),
        *(["Predictions are those of the last round, even where scores use other rounds."] if other_rounds else []),
        *([f"Unlike scores, these counts do not weight test images by class: {columns}."] if weighted else []),
    ]


def absent_cells(results: Results, tallies: Tallies, so: str) -> list[str]:
    """Sentences that name the cells without predictions; `so` is what follows from that."""
    return [f"{reason}, so {so}: {cell_names(results, cells)}." for reason, cells in tallies.absent.items()]


def cell_names(results: Results, cells: Iterable[Cell]) -> str:
    """Cells by row and column, with their seeds where others of the same entry are not among them."""
    seeds_of: dict[tuple[str, str, str], list[int]] = {}
    for cell in cells:
        seeds_of.setdefault(cell.entry, []).append(cell.seed)
    return listing(
        f"{results.names[label]} ({results.column(data, heterogeneity)}{seed_names(results, seeds)})"
        for (label, data, heterogeneity), seeds in seeds_of.items()
    )


def seed_names(results: Results, seeds: list[int]) -> str:
    """Some of the study's seeds, behind a comma; empty for all of them."""
    if len(seeds) == len(results.study.seeds):
        return ""
    return f", {'seed' if len(seeds) == 1 else 'seeds'} {listing(map(str, seeds))}"


def reason_for_none(tallies: Tallies) -> str:
    """Why no cell has predictions to show."""
    if any(reason.startswith("Without predictions") for reason in tallies.absent):
        return (
            "no cell has predictions of the model that scores it; report.score can be paper or one of "
            f"{listing(sorted(POINTS))}"
        )
    return f"no cell has kept its {PREDICTIONS} (artifacts: [{PREDICTIONS}])"
