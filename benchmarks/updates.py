"""Whether ``fedgrid adopt`` carries what an edit leaves as it is, and nothing else: ``python -m benchmarks.updates``.

Small cells (`updates.yaml`) are trained once. Then a copy of the package is edited, each time in another way (see
`benchmarks.edits`), and ``fedgrid adopt`` runs with that copy on a copy of the store. What it carries is compared, bit
for bit, with what the edited code computes when it trains every cell from nothing. The results go to
``benchmarks/results/updates.md`` and ``.csv``; the exit code is 1 where an expectation fails.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pandas as pd
import pyarrow as pa

from benchmarks.edits import DIFFERENT, EDITS, OUTSIDE, SAME, Edit
from benchmarks.machine import facts
from benchmarks.markdown import table
from benchmarks.processes import ROOT, Failed
from fedgrid.files import read_metadata, read_table

STUDY = Path(__file__).with_name("updates.yaml")
OUTCOME = ("status", "reason", "rounds", "score", "domains")
"Metadata of results that code computes."
SUMMARY = re.compile(
    r"([\d,]+) cells? adopted, ([\d,]+) trained to check them; ([\d,]+) refused, 0 that cannot be checked here"
)
REFUSED = re.compile(r"^  refused: (.*)$", re.MULTILINE)
NAMED = re.compile(r"round \d+, \w+ of client \d+: |the partition: rows |the artifact '")
"What a sentence of refusal must say: where the first difference is."
Cells = Mapping[str, Sequence[str]]
"Files of every cell in the store, its results first, by its settings."


@dataclass(frozen=True)
class Measured:
    """What became of a store after an edit; numbers are of cells."""

    edit: str
    changes: str
    says: str
    new_keys: int
    "Cells whose keys the edit changes."
    changed: int
    "Those of them whose numbers it changes too: the truth, from training them all."
    adopted: int
    trained: int
    "For the check."
    refused: int
    carried_wrongly: int
    "Adopted ones with other bits than those that the edited code computes."
    seconds: float
    "Of ``fedgrid adopt``."
    refusals: str
    "Its sentences, one a line."

    @property
    def holds(self) -> bool:
        """Whether all of it is as promised; outside the promise, whether the edit changes any numbers at all."""
        if self.changes == OUTSIDE:
            return self.changed > 0
        if self.changes == SAME:
            return not self.changed and not self.refused and 0 < self.new_keys == self.adopted + self.trained
        sentences = self.refusals.splitlines()
        named = bool(sentences) and all(map(NAMED.search, sentences))
        return self.changed > 0 and self.refused > 0 and not self.carried_wrongly and named


class TrainedStudy:
    """A study's cells trained with the code as it is, in a folder, and what edits do to them."""

    def __init__(self, folder: Path, study: str, cores: int):
        self.folder, self.study, self.cores = folder, study, cores
        package, self.package = ROOT / "src" / "fedgrid", folder / "src" / "fedgrid"
        shutil.copytree(package, self.package, ignore=shutil.ignore_patterns("__pycache__"))
        self.before = self._cells(folder / "before", self.package)

    @property
    def store(self) -> Path:
        """The store that was trained with the code as it is."""
        return self.folder / "before" / "results" / "store"

    def measured(self, edit: Edit) -> Measured:
        """Applies an edit, adopts, and compares with what the edited code computes from nothing."""
        folder = self.folder / edit.name
        package = folder / "src" / "fedgrid"
        shutil.copytree(self.package, package, ignore=shutil.ignore_patterns("__pycache__"))
        edit.apply(package)
        now = self._cells(folder / "anew", package, self.store)
        new = {settings: files for settings, files in now.items() if files != self.before[settings]}
        truth = numbers_of(folder / "anew" / "results" / "store", new)
        earlier = numbers_of(self.store, {settings: self.before[settings] for settings in new})
        output, seconds = self._adopt(folder, package)
        store = folder / "results" / "store"
        carried = numbers_of(
            store, {settings: files for settings, files in new.items() if is_carried(store / files[0])}
        )
        adopted, trained, refused = counts_of(output)
        if adopted != len(carried):
            raise Failed(f"edit '{edit.name}': {len(carried)} cells are adopted, and fedgrid adopt says:\n{output}")
        shutil.rmtree(folder)
        return Measured(
            edit=edit.name,
            changes=edit.changes,
            says=edit.says,
            new_keys=len(new),
            changed=sum(earlier[settings] != truth[settings] for settings in new),
            adopted=adopted,
            trained=trained,
            refused=refused,
            carried_wrongly=sum(carried[settings] != truth[settings] for settings in carried),
            seconds=seconds,
            refusals="\n".join(REFUSED.findall(output)),
        )

    def _cells(self, folder: Path, package: Path, known: Path | None = None) -> Cells:
        """All cells of the study under the code of `package`; trained in `folder`, but for those that `known` has."""
        self._place_study(folder)
        module = ["benchmarks.training", "study.yaml", "cells.json", *([known] if known else [])]
        self._python(folder, package, *module, f"--cores={self.cores}")
        entries = json.loads((folder / "cells.json").read_text(encoding="utf-8"))
        return {entry["settings"]: entry["files"] for entry in entries}

    def _adopt(self, folder: Path, package: Path) -> tuple[str, float]:
        """What ``fedgrid adopt`` prints on a copy of the store, and its seconds."""
        self._place_study(folder)
        shutil.copytree(self.store, folder / "results" / "store")
        start = time.perf_counter()
        command = "fedgrid.cli.main", "adopt", "--configfile", "study.yaml", f"--cores={self.cores}"
        return self._python(folder, package, *command), time.perf_counter() - start

    def _place_study(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        (folder / "study.yaml").write_text(self.study, encoding="utf-8")

    def _python(self, folder: Path, package: Path, *module: str | Path) -> str:
        """What a module prints that imports `package`; raises Failed where its exit code is neither 0 nor 1."""
        paths = {"PYTHONPATH": f"{package.parent}{os.pathsep}{ROOT}", "XDG_CACHE_HOME": str(self.folder / "cache")}
        environment = os.environ | paths | {"OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", *map(str, module)]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        if done.returncode not in (0, 1) or "Traceback" in done.stderr:
            raise Failed(f"{' '.join(command)} ended with code {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout


def counts_of(output: str) -> tuple[int, int, int]:
    """How many cells ``fedgrid adopt`` says it has adopted, trained and refused; Failed where it does not say."""
    summary = SUMMARY.search(output)
    if not summary:
        raise Failed(f"fedgrid adopt says:\n{output}")
    adopted, trained, refused = (int(count.replace(",", "")) for count in summary.groups())
    return adopted, trained, refused


def numbers_of(store: Path, cells: Cells) -> dict[str, list[object]]:
    """The `numbers` of cells, by their settings."""
    return {settings: numbers(store, files) for settings, files in cells.items()}


def numbers(store: Path, files: Sequence[str]) -> list[object]:
    """All that a cell's files hold besides keys and costs: recorded values, outcome, artifacts; bit for bit."""
    records, about = read_table(store / files[0])
    artifacts = [columns(read_table(store / file)[0]) for file in files[1:]]
    return [columns(records), [about[name] for name in OUTCOME], artifacts]


def columns(part: pa.Table) -> list[bytes]:
    """The columns of a table in Arrow's own format."""
    arrays = [column.combine_chunks() for column in part.columns]
    plain = [array.dictionary_decode() if pa.types.is_dictionary(array.type) else array for array in arrays]
    return [
        pa.record_batch([array], names=[name]).serialize().to_pybytes()
        for name, array in zip(part.column_names, plain, strict=True)
    ]


def is_carried(file: Path) -> bool:
    """Whether a file has results that an adoption wrote."""
    return file.is_file() and "adopted" in read_metadata(file)


def rows(measured: Sequence[Measured]) -> Iterator[list[object]]:
    """A line of the page for each edit."""
    for one in measured:
        wrong = f"**{one.carried_wrongly}**" if one.carried_wrongly else "0"
        counts = f"{one.changed} of {one.new_keys}", one.adopted, one.refused, f"{one.trained} of {one.new_keys}", wrong
        kept = "–" if one.changes == OUTSIDE else "yes" if one.holds else "**no**"
        yield [one.edit, one.says, *counts, f"{one.seconds:.0f}", kept]


def sentences(measured: Sequence[Measured]) -> str:
    """The first sentence of refusal after each edit that has one."""
    return "\n".join(f"* {one.edit}: {one.refusals.splitlines()[0]}" for one in measured if one.refusals)


def page(measured: Sequence[Measured], cells: int, cores: int) -> str:
    """The results for people."""
    header = ["edit", "what it does", "numbers change", "adopted", "refused", "trained", "wrong", "s", "as promised"]
    same, different, outside = (
        [one for one in measured if one.changes == changes] for changes in (SAME, DIFFERENT, OUTSIDE)
    )
    wrong = sum(one.carried_wrongly for one in same + different)
    return f"""# fedgrid adopt after {len(measured)} edits

{table(("", ""), facts("cpu").items())}

{cells} cells (`benchmarks/updates.yaml`) are trained. Then a copy of the package is edited, and `fedgrid adopt --cores
{cores}` runs with it on a copy of the store. *Numbers change*: cells with other bits, of all to which the edit gives
new keys; the edited code trains every one of them from nothing, for this page alone. *Refused*: all cells of refused
groups. *Trained*: by the command, to check. *Wrong*: adopted cells with other bits than the edited code computes;
{wrong} in the first two tables. *s*: seconds of the command.

## Edits that change no bit

All cells must be adopted.

{table(header, rows(same))}

## Edits that change numbers

A group of cells in which any changes must be refused as a whole, so that nothing wrong is adopted; groups that the edit
does not reach may be adopted.

{table(header, rows(different))}

The first refusal of each:

{sentences(different)}

## What is not promised

Cells of one group are trained until any two choices that occur together in a cell are together in a trained one. What
tells cells apart without being such a choice is covered by chance alone: a seed, a value between the smallest and the
largest, or three choices that matter only together. An edit that acts on nothing but those may be adopted:

{table(header, rows(outside))}
"""


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.updates", description="Whether adopted results are right.")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--study", type=Path, default=STUDY, help="the cells (default: updates.yaml)")
    parser.add_argument("--only", nargs="+", choices=[edit.name for edit in EDITS], metavar="EDIT", help="some edits")
    given = parser.parse_args(argv)
    edits = [edit for edit in EDITS if not given.only or edit.name in given.only]
    measured: list[Measured] = []
    with tempfile.TemporaryDirectory(prefix="updates-") as folder:
        trained = TrainedStudy(Path(folder), given.study.read_text(encoding="utf-8"), given.cores)
        for edit in edits:
            measured.append(trained.measured(edit))
            print(*next(rows(measured[-1:])), sep="  ", flush=True)
    given.out.mkdir(parents=True, exist_ok=True)
    lines = pd.DataFrame([asdict(one) | {"holds": one.holds} for one in measured])
    lines.to_csv(given.out / "updates.csv", index=False, lineterminator="\n")
    text = page(measured, len(trained.before), given.cores)
    (given.out / "updates.md").write_text(text, encoding="utf-8")
    print(given.out / "updates.md")
    return 0 if all(one.holds for one in measured) else 1


if __name__ == "__main__":
    sys.exit(main())
