"""What long cells came to, as tables of Markdown: benchmarks/results/papers has them, and a test compares.

python -m benchmarks.long_runs            FedSaC's Table 5: FedSaC and Local after as many steps a client
python -m benchmarks.long_runs readings   FedSaC's Table 1 as it may be read: received and trained models
python -m benchmarks.long_runs contrast   FedCoSR's CIFAR-100 with 20 classes a client: with its contrast and without
python -m benchmarks.long_runs dirichlet  FedCoSR's CIFAR-10 at Dirichlet 0.1
python -m benchmarks.long_runs rates      its first ten rounds at the assumed rate of Adam and at a third of it
python -m benchmarks.long_runs third      all of it at a third of the rate
python -m benchmarks.long_runs leads      leads in received, trained and scored models, with 95 % intervals
python -m benchmarks.long_runs phases     FedSaC less pFedGraph, with complementarity and after it, likewise
python -m benchmarks.long_runs signals    FedCCL's Table 6 on Fashion-MNIST: with its contrasts and without
python -m benchmarks.long_runs local      FedCoSR's Local by epochs, beside what is printed
"""

import argparse
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.long_cells import (
    SCORED,
    Curves,
    Readings,
    accuracies,
    by_reading,
    cells,
    curves,
    is_reading,
    last,
    over_seeds,
    printed,
    scored,
    with_interval,
)
from benchmarks.markdown import table as markdown
from benchmarks.papers import ARCHIVES
from fedgrid.analysis.prose.phrases import decimals
from fedgrid.analysis.scores.comparisons import Scores
from fedgrid.analysis.scores.results import DASH

