"""A run of the papers, kept for others to check: its tables, figures, pages and cells, and what they say in numbers.

python -m benchmarks.papers keep results benchmarks/results/papers/small    copies what was made at a scale
python -m benchmarks.papers claims benchmarks/results/papers/small          how many verdicts of each kind, by paper
python -m benchmarks.papers verdicts benchmarks/results/papers/small        claims that a rule can check, with numbers
python -m benchmarks.papers agreement benchmarks/results/papers/small       Kendall's τ by paper
python -m benchmarks.papers rounds benchmarks/results/papers/small          last round against the best on test images
python -m benchmarks.papers between config/papers                           Kendall's τ between what two papers print
"""

import argparse
import shutil
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import pandas as pd

from fedgrid.analysis.figures.style import RASTER
from fedgrid.analysis.pages.paper import records
from fedgrid.analysis.papers.agreement import between_papers, by_pairs
from fedgrid.analysis.papers.claims import PROSE
from fedgrid.analysis.scores.cells import FinishedCell
from fedgrid.analysis.scores.results import load
from fedgrid.files import read_metadata, read_table
from fedgrid.grid.study.printed import read_printed

LARGEST = 3_000_000
"""Bytes that a page may have."""
HEAVY = ("representations",)
"""Artifacts that are not packed: numbers that do not compress, more of them than of all results."""
CELLS = ["key", "method", "data", "heterogeneity", "seed", "status", "seconds", "commit", "experiments"]
"""Columns of the list of cells."""


def keep(results: Path, out: Path) -> None:
    """Copy the pages, tables and pictures of every paper in `results`, a scale's, to `out`; list and pack its cells."""
    listed, files = [], set()
    for page in sorted(results.glob(f"*-{out.name}/report.html")):
        paper = out / page.parent.name.removesuffix(f"-{out.name}")
        copied([page], paper)
        for made in sorted(page.parent.glob("*/results.parquet")):
            copied(kept(made.parent), paper / made.parent.name)
            paths = records(made.with_name(read_metadata(made)["manifest"]))
            for cell in load(made).finished:
                listed.append(described(cell) | {"experiments": f"{paper.name}/{made.parent.name}"})
                files |= {paths[cell.key], *(file for kind, file in cell.kept.items() if kind not in HEAVY)}
    cells = pd.DataFrame(listed, columns=CELLS)
    cells = cells.groupby(CELLS[:1], sort=False).agg(dict.fromkeys(CELLS[1:-1], "first") | {"experiments": " ".join})
    cells.reset_index().to_csv(out / "cells.csv", index=False, lineterminator="\n")
    pack(sorted(files), out / "cells.tar.xz")


