"""A run of the papers, kept for others to check: its tables, figures, pages and cells, and what they say in numbers.

python -m benchmarks.papers keep results benchmarks/results/papers/small    copies pages and tables, packs cells
python -m benchmarks.papers cells results benchmarks/results/papers/long    packs what is finished of a run that goes on
python -m benchmarks.papers pages results benchmarks/results/papers/small   copies pages and tables alone
python -m benchmarks.papers partial results benchmarks/results/papers/long  the same of what is finished, and packed
python -m benchmarks.papers claims benchmarks/results/papers/small          how many verdicts of each kind, by paper
python -m benchmarks.papers verdicts benchmarks/results/papers/small        claims that a rule can check, with numbers
python -m benchmarks.papers agreement benchmarks/results/papers/small       Kendall's τ by paper
python -m benchmarks.papers rounds benchmarks/results/papers/small          last round against the best on test images
python -m benchmarks.papers between config/papers                           Kendall's τ between what two papers print
python -m benchmarks.papers moved OLD benchmarks/results/papers/small       how far two kept runs are apart
python -m benchmarks.papers changed OLD benchmarks/results/papers/small     the verdicts that differ between them
"""

import argparse
import base64
import re
import tarfile
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from fedgrid.analysis.pages import build
from fedgrid.analysis.pages.paper import paper as write_paper
from fedgrid.analysis.pages.partial import absent_from
from fedgrid.analysis.papers.agreement import averaged, between_papers, by_pairs
from fedgrid.analysis.papers.claims import UNCHECKED
from fedgrid.api.study_file import read_study
from fedgrid.files import read_table, write_json
from fedgrid.grid.earlier.other_code import newest_under_other_code
from fedgrid.grid.earlier.stored import StoredResults
from fedgrid.grid.plan import manifest
from fedgrid.grid.plan.cell_metadata import known_metadata
from fedgrid.grid.plan.model import Cell
from fedgrid.grid.plan.planned_study import Study
from fedgrid.grid.study.codec import encode
from fedgrid.grid.study.printed import read_printed

PAPERS = Path("config/papers")
ARCHIVES = Path("benchmarks/cells")
"""The archives of finished cells: <scale>/<paper>/<experiment>.tar.xz."""
LARGEST = 3_000_000
"""Bytes that a page may have."""
SECOND_FIGURE = re.compile(
    r"<source media=[^>]*>\n?|<input type=\"checkbox\" id=\"colours-[^>]*><label[^>]*>[^<]*</label>\n?"
    r"|<div[^>]*>\s*<picture>\s*(<source[^>]*>\s*)?<img[^>]*, all in colour\">\s*</picture>\s*</div>\n?"
)
"""Figures for narrow screens, and those in which all rows are in colour."""
DRAWING = re.compile(r'("data:image/svg\+xml;base64,)([^"]*)"')
INDENTATION = re.compile(r"\n +")
LINK = re.compile(r'<a href="(?!#)[^"]*"[^>]*>(.*?)</a>', re.S)
ELSEWHERE = re.compile(r'<span class="elsewhere">.*?</span>', re.S)
"""What leads to a page that is not kept."""
NUMBER = re.compile(r"-?\d+\.\d{3,}")
LONG = re.compile(r"-?\b\d+\.\d{7,}(e-?\d+)?\b")
"""Numbers of tables with more digits than anyone reads."""
HEAVY = ("predictions", "models", "state")
"""Artifacts that are not packed: numbers that do not compress, more of them than of all results."""
CELLS = ["key", "method", "data", "heterogeneity", "seed", "status", "seconds", "commit", "experiments"]
"""Columns of the list of cells."""