FEDSAC = ARCHIVES / "long/fedsac"
FEDCOSR = ARCHIVES / "long/fedcosr"
FEDCCL = ARCHIVES / "long/fedccl"
STUDIES = Path("benchmarks/results/papers")
"""Studies of our own, each in a folder with its cells."""
LOCAL = {
    "20": (STUDIES / "local/cells.tar.xz", (5, 10, 15, 20)),
    "500": (FEDCOSR / "local-rounds.tar.xz", (5, 10, 15, 20, 50, 150, 250, 350, 500)),
}
"""FedCoSR's Local by the epochs of its runs: their archive, and the epochs that the table has."""
AT_CHANCE = 55.0
"""Accuracy in % below which a client with two classes is said to be no better than chance."""
SIZED = "table5-large-scale"
"""FedSaC's experiment with 50 and with 100 clients, of whom `DRAWN` train in a round; Local trains all in each."""
DRAWN = 10
PARTITIONS = ("homogeneous", "Dirichlet 0.5", "Dirichlet 0.1", "20 classes")
EARLY = 12
"""The rounds of scale small."""
READINGS: Readings = {
    "Local": ("local", {}),
    "FedAvg": ("fedavg", {}),
    "pFedGraph": ("pfedgraph", {"similarity": "last_round"}),
    "pFedGraph, since start": ("pfedgraph", {"similarity": "since_start"}),
    "FedSaC": ("fedsac", {"similarity": "last_round", "lam": 0.01}),
    "FedSaC, since start": ("fedsac", {"similarity": "since_start"}),
    "FedSaC, parameters as in Eq. 4": ("fedsac", {"similarity": "parameters"}),
    "FedSaC, lambda 1": ("fedsac", {"lam": 1.0}),
}
"""Rows of FedSaC's Table 1 and its readings by their titles: a method, and the settings that tell it apart."""
SIGNALS: Readings = {
    "FedCCL w/o local w/o global": ("fedavg", {}),
    "FedCCL local only": ("fedccl", {"local_weight": 1.0, "global_weight": 0.0}),
    "FedCCL global only": ("fedccl", {"local_weight": 0.0, "global_weight": 1.0}),
    "FedCCL": ("fedccl", {"local_weight": 1.0, "global_weight": 1.0}),
}
"""Rows of FedCCL's Table 6, likewise; the first one, without signals, is FedAvg."""
GLOBAL_ROUNDS, SCORED_ROUNDS = (10, 25, 50, 100), 5
"""Rounds that their table has, and the last ones over whose mean FedCCL scores."""
CONTRAST: Readings = {
    "Local": ("local", {}),
    "FedRep": ("fedrep", {}),
    "FedCoSR": ("fedcosr", {"contrast": True, "gamma": 0.8}),
    "FedCoSR w/o CRL": ("fedcosr", {"contrast": False}),
    "FedCoSR, gamma 3": ("fedcosr", {"gamma": 3.0}),
    "FedCoSR, gamma 8": ("fedcosr", {"gamma": 8.0}),
}
"""Rows of FedCoSR's Table II and Fig. 14, and its γ, likewise."""
TABLE2: Readings = {
    "Local": ("local", {}),
    "FedAvg": ("fedavg", {}),
    "FedAvg-FT": ("fedavg_ft", {}),
    "Ditto": ("ditto", {}),
    "FedRep": ("fedrep", {}),
    "FedPer": ("fedper", {}),
    "FedALA": ("fedala", {}),
    "FedProto": ("fedproto", {}),
    "FedPAC": ("fedpac", {}),
    "FedCoSR": ("fedcosr", {"contrast": True}),
    "FedCoSR w/o CRL": CONTRAST["FedCoSR w/o CRL"],
}
"""Rows of FedCoSR's Table II and Fig. 14 that are run at length on CIFAR-10, likewise; FedAvg-FT is not printed."""
ASSUMED, THIRD = 0.003, 0.001
"""Adam's rate as we assume it, and a third of it."""
COLUMN_AT_THIRD = f"CIFAR-10, Dirichlet 0.1, rate {THIRD}"
COLUMNS = {
    "CIFAR-100, 20 classes": (FEDCOSR, "20 classes, 20 clients", CONTRAST),
    "CIFAR-10, Dirichlet 0.1": (FEDCOSR, "Dirichlet 0.1, 20 clients", TABLE2),
    COLUMN_AT_THIRD: (STUDIES / "column", "Dirichlet 0.1, 20 clients", TABLE2),
}
"""A column of FedCoSR's Table II, as printed, perhaps with a rate → its archives, its partition, the readings there."""
LEADS = {
    "FedSaC": (FEDSAC, "Dirichlet 0.1, 10 clients", READINGS),
    **{f"FedCoSR, {title}": column for title, column in COLUMNS.items()},
    f"FedAvg-FT, {COLUMN_AT_THIRD}": COLUMNS[COLUMN_AT_THIRD],
}
"""A paper's own row, or the first of a column of ours, perhaps with the column → its archives, its partition, the
readings there, with all of which it is compared."""
PAIRS = (
    ("FedSaC", "pFedGraph"),
    ("FedSaC, lambda 1", "pFedGraph"),
    ("FedSaC, since start", "pFedGraph, since start"),
)
"""Rows of FedSaC's Table 1 that differ in complementarity and in the weight of similarity, which is 1.4 and 0.8."""
PHASES = ((1, 35), (36, 50))
"""First and last round: with complementarity, in the first 70 % of the rounds, and without, in the rest."""
ROUNDS = (10, 50, 100, 150)
"""Rounds of scale long that the tables of `COLUMNS` have."""
FIRST = 0
"""The seed that all readings have."""
POINTS = ("received", "trained")
"""The models that a client has in a round: those that it receives, and those that it has trained."""


