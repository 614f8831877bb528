"""How often verdicts are right: the rules of claims and bold marks on simulated tables.

python -m benchmarks.calibration spreads results/fedcosr-small/table2/results.parquet   spreads of a table that was run
python -m benchmarks.calibration rates [--tables 500]                                   the rates, in a table
python -m benchmarks.calibration sizes [--tables 500]                                   those of sizes, changes and most
python -m benchmarks.calibration coverage [--samples 2000]                              of the interval of Kendall's τ

A simulated table has the rows and columns of FedCoSR's Table II, true accuracies that a scenario gives, and normal
noise by row, column and seed. Its spreads are those of the small run: of each column (equal), of each column times
a factor of each row (by row), or of each entry, whose estimate from three seeds exaggerates how far they differ (by
entry). What a seed does to all rows alike cancels in paired differences, so it is not simulated.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.markdown import table as markdown
from fedgrid.analysis.papers.agreement import interval, tau
from fedgrid.analysis.papers.claims import CONFIRMED, REFUTED, outcome
from fedgrid.analysis.papers.rules import Judged, Limits, Part, with_best
from fedgrid.analysis.scores.comparisons import Comparison, Scores
from fedgrid.analysis.scores.leads import is_significant
from fedgrid.analysis.scores.results import load
from fedgrid.analysis.scores.summary import cell_scores
from fedgrid.grid.study.claim import OTHERS
from fedgrid.grid.study.printed import read_printed

OUT = Path("benchmarks/results/verdicts")
PRINTED = Path("config/papers/fedcosr.csv")
SEEDS = (1, 3, 5, 10)
CLAIMED = "FedCoSR"
AHEAD = 2.3
"""Points by which a rival is ahead in every column of one scenario."""
BEHIND = 4.0
"""Standard deviation of the points by which the rows that are not tied are behind."""

SIMULATED = " ".join(__doc__.rpartition("\n\n")[2].split())
HEAD = (
    "Per cent of {} tables (10 for one seed) that are confirmed / refuted, and of their columns. Where rows are equal "
    "both are wrong; where the claimed row leads, to refute is, and where a rival is ahead, to confirm."
)

SIZE = 3.0
"""Points: half the width of a claimed size, by how much a wrong one is off, and what a row gains from step to step."""
SIZES = (
    "Per cent of {} tables that are confirmed / refuted; in the second table, of their columns, or of the steps "
    "from a column to the next.\n\n"
    f"* **Size**: the first row less the second is claimed to be in a range of {2 * SIZE:g} points. The true "
    "difference is in its middle, so that to refute is wrong; at its limit, where 5 % may be confirmed and 5 % "
    f"refuted; or {SIZE:g} points outside, so that to confirm is wrong.\n"
    "* **Most**: the row is above more than half of the others. All are equal, so that both are wrong.\n"
    "* **Rises, grows**: the accuracy of the row, its lead over another one, or over the best other one, which the "
    f"data choose. Both are wrong where nothing changes; to refute is where the row gains {SIZE:g} points a step."
)

TAU = "Per cent of {} samples of pairs of normal numbers whose 95 % interval covers the true τ, by number of rows."


@dataclass(frozen=True)
class Scenario:
    """True accuracies by row and column, in per cent."""

    name: str
    truth: Callable[[np.random.Generator, pd.DataFrame], pd.DataFrame]


def with_behind(truth: pd.DataFrame, rows: list[str], random: np.random.Generator) -> pd.DataFrame:
    """The table with some `rows` behind, each by its own number of points."""
    truth.loc[rows] -= np.abs(random.normal(0, BEHIND, (len(rows), 1)))
    return truth


def level(_: np.random.Generator, printed: pd.DataFrame) -> pd.DataFrame:
    """All rows are equal."""
    return printed * 0


def five_tied(random: np.random.Generator, printed: pd.DataFrame) -> pd.DataFrame:
    """The claimed row and four others are equal, the rest are behind."""
    truth = printed * 0
    return with_behind(truth, [row for row in truth.index if row != CLAIMED][4:], random)


def as_printed(_: np.random.Generator, printed: pd.DataFrame) -> pd.DataFrame:
    """The paper's own numbers."""
    return printed


