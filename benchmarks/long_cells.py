"""What archived cells at length recorded, by the rows of papers and their readings, and how tables print it."""

import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedgrid.analysis.prose.phrases import decimals
from fedgrid.analysis.scores.comparisons import Comparison, Scores
from fedgrid.analysis.scores.results import DASH
from fedgrid.files import read_table

SCORED = "scored"
"""The models that the method's own paper scores: received, trained or adapted to a client, or the global model."""

Curves = dict[tuple[str, str], pd.DataFrame]
"""(method, heterogeneity as papers name it) → accuracies in % of the clients that are scored, by round and client."""
Readings = Mapping[str, tuple[str, dict[str, Any]]]
"""Title of a row, or of a way to read it → the name of its method, and the settings that tell it apart."""


def curves(archive: Path) -> Curves:
    """The curves of the cells in an archive, after local training."""
    return {
        (spec["method"]["name"], named(spec["partition"])): accuracies(rows, "trained") for spec, rows in cells(archive)
    }


def cells(archive: Path) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """What each cell of an archive is, and its recorded numbers, with those that its paper scores as `SCORED` too."""
    with tempfile.TemporaryDirectory() as folder, tarfile.open(archive) as files:
        files.extractall(folder, filter="data")
        for file in sorted(Path(folder).rglob("s*.parquet")):
            table, about = read_table(file)
            recorded = table.to_pandas()
            scored = recorded[recorded["metric"] == f"accuracy_{about['score']}"].assign(metric=f"accuracy_{SCORED}")
            yield about["spec"], pd.concat([recorded, scored], ignore_index=True)


def accuracies(rows: pd.DataFrame, point: str) -> pd.DataFrame:
    """Accuracies in % at a point of the round, by round and client; none where the method has no such models."""
    return 100 * rows[rows["metric"] == f"accuracy_{point}"].pivot(index="round", columns="client", values="value")


def named(partition: dict[str, Any]) -> str:
    """A partition as the papers' columns name it, with its number of clients."""
    settings = partition["settings"]
    kind = {
        "dirichlet": "Dirichlet {beta}",
        "pathological": "{classes} classes",
        "homogeneous": "homogeneous",
    }[partition["name"]]
    return f"{kind.format(**settings)}, {settings['clients']} clients"


def printed(paper: str, experiment: str, metric: str = "accuracy") -> dict[tuple[str, str, str], float]:
    """What a paper prints of a metric in an experiment, by (row, data, heterogeneity)."""
    table = pd.read_csv(f"config/papers/{paper}.csv")
    table = table[(table["experiment"] == experiment) & (table["metric"] == metric)]
    value = table["corrected"].fillna(table["value"])
    return dict(zip(table[["row", "data", "heterogeneity"]].itertuples(index=False, name=None), value, strict=True))


def by_reading(archives: Path, column: str, readings: Readings) -> dict[str, dict[int, pd.DataFrame]]:
    """Title of a reading → seed → recorded numbers, of the readings that have cells in a column of the paper.

    Of several cells of a reading and seed, that of the last archive by name.
    """
    finished = [cell for archive in sorted(archives.glob("*.tar.xz")) for cell in cells(archive)]
    finished = [(spec, recorded) for spec, recorded in finished if named(spec["partition"]) == column]
    seeds = {
        title: {spec["seed"]: recorded for spec, recorded in finished if is_reading(spec["method"], *reading)}
        for title, reading in readings.items()
    }
    return {title: of_seeds for title, of_seeds in seeds.items() if of_seeds}


def is_reading(method: dict[str, Any], name: str, settings: dict[str, Any]) -> bool:
    """Whether a method in a cell has this name and these settings."""
    return method["name"] == name and settings.items() <= method["settings"].items()


def scored(
    seeds: Mapping[str, Mapping[int, pd.DataFrame]], point: str, summary: Callable[[pd.DataFrame], float]
) -> Scores:
    """One number a row and seed, of its accuracies by round and client at a point."""
    numbers = {
        title: {seed: summary(accuracies(one, point)) for seed, one in of_seeds.items()}
        for title, of_seeds in seeds.items()
    }
    return Scores(pd.DataFrame(numbers).T)


def last(curve: Any) -> Any:
    """The value, or the values of clients, of the last round; NaN where there is none."""
    return curve.iloc[-1] if len(curve) else np.nan


def over_seeds(scores: list[float]) -> str:
    """Mean ± sample standard deviation over several seeds; of one seed, its number; a dash where it has none."""
    if np.isnan(scores).any():
        return DASH
    return f"{scores[0]:.2f}" if len(scores) == 1 else f"{np.mean(scores):.2f} ± {np.std(scores, ddof=1):.2f}"


def with_interval(comparison: Comparison) -> str:
    """A difference with its interval at 95 %, where it can be tested."""
    text = decimals(comparison.difference, signed=True)
    if not comparison.testable:
        return text
    low, high = (decimals(limit, signed=True) for limit in comparison.interval())
    return f"{text} ({low} to {high})"