def at_equal_steps() -> str:
    """FedSaC's Table 5 at scale long: a column a line, FedSaC over the clients that trained last, Local over all."""
    of_cells, numbers = curves(FEDSAC / f"{SIZED}.tar.xz"), printed("fedsac", SIZED)
    rows = []
    for clients in (50, 100):
        for heterogeneity in (f"{name}, {clients} clients" for name in PARTITIONS):
            means = {name: of_cells[name, heterogeneity].mean(axis=1) for name in ("fedsac", "local")}
            last = means["fedsac"].index[-1]
            ours = means["fedsac"][EARLY], means["fedsac"][last], means["local"][last * DRAWN // clients]
            of_paper = (numbers[row, "CIFAR-100", heterogeneity] for row in ("FedSaC", "Local"))
            rows.append([heterogeneity, *(f"{value:.2f}" for value in (*of_paper, *ours, means["local"][last]))])
    rounds = f"{last} rounds"
    header = ["", "printed: FedSaC", "Local", f"FedSaC, {EARLY} rounds", f"FedSaC, {rounds}"]
    return markdown([*header, "Local, as many steps a client", f"Local, {rounds}"], rows)


def in_readings() -> str:
    """FedSaC's Table 1 at scale long, CIFAR-10 at β = 0.1: of each reading with cells, means over clients and seeds.

    The first seed, which all readings have, stands by itself too: means over other seeds do not compare with it.
    """
    numbers = printed("fedsac", "table1")
    rows = []
    for title, seeds in by_reading(FEDSAC, "Dirichlet 0.1, 10 clients", READINGS).items():
        of_paper = decimals(numbers.get((title, "CIFAR-10", "Dirichlet 0.1"), np.nan))
        curves = {
            point: {seed: accuracies(seeds[seed], point).loc[1:].mean(axis=1) for seed in seeds} for point in POINTS
        }
        of_first = [f"{last(curves[point][FIRST]):.2f}" for point in POINTS]
        scores = [[of(one) for one in curves[point].values()] for point in POINTS for of in (last, pd.Series.max)]
        means = map(over_seeds, scores) if len(seeds) > 1 else ["–"] * len(scores)
        rows.append([title, of_paper, *of_first, str(len(seeds)), *means])
    of_seeds = (f"{point}, {which} round" for point in POINTS for which in ("last", "best"))
    return markdown(["", "printed", *(f"seed {FIRST}: {point}" for point in POINTS), "seeds", *of_seeds], rows)


def in_column(column: str) -> str:
    """A column of FedCoSR's Table II over 150 rounds: received models over the rounds, others at the end.

    Mean over clients and seeds, and the spread of scored models over clients, likewise over seeds.
    """
    numbers = printed("fedcosr", "table2")
    rows = []
    for title, seeds in by_reading(*COLUMNS[column]).items():
        received, trained, judged = (
            [accuracies(seed, point) for seed in seeds.values()] for point in (*POINTS, SCORED)
        )
        of_paper = decimals(numbers.get((title, *column.split(", ")[:2]), np.nan))
        scores = [[one.loc[number].mean() for one in received] for number in ROUNDS]
        scores.append([one.mean(axis=1).loc[1:].max() for one in received])
        scores += [[last(one.mean(axis=1)) for one in models] for models in (trained, judged)]
        scores.append([last(one.std(axis=1, ddof=0)) for one in judged])
        trust = [last(seed[seed["metric"] == "trust"].groupby("round")["value"].mean()) for seed in seeds.values()]
        rows.append([title, of_paper, str(len(seeds)), *map(over_seeds, [*scores, trust])])
    over_rounds = (f"received, round {number}" for number in ROUNDS)
    final = (f"{point}, last round" for point in ("trained", SCORED, f"{SCORED}, std. over clients", "mean τ"))
    return markdown(["", "printed", "seeds", *over_rounds, "received, best round", *final], rows)


def at_rates() -> str:
    """FedCoSR's CIFAR-10 at Dirichlet 0.1, seed 0, in ten rounds at two rates: means over clients."""
    found = list(cells(STUDIES / "rates/cells.tar.xz"))
    asked = [(ASSUMED, "received", number) for number in (1, 2, 5, 10)] + [(ASSUMED, "trained", 10)]
    asked += [(THIRD, point, 10) for point in POINTS]
    rows = []
    for title, reading in TABLE2.items():
        of_rate = {spec["training"]["lr"]: recorded for spec, recorded in found if is_reading(spec["method"], *reading)}
        if of_rate:
            scores = (
                accuracies(of_rate[rate], point).loc[number].mean() if rate in of_rate else np.nan
                for rate, point, number in asked
            )
            rows.append([title, *map(decimals, scores)])
    return markdown(["", *(f"rate {rate}: {point}, round {number}" for rate, point, number in asked)], rows)


def leads() -> str:
    """In the last round, a paper's own row less others, at each point, paired by seed.

    As on pages, only rows with all seeds of the own one tell what the variances of a column have in common.
    """
    rows = []
    for title, place in LEADS.items():
        own, seeds = title.split(",")[0], by_reading(*place)
        complete = {row: of_seeds for row, of_seeds in seeds.items() if of_seeds.keys() >= seeds[own].keys()}
        of_complete = at_the_end(complete)
        for other in (row for row in seeds if row != own):
            if common := len(seeds[own].keys() & seeds[other].keys()):
                scores = of_complete if other in complete else at_the_end({row: seeds[row] for row in (own, other)})
                differences = (with_interval(of_point.between(own, other)) for of_point in scores)
                rows.append([f"{own} over {other}{title.removeprefix(own)}", str(common), *differences])
    return markdown(["", "common seeds", *(f"{point}, last round" for point in (*POINTS, SCORED))], rows)


def at_the_end(seeds: Mapping[str, Mapping[int, pd.DataFrame]]) -> list[Scores]:
    """Means over clients in the last round, at each point."""
    return [scored(seeds, point, lambda curve: last(curve).mean()) for point in (*POINTS, SCORED)]


def by_phase() -> str:
    """FedSaC less pFedGraph in rounds with complementarity and in those after, paired by seed."""
    seeds = by_reading(*LEADS["FedSaC"])
    phases = {
        f"{point}, rounds {first} to {end}": scored(
            seeds, point, lambda curve, first=first, end=end: curve.loc[first:end].to_numpy().mean()
        )
        for first, end in PHASES
        for point in POINTS
    }
    rows = [
        [f"{own} over {other}", *(with_interval(of_phase.between(own, other)) for of_phase in phases.values())]
        for own, other in PAIRS
    ]
    return markdown(["", *phases], rows)


def of_signals() -> str:
    """FedCCL's Table 6 at scale long, on Fashion-MNIST: the global model, and those that clients have trained.

    Both on the common test images. Differences to the row without signals are paired by seed.
    """
    numbers, first, models = printed("fedccl", "table6-ablation"), next(iter(SIGNALS)), ("global", "trained")
    seeds = by_reading(FEDCCL, "Dirichlet 0.5, 10 clients", SIGNALS)
    final = scored(seeds, "global", lambda curve: curve.iloc[-SCORED_ROUNDS:].to_numpy().mean())
    rows = []
    for title, of_seeds in seeds.items():
        of_global, of_trained = (
            [accuracies(seed, point).mean(axis=1).loc[1:] for seed in of_seeds.values()] for point in models
        )
        scores = [[curve[number] for curve in of_global] for number in GLOBAL_ROUNDS]
        scores += [[curve.max() for curve in of_global], list(final.values.loc[title, list(of_seeds)])]
        scores.append([last(curve) for curve in of_trained])
        lead = DASH if title == first else with_interval(final.between(title, first))
        of_paper = decimals(numbers[title, "Fashion-MNIST", "Dirichlet 0.5"])
        rows.append([title, of_paper, str(len(of_seeds)), lead, *map(over_seeds, scores)])
    ends = f"last {SCORED_ROUNDS} rounds"
    rounds = (*(f"round {number}" for number in GLOBAL_ROUNDS), "best round", ends)
    header = ["", "printed", "seeds", f"{ends}, over the first row", *(f"global, {which}" for which in rounds)]
    return markdown([*header, "trained, last round"], rows)


def of_local() -> str:
    """FedCoSR's Local after some epochs of each client, mean ± population standard deviation over clients."""
    columns = ["Dirichlet 0.1", "2 classes"]
    rows = [row for run, (archive, epochs) in LOCAL.items() for row in of_epochs(run, curves(archive), epochs, columns)]
    means, spreads = (printed("fedcosr", "table2", metric) for metric in ("accuracy", "std_clients"))
    places = [("Local", "CIFAR-10", column) for column in columns]
    of_paper = [f"{means[place]:.2f} ± {spreads[place]:.2f}" for place in places]
    header = ["epochs of the run", "after", *columns, f"of 2 classes, below {AT_CHANCE:.0f} %"]
    return markdown(header, [*rows, ["printed (FedCoSR, Table II)", "", *of_paper, ""]])


def of_epochs(run: str, of_cells: Curves, epochs: Iterable[int], columns: Iterable[str]) -> Iterator[list[str]]:
    """One run's lines: what clients have after each of some epochs, and how many are at chance in the last column."""
    clients = [of_cells["local", f"{column}, 20 clients"] for column in columns]
    for epoch in epochs:
        scores = [of_clients.loc[epoch] for of_clients in clients]
        at_chance = (scores[-1] < AT_CHANCE).sum()
        yield [run, str(epoch), *map(with_spread, scores), str(at_chance)]


def with_spread(clients: pd.Series) -> str:
    """Mean and population standard deviation of clients."""
    return f"{clients.mean():.2f} ± {clients.std(ddof=0):.2f}"


TABLES = {
    "steps": at_equal_steps,
    "readings": in_readings,
    "contrast": partial(in_column, "CIFAR-100, 20 classes"),
    "dirichlet": partial(in_column, "CIFAR-10, Dirichlet 0.1"),
    "rates": at_rates,
    "third": partial(in_column, COLUMN_AT_THIRD),
    "leads": leads,
    "phases": by_phase,
    "signals": of_signals,
    "local": of_local,
}


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.long_runs", description=__doc__.partition("\n")[0])
    parser.add_argument("table", nargs="?", choices=TABLES, default="steps")
    print(TABLES[parser.parse_args().table]())


if __name__ == "__main__":
    main()