def keep_cells(studies: Iterable[Study], archives: Path) -> None:
    """Pack the finished cells of the papers' studies, of one scale, into `archives`, whether or not all are finished.

    A cell that has no results of today's code is packed with those of other code. It is packed with the first
    experiment, by name, that has it, so that an archive changes only with its own cells. Archives of experiments
    without finished cells stay, and so do their cells in the list; of the others, what the store does not have is lost:
    extract the archives before a run that is to go on.
    """
    listed: list[dict] = []
    packed: dict[str, dict[str, list[Path]]] = {}
    for study in studies:
        for experiment in sorted(study.experiments, key=lambda experiment: experiment.id):
            name = f"{study.name}/{experiment.id}"
            for cell in experiment.cells:
                if results := newest(cell, cell.store):
                    listed.append(described(results) | {"experiments": name})
                    files = [file for kind, file in results.artifacts.items() if kind not in HEAVY and file.is_file()]
                    packed.setdefault(results.metadata.key, {name: [results.file, *files]})
    of_experiment: dict[str, list[Path]] = {}
    for (experiment, files), *_ in (by_experiment.items() for by_experiment in packed.values()):
        of_experiment.setdefault(experiment, []).extend(files)
    cells = pd.DataFrame(listed, columns=CELLS)
    cells = cells.groupby(CELLS[:1], sort=False).agg(dict.fromkeys(CELLS[1:-1], "first") | {"experiments": " ".join})
    archives.mkdir(parents=True, exist_ok=True)
    listing = archives / "cells.csv"
    pd.concat([in_other_archives(listing, of_experiment), cells.reset_index()]).to_csv(
        listing, index=False, lineterminator="\n"
    )
    for experiment, files in of_experiment.items():
        pack({str(file): file for file in files}, archives / f"{experiment}.tar.xz")


def newest(cell: Cell, store: Path) -> StoredResults | None:
    """The results of a cell in a store: those of today's code, or else the newest ones of other code."""
    file = store / cell.file.relative_to(cell.store)
    if file.is_file() and (metadata := known_metadata(file)):
        return StoredResults(cell, file, metadata)
    return newest_under_other_code(cell, store)


def in_other_archives(listing: Path, written: Collection[str]) -> pd.DataFrame:
    """The listed cells that are packed with other experiments than those whose archives are `written` anew."""
    if not listing.is_file():
        return pd.DataFrame(columns=CELLS)
    cells = pd.read_csv(listing, dtype=str, keep_default_na=False)
    return cells[~cells["experiments"].str.split().str[0].isin(list(written))]


def keep_pages(results: Path, out: Path) -> None:
    """Copy the page of every paper in `results`, a scale's, and its tables to `out`: one file a paper and kind."""
    for folder in sorted(results.glob(f"*-{out.name}")):
        write_page(folder / "report.html", out / folder.name.removesuffix(f"-{out.name}") / "report.html")
        experiments = [made.parent for made in sorted(folder.glob("*/results.parquet"))]
        tables = {experiment.name: sorted(experiment.glob("tables/*.csv")) for experiment in experiments}
        write_tables(tables, out / folder.name.removesuffix(f"-{out.name}"))


def draw_finished(study: Study, configfile: Path) -> None:
    """Make tables and page of the finished cells of a study where a complete run makes them."""
    absent = absent_from(study)
    manifests = [manifest.file(study, experiment) for experiment in study.experiments]
    for file, experiment in zip(manifests, study.experiments, strict=True):
        finished = manifest.content(study, experiment).without(absent)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_json(file, encode(finished))
        build.write(finished, file.parent, str(configfile), made_from=file.name)
    write_paper(manifests, study.folder / "report.html", str(configfile))


def write_page(page: Path, out: Path) -> None:
    """Copy a page without second drawings of its figures, and with coordinates of four digits: half the bytes.

    Links to files that are not kept beside it become text.
    """
    text = without_links(SECOND_FIGURE.sub("", page.read_text(encoding="utf-8")))
    text = DRAWING.sub(lambda match: match[1] + rounded(match[2]) + '"', text)
    if len(text.encode()) > LARGEST:
        raise SystemExit(f"{page} has more than {LARGEST:,} bytes")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text, encoding="utf-8")


def without_links(page: str) -> str:
    """A page without links to other files."""
    return LINK.sub(r"\1", ELSEWHERE.sub("", page))


