"""Small synthetic studies: cells with accuracies that a test knows by heart."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from fedgrid.analysis import kinds
from fedgrid.analysis.figures.common.style import Drawn
from fedgrid.analysis.pages import table_set
from fedgrid.analysis.scores.collect import collect
from fedgrid.analysis.scores.results import Results
from fedgrid.analysis.tables.common.grid import Grid, Table
from fedgrid.files import write_json, write_table
from fedgrid.grid.plan.manifest_model import Manifest, Shown, read_manifest
from fedgrid.grid.study.codec import decode
from fedgrid.partition.common.publish import digest_of

SAMPLES = [10, 30]
"""Test samples of the two clients of every synthetic cell."""
DIVERGED = {"status": "diverged", "reason": "a loss is not finite"}
"""What is written of a cell that diverged."""


class Study:
    """Writes the cells and the manifest of one study into a folder."""

    def __init__(self, folder: Path, **study: Any) -> None:
        self.folder = folder
        self.cells: list[dict] = []
        self.published: list[dict[str, str]] = []
        self.study = {
            "name": "toy",
            "title": "Toy study",
            "score": "paper",
            "at": "last",
            "rounds": 2,
            "protocol": {"rounds": 2, "optimizer": {"name": "sgd", "lr": 0.1}},
            "data": {"digits": "Digits"},
            "tested": ["the clients' own test images"],
            "heterogeneity": {"dir": "Dirichlet β=0.1, 2 clients", "hom": "homogeneous, 2 clients"},
            "model": "mlp",
            "methods": {},
            "seeds": [0, 1, 2],
        } | study

    def method(self, label: str, method: str | None = None, title: str | None = None, **settings: Any) -> None:
        """Add a row to the study."""
        named = {"method": method or label, "title": title or label}
        self.study["methods"][label] = named | {"settings": settings, "work": "1 + E" if label == "ditto" else "E"}

    def cell(
        self,
        label: str,
        heterogeneity: str,
        seed: int,
        accuracy: dict[int, list],
        *,
        data: str = "digits",
        score: str = "received",
        samples: list[int] = SAMPLES,
        also: dict[str, dict[int, list]] | None = None,
        traffic: bool = True,
        **head: Any,
    ) -> "Study":
        """Add a cell with the accuracies of the clients (None: no test data) by round, at the point `score`.

        Beside them it may have those of other metrics, by name, as `also`.
        """
        rows = [(0, client, "test_samples", n) for client, n in enumerate(samples)]
        for t, values in accuracy.items():
            rows += [(t, client, f"accuracy_{score}", v) for client, v in enumerate(values) if v is not None]
            rows += [
                (t, client, f"bytes_{way}", n)
                for client in range(len(values))
                for way, n in (("up", 1024), ("down", 3072 if t else 10**9))
                if traffic
            ]
        for metric, by_round in (also or {}).items():
            for t, values in by_round.items():
                rows += [(t, client, metric, v) for client, v in enumerate(values) if v is not None]
        key, path = self.plan(label, heterogeneity, seed, data)
        defaults = {
            "key": key,
            "status": "ok",
            "reason": "",
            "score": score,
            "rounds": 2,
            "hardware": {"cpus": 2},
            "versions": {"fedgrid": "0.1"},
            "costs": {
                "seconds": {"train": 1.0, "evaluate": 0.5, "total": 2.0 + seed},
                "peak_memory_bytes": 2**20 * (1 + seed),
            },
        }
        write_cell(path, rows, defaults | head)
        return self

    def plan(self, label: str, heterogeneity: str, seed: int, data: str = "digits") -> tuple[str, Path]:
        """Add a cell to the manifest, and its row where it is the first; give its key and its results' path."""
        if label not in self.study["methods"]:
            self.method(label)
        key = f"{len(self.cells):016x}"
        path = self.folder / "cells" / f"{key}.parquet"
        entry = {
            "key": key,
            "path": str(path),
            "partition": str(self.folder / f"dirichlet-1/seed={seed}.parquet"),
            "label": label,
            "method": self.study["methods"][label]["method"],
            "data": data,
            "heterogeneity": heterogeneity,
            "seed": seed,
        }
        self.cells.append(entry)
        return key, path

    def keep(self, kind: str, table: pa.Table) -> None:
        """Keep a table beside the cell that was added last."""
        file = self.folder / "cells" / f"{len(self.cells)}.{kind}.parquet"
        write_table(file, table, {"kind": kind})
        self.cells[-1].setdefault("kept", {})[kind] = str(file)

    def without(self, label: str, heterogeneity: str, seed: int, reason: str, data: str = "digits") -> None:
        """Add a cell that cannot be computed here."""
        self.plan(label, heterogeneity, seed, data)
        self.cells[-1] |= {"status": "unavailable", "reason": reason}

    def prints(self, row: str, value: str, metric: str = "accuracy", **coordinates: str) -> None:
        """Add a printed number, by default on digits, split "dir"."""
        names = ["domain", "std", "corrected", "rank", "note"]
        place = {"data": "Digits", "heterogeneity": self.study["heterogeneity"].get("dir", "")}
        given = {"row": row, "value": value, "metric": metric}
        self.published.append(dict.fromkeys(names, "") | place | given | coordinates)

    def in_column(self, scores: dict[str, list], **names: Any) -> "Study":
        """Add a row for each of `scores`, by label: of both clients by seed, 10 and 30 test samples each."""
        for label, by_seed in scores.items():
            for seed, value in enumerate(by_seed):
                self.cell(label, "dir", seed, {1: [value, value]}, **names)
        return self

    @property
    def content(self) -> dict[str, Any]:
        """What its manifest says, as plain values."""
        return {name: getattr(self, name) for name in ("study", "published", "cells")}

    @property
    def manifest(self) -> Manifest:
        """Its manifest as it would be read."""
        return decode(Manifest, self.content)

    def results(self) -> Path:
        """Write the manifest, collect it, and return the path of results.parquet."""
        self.load()
        return self.folder / "results.parquet"

    def load(self) -> Results:
        """Write the manifest, and collect it."""
        manifest = self.folder / "manifest.json"
        write_json(manifest, self.content)
        return collect(read_manifest(manifest), self.folder / "results.parquet", made_from=manifest.name)


