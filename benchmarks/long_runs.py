"""What long cells came to, as tables of Markdown: benchmarks/results/papers has them, and a test compares.

python -m benchmarks.long_runs            FedSaC's Table 5: FedSaC and Local after as many steps a client
python -m benchmarks.long_runs local      FedCoSR's Local by epochs, beside what is printed
"""

import argparse
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.markdown import table as markdown
from benchmarks.papers import ARCHIVES
from fedgrid.files import read_table

CELLS_OF_LOCAL = Path("benchmarks/results/papers/local/cells.tar.xz")
SIZED = "table5-large-scale"
"""FedSaC's experiment with 50 and with 100 clients, of whom `DRAWN` train in a round; Local trains all in each."""
DRAWN = 10
PARTITIONS = ("homogeneous", "Dirichlet 0.5", "Dirichlet 0.1", "20 classes")
EARLY = 12
"""The rounds of scale small."""
EPOCHS = (5, 10, 15, 20)

Curves = dict[tuple[str, str], pd.DataFrame]
"""(method, heterogeneity as papers name it) → accuracies in % of the clients that are scored, by round and client."""


def curves(archive: Path) -> Curves:
    """The curves of the cells in an archive, after local training."""
    of_cells: Curves = {}
    with tempfile.TemporaryDirectory() as folder, tarfile.open(archive) as cells:
        cells.extractall(folder, filter="data")
        for file in sorted(Path(folder).rglob("s*.parquet")):
            table, about = read_table(file)
            rows = table.to_pandas()
            trained = rows[rows["metric"] == "accuracy_trained"]
            accuracy = 100 * trained.pivot(index="round", columns="client", values="value")
            of_cells[about["spec"]["method"]["name"], named(about["spec"]["partition"])] = accuracy
    return of_cells


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


def at_equal_steps() -> str:
    """FedSaC's Table 5 at scale long: a column a line, FedSaC over the clients that trained last, Local over all."""
    cells, numbers = curves(ARCHIVES / f"long/fedsac/{SIZED}.tar.xz"), printed("fedsac", SIZED)
    rows = []
    for clients in (50, 100):
        for heterogeneity in (f"{name}, {clients} clients" for name in PARTITIONS):
            means = {name: cells[name, heterogeneity].mean(axis=1) for name in ("fedsac", "local")}
            last = means["fedsac"].index[-1]
            ours = means["fedsac"][EARLY], means["fedsac"][last], means["local"][last * DRAWN // clients]
            of_paper = (numbers[row, "CIFAR-100", heterogeneity] for row in ("FedSaC", "Local"))
            rows.append([heterogeneity, *(f"{value:.2f}" for value in (*of_paper, *ours, means["local"][last]))])
    rounds = f"{last} rounds"
    header = ["", "printed: FedSaC", "Local", f"FedSaC, {EARLY} rounds", f"FedSaC, {rounds}"]
    return markdown([*header, "Local, as many steps a client", f"Local, {rounds}"], rows)


def of_local() -> str:
    """FedCoSR's Local after some epochs of each client, mean ± population standard deviation over clients."""
    cells, columns = curves(CELLS_OF_LOCAL), ["Dirichlet 0.1", "2 classes"]
    accuracies = [cells["local", f"{column}, 20 clients"] for column in columns]
    rows = [[str(epoch), *(with_spread(of_clients.loc[epoch]) for of_clients in accuracies)] for epoch in EPOCHS]
    means, spreads = (printed("fedcosr", "table2", metric) for metric in ("accuracy", "std_clients"))
    places = [("Local", "CIFAR-10", column) for column in columns]
    of_paper = [f"{means[place]:.2f} ± {spreads[place]:.2f}" for place in places]
    return markdown(["epochs of each client", *columns], [*rows, ["printed (FedCoSR, Table II)", *of_paper]])


def with_spread(clients: pd.Series) -> str:
    """Mean and population standard deviation of clients."""
    return f"{clients.mean():.2f} ± {clients.std(ddof=0):.2f}"


TABLES = {"steps": at_equal_steps, "local": of_local}


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.long_runs", description=__doc__.partition("\n")[0])
    parser.add_argument("table", nargs="?", choices=TABLES, default="steps")
    print(TABLES[parser.parse_args().table]())


if __name__ == "__main__":
    main()