def rounded(encoded: str) -> str:
    """A drawing in SVG, in Base64, without indentation and with numbers of four digits."""
    drawing = INDENTATION.sub("\n", base64.b64decode(encoded).decode())
    return base64.b64encode(NUMBER.sub(lambda match: f"{float(match[0]):.4g}", drawing).encode()).decode()


def write_tables(files: Mapping[str, Sequence[Path]], out: Path) -> None:
    """Write the tables of all experiments of a paper, one file a kind; each row starts with its experiment.

    Numbers have six digits.
    """
    kinds: dict[str, list[pd.DataFrame]] = {}
    for experiment, tables in files.items():
        for table in tables:
            rows = pd.read_csv(table, dtype=str, keep_default_na=False)
            rows.insert(0, "folder", experiment)
            kinds.setdefault(table.stem, []).append(rows)
    out.mkdir(parents=True, exist_ok=True)
    for kind, parts in kinds.items():
        text = pd.concat(parts, ignore_index=True).to_csv(index=False, lineterminator="\n")
        (out / f"{kind}.csv").write_text(LONG.sub(lambda match: f"{float(match[0]):.6g}", text), encoding="utf-8")


def unpack(scale: str, folder: Path) -> None:
    """Extract the archives of a scale's cells into `folder`."""
    for file in sorted((ARCHIVES / scale).glob("*/*.tar.xz")):
        with tarfile.open(file) as archive:
            archive.extractall(folder, filter="data")


def described(results: StoredResults) -> dict[str, Any]:
    """The results of a cell in the list."""
    cell, metadata = results.cell, results.metadata
    commit = metadata.commit.id if metadata.commit else ""  # none of a checkout that git does not know
    return {
        "key": results.metadata.key,
        "method": cell.row.component.name,
        "data": cell.partition.data.label,
        "heterogeneity": cell.partition.label,
        "seed": cell.seed,
        "status": metadata.status,
        "seconds": round(metadata.costs.seconds.total, 1),
        "commit": commit[:12],
    }