def one_leader(_: np.random.Generator, printed: pd.DataFrame) -> pd.DataFrame:
    """All rows are equal but the claimed one, which has the lead over the second best that the paper prints."""
    truth = printed * 0
    truth.loc[CLAIMED] = printed.loc[CLAIMED] - printed.drop(CLAIMED).max()
    return truth


def one_rival(random: np.random.Generator, printed: pd.DataFrame) -> pd.DataFrame:
    """One rival is ahead in every column, the rest are behind."""
    truth = printed * 0
    rival, *rest = (row for row in truth.index if row != CLAIMED)
    truth.loc[rival] = AHEAD
    return with_behind(truth, rest, random)


SCENARIOS = (
    Scenario("all rows are equal", level),
    Scenario("five best are equal", five_tied),
    Scenario("the paper's table is true", as_printed),
    Scenario("one leads, by its printed lead", one_leader),
    Scenario(f"a rival is {AHEAD} points ahead", one_rival),
)


def spreads(results: Path) -> pd.DataFrame:
    """Standard deviations over seeds, in points, by row (its name) and column, without what a seed does to all rows."""
    run = load(results)
    scores = cell_scores(run)
    scores["row"] = scores["label"].map(run.names)
    scores["column"] = [run.column(*place) for place in zip(scores["data"], scores["heterogeneity"], strict=True)]
    values = 100 * scores.pivot(index=["row", "column"], columns="seed", values="accuracy")
    noise = values.sub(values.mean(axis=1), axis=0)
    noise -= noise.groupby("column").transform("mean")
    rows = noise.groupby("column").transform("size")
    spread = np.sqrt((noise**2).sum(axis=1) / (noise.shape[1] - 1) * rows / (rows - 1))
    return spread.unstack().round(3)


def printed_table() -> pd.DataFrame:
    """Accuracies of Table II by row and column, in per cent."""
    table = pd.DataFrame(read_printed(str(PRINTED)))
    table = table[(table["experiment"] == "table2") & (table["metric"] == "accuracy") & (table["row"] != "Averaged")]
    numbers = table.assign(number=pd.to_numeric(table["value"]), column=table["data"] + ", " + table["heterogeneity"])
    return numbers.pivot(index="row", columns="column", values="number")


def verdicts(columns: list[Scores]) -> dict[str, tuple[str, list[str]]]:
    """By rule the outcome of a table and those of its columns."""
    of_all = against_all(columns)
    rules = {
        "leads": of_all,
        "within 3": [replace(part, needed=len(part.judged) - 2) for part in of_all],
        "above one": [replace(part, judged=part.judged[:1], needed=1) for part in of_all],
    }
    return {name: (outcome(parts), [outcome([part]) for part in parts]) for name, parts in rules.items()}


def bold(columns: list[Scores]) -> list[str]:
    """The outcome of bold marks in each column: confirmed for the claimed row, refuted for another one."""
    leaders = [one.values.mean(axis=1).idxmax() for one in columns]
    marked = [
        is_significant([one.between(leader, row) for row in others(one, leader)])
        for one, leader in zip(columns, leaders, strict=True)
    ]
    outcomes = {True: CONFIRMED, False: REFUTED}
    return [outcomes[leader == CLAIMED] if mark else "" for leader, mark in zip(leaders, marked, strict=True)]