def make_table(kind: str, results: Results, options: Mapping[str, Any] = {}) -> Table:
    """Make a table with the options that a study gives it."""
    return table_set.make_table(results, Shown(kind, dict(options)))


def texts(grid: Grid) -> dict[str, list[str]]:
    """Give the printed entries of a table, by row."""
    return {name: [entry.text for entry in entries] for name, entries in grid.rows}


def marks(grid: Grid) -> dict[str, list[str]]:
    """Give the marks of the entries of a table, by row."""
    return {name: [entry.raised for entry in entries] for name, entries in grid.rows}


def draw_figure(kind: str, source: Any, *of: str, narrow: bool = False, colours: bool = False, **options: Any) -> Drawn:
    """Draw a figure of a data set, a method on it, a partition under a title or a study, with a study's options."""
    variant = {"narrow": narrow, "colours": colours} if narrow or colours else {}
    return kinds.module("figures", kind).draw_figure(source, kinds.chosen("figures", kind, options), *of, **variant)


def write_cell(path: Path, rows: list[tuple], head: dict) -> None:
    """Write (round, client, metric, value) rows as the engine does."""
    schema = pa.schema(
        [
            ("round", pa.int32()),
            ("client", pa.int32()),
            ("metric", pa.dictionary(pa.int8(), pa.string())),
            ("value", pa.float64()),
        ]
    )
    frame = pd.DataFrame(rows, columns=schema.names).astype({"metric": "category"})
    write_table(path, pa.Table.from_pandas(frame, schema=schema, preserve_index=False), head)


