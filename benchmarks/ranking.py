"""A finished study of one column as a page of Markdown: its rows from the best to the last, with rates and traffic.

python -m benchmarks.ranking results/methods benchmarks/results/methods/digits.md
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from benchmarks.markdown import table as markdown
from fedgrid.analysis.prose.captions import seeds
from fedgrid.analysis.prose.duplicate_rows import duplicates
from fedgrid.analysis.scores.results import Results, load
from fedgrid.analysis.scores.summary import cell_scores, summary

HEADER = ["", "method", "scored", "accuracy (%)", "std. over clients (%)", "chosen", "KiB up", "KiB down"]
CHOSEN = "chosen"
"""The outcome of the settings that a search took."""


def page(folder: Path) -> str:
    """The page of the study whose results and tables are in `folder`."""
    results = load(folder / "results.parquet")
    scores = summary(results)
    table = pd.DataFrame(rows(results, scores, folder / "tables"), columns=HEADER)
    table = table.loc[:, (table != "").any()]
    sentences = [
        f"# {results.study.title}",
        f"Accuracy after the last round over {seeds(results)}: mean over clients, then mean ± sample standard "
        "deviation over seeds. Scored: the model that the method's paper reports. KiB: per client and round.",
        markdown(list(table.columns), table.to_numpy().tolist()),
        *duplicates(results, cell_scores(results), scores),
    ]
    return "\n\n".join(sentences) + "\n"


def rows(results: Results, scores: pd.DataFrame, tables: Path) -> Iterator[list[str]]:
    """The rows with an accuracy, the highest first; `chosen` is empty where nothing was searched."""
    costs = pd.read_csv(tables / "costs.csv").set_index("label")
    chosen: dict[str, str] = {}
    if (tables / "search.csv").is_file():
        search = pd.read_csv(tables / "search.csv").set_index("label")
        chosen = search[search["outcome"].fillna("").str.startswith(CHOSEN)]["settings"].to_dict()
    ranked = scores[scores["accuracy"].notna()].sort_values("accuracy", ascending=False)
    for place, entry in enumerate(ranked.to_dict("records"), 1):
        cost = costs.loc[entry["label"]]
        yield [
            str(place),
            results.names[entry["label"]],
            entry["score"].removeprefix("accuracy_"),
            f"{100 * entry['accuracy']:.2f} ± {100 * entry['accuracy_std_seeds']:.2f}",
            f"{100 * entry['std_clients']:.2f}",
            chosen.get(entry["label"], ""),
            *(f"{cost[name]:,.1f}" for name in ("kib_up", "kib_down")),
        ]


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ranking", description=__doc__.partition("\n")[0])
    parser.add_argument("results", type=Path, help="folder of the study's results")
    parser.add_argument("out", type=Path, help="page to write")
    arguments = parser.parse_args()
    arguments.out.write_text(page(arguments.results), encoding="utf-8")


if __name__ == "__main__":
    main()