def sizes_and_changes(equal: list[Scores], gaining: list[Scores]) -> dict[str, list[Part]]:
    """The parts of claims on sizes and changes: of columns whose rows are equal, and of those where one row gains."""
    rival = others(equal[0])[0]
    ranges = {"in the middle": (-SIZE, SIZE), "at the limit": (0.0, 2 * SIZE), "outside": (SIZE, 3 * SIZE)}
    parts = {
        f"size, {name}": [single(one.between(CLAIMED, rival), limits) for one in equal]
        for name, limits in ranges.items()
    }
    parts["most"] = [replace(part, needed=len(part.judged) // 2 + 1) for part in against_all(equal)]
    for name, columns in {"nothing changes": equal, "gains": gaining}.items():
        steps = changes(columns)
        steps_of_best = changes([with_best(one, others(one)) for one in columns])
        parts[f"rises, {name}"] = [single(change.of_row(CLAIMED)) for change in steps]
        parts[f"grows, {name}"] = [single(change.between(CLAIMED, rival)) for change in steps]
        parts[f"grows over the best, {name}"] = [single(change.between(CLAIMED, OTHERS)) for change in steps_of_best]
    return parts


def changes(columns: list[Scores]) -> list[Scores]:
    """What each column is above the one before."""
    return [after.minus(before) for before, after in pairwise(columns)]


def others(one: Scores, row: str = CLAIMED) -> list[str]:
    """The rows of a column but one."""
    return [other for other in one.values.index if other != row]


def single(comparison: Comparison, limits: Limits = (0.0, inf)) -> Part:
    """A part of one comparison; its difference is in points."""
    return Part("accuracy", (), [Judged(CLAIMED, "", (0.0, 0.0), comparison, limits)], 1)


def against_all(columns: list[Scores]) -> list[Part]:
    """The claimed row against every other one, in each column; all must be as claimed."""
    parts = []
    for one in columns:
        judged = [Judged(CLAIMED, row, (0.0, 0.0), one.between(CLAIMED, row), (0.0, inf)) for row in others(one)]
        parts.append(Part("accuracy", (), judged, len(judged)))
    return parts


def simulated(truth: pd.DataFrame, spread: pd.DataFrame, seeds: int, random: np.random.Generator) -> list[Scores]:
    """The columns of a table with these true accuracies and spreads."""
    noise = random.normal(size=(*truth.shape, seeds)) * spread.to_numpy()[:, :, None]
    values = truth.to_numpy()[:, :, None] + noise
    return [Scores(pd.DataFrame(values[:, column], truth.index)) for column in range(truth.shape[1])]


def rates(scenario: Scenario, spread: pd.DataFrame, seeds: int, tables: int) -> dict[str, str]:
    """By rule, in how many per cent of tables and of their columns it confirms and refutes."""
    random = np.random.default_rng([SCENARIOS.index(scenario), seeds])
    printed = printed_table()
    results: dict[str, list[tuple[str, list[str]]]] = {}
    for _ in range(tables):
        columns = simulated(scenario.truth(random, printed), spread, seeds, random)
        for rule, result in verdicts(columns).items():
            results.setdefault(rule, []).append(result)
        results.setdefault("bold", []).append(("", bold(columns)))
    texts: dict[str, str] = {}
    for rule, of_rule in results.items():
        of_columns = [verdict for _, of_table in of_rule for verdict in of_table]
        if rule != "bold":
            texts[rule] = shares([verdict for verdict, _ in of_rule])
        texts[f"{rule}, by column"] = shares(of_columns)
    return texts


def shares(outcomes: list[str]) -> str:
    """How many per cent are confirmed, and how many refuted."""
    return " / ".join(f"{100 * np.mean([one == word for one in outcomes]):.1f}" for word in (CONFIRMED, REFUTED))


def spreads_of(measured: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The spreads to simulate: rows equal in each column; rows that differ by a factor; each entry as measured."""
    of_columns = np.sqrt((measured**2).mean())
    of_rows = np.sqrt(((measured / of_columns) ** 2).mean(axis=1))
    factors = {"equal": np.ones(len(measured)), "by row": of_rows.to_numpy()}
    products = {name: np.outer(factor, of_columns) for name, factor in factors.items()}
    return {name: measured * 0 + product for name, product in products.items()} | {"by entry": measured}


def calibrate(tables: int) -> pd.DataFrame:
    """The rates of all scenarios, spreads and numbers of seeds."""
    measured = pd.read_csv(OUT / "spreads.csv", index_col="row")
    rows = []
    for scenario in SCENARIOS:
        for name, spread in spreads_of(measured).items():
            for seeds in SEEDS:
                of_rules = rates(scenario, spread, seeds, tables if seeds > 1 else 10)
                rows.append({"scenario": scenario.name, "spreads": name, "seeds": seeds, **of_rules})
                print(rows[-1], flush=True)
    return pd.DataFrame(rows)


def size_rates(tables: int) -> list[pd.DataFrame]:
    """The rates of claims on sizes and changes: of tables, and of their columns or steps."""
    measured = pd.read_csv(OUT / "spreads.csv", index_col="row")
    of_tables: dict[str, dict[str, str]] = {}
    of_parts: dict[str, dict[str, str]] = {}
    for name, spread in spreads_of(measured).items():
        for seeds in SEEDS[1:]:
            random = np.random.default_rng([len(SCENARIOS), seeds])
            level, gains = measured * 0, measured * 0
            gains.loc[CLAIMED] = SIZE * np.arange(gains.shape[1])
            drawn = [
                sizes_and_changes(*(simulated(truth, spread, seeds, random) for truth in (level, gains)))
                for _ in range(tables)
            ]
            place = f"{name}, {seeds} seeds"
            of_tables[place] = {rule: shares([outcome(one[rule]) for one in drawn]) for rule in drawn[0]}
            of_parts[place] = {
                rule: shares([outcome([part]) for one in drawn for part in one[rule]]) for rule in drawn[0]
            }
    return [pd.DataFrame(rates).reset_index(names="claim") for rates in (of_tables, of_parts)]


def coverage(samples: int) -> pd.DataFrame:
    """In how many per cent of samples the interval of τ covers the true one, by rows and by τ; numbers are normal."""
    random = np.random.default_rng(0)
    rows = []
    for n in (5, 8, 12, 16, 24):
        covered = {}
        for correlation in (0.0, 0.5, 0.8, 0.95):
            true = 2 / np.pi * np.arcsin(correlation)
            drawn = random.multivariate_normal([0, 0], [[1, correlation], [correlation, 1]], (samples, n))
            limits = [interval(tau(list(one[:, 0]), list(one[:, 1])), n) for one in drawn]
            inside = [low <= true <= high for low, high in limits]
            covered[f"τ = {true:.2f}"] = f"{100 * np.mean(inside):.1f}"
        rows.append({"rows": n, **covered})
    return pd.DataFrame(rows)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calibration", description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(required=True, dest="command")
    commands.add_parser("spreads").add_argument("results", type=Path)
    for name in ("rates", "sizes"):
        commands.add_parser(name).add_argument("--tables", type=int, default=500)
    commands.add_parser("coverage").add_argument("--samples", type=int, default=2000)
    arguments = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    if arguments.command == "spreads":
        spreads(arguments.results).to_csv(OUT / "spreads.csv", lineterminator="\n")
        return
    if arguments.command == "coverage":
        write("coverage.md", "The interval of Kendall's τ", TAU.format(arguments.samples), coverage(arguments.samples))
    elif arguments.command == "sizes":
        tables = size_rates(arguments.tables)
        write("sizes.md", "Sizes, changes and most", f"{SIMULATED}\n\n{SIZES.format(arguments.tables)}", *tables)
    else:
        head = f"{SIMULATED} {HEAD.format(arguments.tables)}"
        write("README.md", "Verdicts on simulated tables", head, calibrate(arguments.tables))


def write(name: str, title: str, text: str, *tables: pd.DataFrame) -> None:
    """Write a page with its tables."""
    bodies = [markdown(list(table.columns), table.to_numpy().tolist()) for table in tables]
    (OUT / name).write_text("\n\n".join([f"# {title}", text, *bodies]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