def adoption(code: str, date: str, checked: Sequence[str] = ("c0", "c1"), of: int = 6) -> dict[str, Any]:
    """What earlier versions noted in the metadata of a cell whose results they adopted from that `code`."""
    return {
        "earlier": {"key": f"of {code}", "code": code, "spec": {}, "modules": {"fedgrid.tree": code}},
        "file": "cells/earlier.parquet",
        "checked": [{"key": key, "earlier": f"{key} of {code}"} for key in checked],
        "of": of,
        "circumstances": {"processor": "toy"},
        "fedgrid": "0.3",
        "date": date,
    }


def write_partition(
    file: Path,
    rows: Sequence[tuple],
    clients: int = 2,
    classes: Sequence[str] = ("one", "two"),
    domains: Sequence[str] = (),
    test: str = "own",
) -> Path:
    """Write a partition of (client, split, label, domain) rows."""
    table = partition_rows(rows)
    facts = {"clients": clients, "words": "by hand", "data": "toy", "data_checksum": "ab" * 32}
    facts |= {"classes": list(classes), "domains": list(domains), "test": test, "digest": digest_of(table), "spec": {}}
    write_table(file, table, facts)
    return file


def partition_rows(rows: Sequence[tuple]) -> pa.Table:
    """Give the table of a partition of (client, split, label, domain) rows; images are numbered as they come."""
    client, split, label, domain = zip(*rows, strict=True)
    columns = {
        "client": pa.array(client, pa.int32()),
        "split": pa.array(split).dictionary_encode(),
        "index": pa.array(range(len(rows)), pa.int64()),
        "label": pa.array(label, pa.int32()),
        "domain": pa.array(domain, pa.string()).dictionary_encode(),
    }
    return pa.table(columns)


def predictions(rows: Sequence[tuple]) -> pa.Table:
    """Kept predictions of (point, client, label, predicted, probability) rows."""
    point, client, label, predicted, probability = zip(*rows, strict=True) if rows else [()] * 5
    columns = {
        "point": pa.array(point, pa.string()).dictionary_encode(),
        "client": pa.array(client, pa.int32()),
        "image": pa.array(range(len(rows)), pa.int32()),
        "label": pa.array(label, pa.int16()),
        "predicted": pa.array(predicted, pa.int16()),
        "probability": pa.array(probability, pa.float32()),
    }
    return pa.table(columns)


def toy_study(folder: Path) -> Study:
    """Three methods, two heterogeneities, three seeds; on "dir" Ditto is far ahead, on "hom" nobody is.

    FedAvg has only a global score; Local has no cell on "hom"; Ditto's seed 2 diverged there.
    """
    study = Study(folder)
    study.method("local", title="Local")
    study.method("fedavg", title="FedAvg")
    study.method("ditto", title="Ditto", lam=0.75)
    for seed in range(3):
        study.cell("local", "dir", seed, {0: [0.1, 0.1], 2: [0.5, 0.6 + 0.01 * seed]})
        study.cell("fedavg", "dir", seed, {0: [0.1, 0.1], 2: [0.4, 0.5 + 0.02 * seed]}, score="global")
        study.cell("ditto", "dir", seed, {0: [0.1, 0.1], 2: [0.8, 0.9 + 0.015 * seed]})
        study.cell("fedavg", "hom", seed, {0: [0.1, 0.1], 2: [0.7, 0.7]}, score="global")
        bad = {"status": "diverged", "reason": "the loss of client 1 is not finite in round 1"} if seed == 2 else {}
        study.cell("ditto", "hom", seed, {0: [0.1, 0.1], 2: [0.7, 0.7]}, **bad)
    return study


def with_variant(study: Study) -> Study:
    """Add a second variant of Ditto."""
    study.method("ditto w/o pull", method="ditto", title="Ditto", lam=0.0)
    for seed in range(3):
        study.cell("ditto w/o pull", "dir", seed, {2: [0.7, 0.72 + 0.01 * seed]})
    return study