def copied(files: Iterable[Path], folder: Path) -> None:
    """Copy files into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        if file.suffix == ".html" and file.stat().st_size > LARGEST:
            raise SystemExit(f"{file} has more than {LARGEST:,} bytes")
        shutil.copyfile(file, folder / file.name)


def kept(folder: Path) -> Iterator[Path]:
    """The tables of an experiment, and its pictures, as points where vectors would be large."""
    for form in ("csv", "md"):
        yield from folder.glob(f"tables/*.{form}")
    for file in folder.glob("figures/*.txt"):
        yield file
        forms = [file.with_suffix(form) for form in (RASTER, ".svg")]
        yield from [form for form in forms if form.is_file()][:1]


def described(cell: FinishedCell) -> dict:
    """A cell in the list."""
    named = {name: value for name, value in vars(cell).items() if name in CELLS}
    commit = cell.commit.id if cell.commit else ""  # none of a checkout that git does not know
    return named | {"seconds": round(cell.costs.seconds.total, 1), "commit": commit[:12]}


def pack(files: Iterable[Path], archive: Path) -> None:
    """Write files of the store to an archive, by their paths, the same bytes for the same files."""
    with tarfile.open(archive, "w:xz", preset=9) as tar:
        for file in files:
            entry = tar.gettarinfo(file)
            entry.mtime = entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            with file.open("rb") as content:
                tar.addfile(entry, content)


def claims(run: Path) -> pd.DataFrame:
    """How many claims of every paper came to what."""
    table = read(run, "claims")
    fate = table["verdict"].where(table["rule"] != PROSE, "no rule")
    return table.assign(fate=fate).pivot_table(index="paper", columns="fate", aggfunc="size", fill_value=0)


def verdicts(run: Path) -> pd.DataFrame:
    """The verdict on every claim that a rule can check, and the numbers that decided."""
    table = read(run, "claims")
    checked = table[table["rule"] != PROSE]
    return checked.set_index(["paper", "experiment"])[["verdict", "says", "numbers"]].fillna("")


def agreement(run: Path) -> pd.DataFrame:
    """Means of τ over the columns of every paper, each by its pairs of rows: to printed numbers, and between seeds."""
    table = read(run, "agreement")
    papers = table[table["tau"].notna()].groupby("paper")
    means = {name: [by_pairs(part, name) for _, part in papers] for name in ("tau", "between_seeds")}
    return pd.DataFrame({"columns": papers.size()}).assign(**means).round(2)


def rounds(run: Path) -> pd.DataFrame:
    """By how many points the best evaluated round on test images is above the last one, over cells of a method.

    What a paper gains that reports its best round: mean, median and largest difference of a cell.
    """
    listed = pd.read_csv(run / "cells.csv", dtype={"key": "str"}).set_index("key")
    found = []
    with tempfile.TemporaryDirectory() as folder, tarfile.open(run / "cells.tar.xz") as archive:
        archive.extractall(folder, filter="data")
        for file in sorted(Path(folder).rglob("*.parquet")):
            key, _, kind = file.stem.partition("-")[2].partition(".")
            if kind or listed["status"][key] != "ok":
                continue  # kept beside a cell
            table, head = read_table(file)
            means = of_rounds(table.to_pandas(), head["score"])
            if len(means) > 1:
                found.append((listed["method"][key], 100 * (means.max() - means.iloc[-1])))
    gains = pd.DataFrame(found, columns=["method", "gain"]).groupby("method")["gain"]
    return gains.agg(["count", "mean", "median", "max"]).round(2)


def of_rounds(rows: pd.DataFrame, score: str) -> pd.Series:
    """Mean test accuracy over clients by round, from the first one trained."""
    scored = rows[(rows["metric"] == f"accuracy_{score}") & (rows["round"] > 0)]
    return scored.groupby("round")["value"].mean()


def between(papers: Path) -> pd.DataFrame:
    """What pairs of papers print of the same columns: rows that both have, equal numbers, mean τ by pairs of rows."""
    table = between_papers({file.stem: read_printed(str(file)) for file in sorted(papers.glob("*.csv"))})
    papers = table.assign(columns=1).groupby(["paper", "other"])
    taus = [by_pairs(part, "tau") for _, part in papers]
    return papers[["columns", "rows", "equal"]].sum().assign(tau=taus).round(2)


def read(run: Path, name: str) -> pd.DataFrame:
    """The tables of a name of all experiments, with the columns `paper` and `experiment`."""
    parts = [
        pd.read_csv(file).assign(paper=file.parts[-3], experiment=file.parts[-2])
        for file in sorted(run.glob(f"*/*/{name}.csv"))
    ]
    return pd.concat(parts, ignore_index=True)


READ = {"claims": claims, "verdicts": verdicts, "agreement": agreement, "rounds": rounds, "between": between}
"""Command → what it prints of a run that is kept, or of printed numbers."""


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.papers", description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(required=True, dest="command")
    keeping = commands.add_parser("keep")
    keeping.add_argument("results", type=Path)
    keeping.add_argument("out", type=Path, help="folder whose name is that of the scale")
    for name in READ:
        commands.add_parser(name).add_argument("folder", type=Path)
    asked = parser.parse_args()
    if asked.command == "keep":
        keep(asked.results, asked.out)
    else:
        print(READ[asked.command](asked.folder).to_string())


if __name__ == "__main__":
    main()