def pack(files: Mapping[str, Path], archive: Path) -> None:
    """Write files to an archive by their names in it; the same bytes for the same files."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive, "w:xz", preset=9) as tar:
        for name, file in sorted(files.items()):
            entry = tar.gettarinfo(file, name)
            entry.mtime = entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            with file.open("rb") as content:
                tar.addfile(entry, content)


def claims(run: Path) -> pd.DataFrame:
    """How many claims of every paper have which verdict."""
    return read(run, "claims").pivot_table(index="paper", columns="verdict", aggfunc="size", fill_value=0)


def verdicts(run: Path) -> pd.DataFrame:
    """The verdict on every claim that a rule can check, and the numbers that decided."""
    table = read(run, "claims")
    checked = table[table["verdict"] != UNCHECKED]
    return checked.set_index(["paper", "experiment"])[["verdict", "says", "numbers"]].fillna("")


def agreement(run: Path) -> pd.DataFrame:
    """Means of τ over the columns of accuracies of every paper with enough rows, each by its pairs of rows.

    `tau` is to the printed numbers, in all columns; over those with several seeds, `tau_of_several` is the same and
    `between_seeds` that of one seed to the others.
    """
    means = {paper: averaged(columns) for paper, columns in read(run, "agreement").groupby("paper")}
    known = {paper: mean._asdict() for paper, mean in means.items() if mean.columns}
    return pd.DataFrame.from_dict(known, orient="index").round(2)


def rounds(run: Path) -> pd.DataFrame:
    """By how many points the best evaluated round on test images is above the last one, over cells of a method.

    What a paper gains that reports its best round: mean, median and largest difference of a cell. Cells are read from
    the archives of the scale.
    """
    listed = pd.read_csv(ARCHIVES / run.name / "cells.csv", dtype={"key": "str"}).set_index("key")
    gains_of_cells = []
    with tempfile.TemporaryDirectory() as folder:
        unpack(run.name, Path(folder))
        for file in sorted(Path(folder).rglob("*.parquet")):
            key, _, kind = file.stem.partition("-")[2].partition(".")
            if kind or listed["status"][key] != "ok":
                continue  # kept beside a cell
            table, head = read_table(file)
            means = of_rounds(table.to_pandas(), head["score"])
            if len(means) > 1:
                gains_of_cells.append((listed["method"][key], 100 * (means.max() - means.iloc[-1])))
    gains = pd.DataFrame(gains_of_cells, columns=["method", "gain"]).groupby("method")["gain"]
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


def moved(before: Path, after: Path) -> pd.DataFrame:
    """By paper and number of seeds, how far accuracies of two kept runs of the same cells are apart, in points."""
    place = ["paper", "experiment", "row", "data", "heterogeneity", "domain", "seeds"]
    tables = (read(run, "printed").astype({"domain": "str"}) for run in (before, after))
    old, new = (table[table["metric"] == "accuracy"].dropna(subset=["ours", "seeds"]) for table in tables)
    both = old[[*place, "ours"]].merge(new[[*place, "ours"]], on=place, suffixes=("", "_after"))
    apart = (both["ours_after"] - both["ours"]).abs().groupby([both["paper"], both["seeds"].astype(int)])
    equal = apart.agg(lambda points: (points == 0).sum())
    return apart.agg(["size", "median", "max"]).assign(equal=equal.astype(int)).round(2)


def changed(before: Path, after: Path) -> pd.DataFrame:
    """The claims whose verdicts differ between two kept runs, with both."""
    claim = ["paper", "experiment", "says"]
    both = read(before, "claims").merge(read(after, "claims"), on=claim, suffixes=("", "_after"))
    differing = both[both["verdict"] != both["verdict_after"]]
    return differing.set_index(claim[:2])[["verdict", "verdict_after", "says"]]


def read(run: Path, name: str) -> pd.DataFrame:
    """The tables of a name of all experiments, with the columns `paper` and `experiment`."""
    parts = [
        pd.read_csv(file)
        .drop(columns="experiment", errors="ignore")  # of printed numbers: the one that prints them
        .rename(columns={"folder": "experiment"})
        .assign(paper=file.parent.name)
        for file in sorted(run.glob(f"*/{name}.csv"))
    ]
    return pd.concat(parts, ignore_index=True)


KEPT = ("keep", "pages", "partial", "cells")
"""Commands that keep something of a run."""
READ = {"claims": claims, "verdicts": verdicts, "agreement": agreement, "rounds": rounds, "between": between}
"""Command → what it prints of a run that is kept, or of printed numbers."""
COMPARED = {"moved": moved, "changed": changed}
"""Command → what it prints of two kept runs."""


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.papers", description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(required=True, dest="command")
    for name in KEPT:
        keeping = commands.add_parser(name)
        keeping.add_argument("results", type=Path)
        keeping.add_argument("out", type=Path, help="folder whose name is that of the scale")
    for name in READ:
        commands.add_parser(name).add_argument("folder", type=Path)
    for name in COMPARED:
        comparing = commands.add_parser(name)
        comparing.add_argument("before", type=Path, metavar="OLD")
        comparing.add_argument("after", type=Path, metavar="NEW")
    arguments = parser.parse_args()
    if arguments.command in KEPT:
        scale = arguments.out.name
        studies = {file: read_study(file, scale, results=arguments.results) for file in sorted(PAPERS.glob("*.yaml"))}
    if arguments.command == "partial":
        for file, study in studies.items():
            if (ARCHIVES / scale / study.name).is_dir():  # others share cells, and have none of their own row
                draw_finished(study, file)
    if arguments.command in ("keep", "pages", "partial"):
        keep_pages(arguments.results, arguments.out)
    if arguments.command in ("keep", "cells"):
        keep_cells(studies.values(), ARCHIVES / scale)
    if arguments.command in READ:
        print(READ[arguments.command](arguments.folder).to_string())
    if arguments.command in COMPARED:
        print(COMPARED[arguments.command](arguments.before, arguments.after).to_string())


if __name__ == "__main__":
    main()
