"""The numbers that a paper prints, beside ours."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from fedgrid.analysis.papers import measured
from fedgrid.analysis.papers.measured import COORDINATES, DELTA, PRINTED_COLUMN
from fedgrid.analysis.prose import captions
from fedgrid.analysis.prose.footnotes import Footnotes
from fedgrid.analysis.prose.phrases import decimals, listing
from fedgrid.analysis.scores.domains import AVERAGE, EVERY, columns
from fedgrid.analysis.scores.results import DASH, Results
from fedgrid.analysis.tables.attacks import METRIC, WORDS
from fedgrid.analysis.tables.common.grid import Entry, Grid, Header
from fedgrid.analysis.tables.common.pivot import AVERAGED, header_of, without_number

ON_IMAGES = {name + METRIC: f"{words} (%)" for name, words in WORDS.items()}
"""Metric on clean images and under attack → its words."""
METRICS = {
    **{"accuracy": "Acc. (%)", "std_clients": "Std. over clients (%)", "rounds": "Rounds", "seconds": "Seconds"},
    **ON_IMAGES,
}
"""Metric → its words in a header."""
KEYS = {name: f"{name}_key" for name in ("data", "heterogeneity", "domain")}
"""Coordinate → the column with our own name for it."""
SIGNS = str.maketrans({"−": "-", ">": "", "+": "", "%": ""})
"""Characters that may surround a printed number."""


def join_printed_numbers(results: Results) -> pd.DataFrame:
    """One row a printed number, in the paper's order: its coordinates as printed, and ours beside it.

    Names of data sets and domains are joined whatever their case and hyphens.

    Columns beside those of the CSV file of printed numbers: `number` (corrected where there is a correction), `ours`,
    `ours_std_seeds`, `seeds`, `difference` (ours less printed) and `unjoined`: why there is no number of ours to set
    beside it, empty where there is or should be one. `data_key`, `heterogeneity_key` and `domain_key` are our names.
    """
    numbers = measured.over_seeds(measured.by_seed(results))
    known = Known(results, numbers)
    table = with_our_keys(results.published, known)
    positions = table.drop(columns=list(KEYS)).rename(columns={key: name for name, key in KEYS.items()})
    joined_numbers = numbers.reindex(pd.MultiIndex.from_frame(positions[COORDINATES])).reset_index(drop=True)
    table = with_averages(pd.concat([table, joined_numbers], axis=1))
    table["difference"] = table["ours"] - table["number"]
    table["unjoined"] = [
        "" if not np.isnan(entry["ours"]) and not np.isnan(entry["number"]) else known.why_unjoined(entry)
        for entry in table.to_dict("records")
    ]
    return table


def with_averages(table: pd.DataFrame) -> pd.DataFrame:
    """Our mean over rows as the row Averaged, where each row that the paper prints in a column has one of ours."""
    averaged = table["row"] == AVERAGED
    of_rows = table["ours"].mask(averaged)
    columns = [table[name] for name in (*KEYS.values(), "metric")]
    known = of_rows.notna() | averaged
    complete = known.groupby(columns, dropna=False).transform("all")
    means = of_rows.groupby(columns, dropna=False).transform("mean")
    return table.assign(ours=table["ours"].mask(averaged, means.where(complete)))


def with_our_keys(printed: Sequence[Mapping[str, str]], known: "Known") -> pd.DataFrame:
    """Printed numbers with `number`, `data_key`, `heterogeneity_key` and `domain_key`, as in `join_printed_numbers`."""
    table, results = pd.DataFrame(printed), known.results
    table["number"] = [number(entry) for entry in printed]
    study = results.study
    titles = {letters(title): label for label in study.data for title in (label, results.title(label))}
    names = {word: label for label, names in study.heterogeneity.items() for word in (label, names)}
    table["data_key"] = table["data"].map(letters).map(titles)
    table["heterogeneity_key"] = table["heterogeneity"].map(names)
    table["domain_key"] = [known.domain(entry) for entry in table.to_dict("records")]
    return table


def on_data(results: Results, data: str) -> pd.DataFrame:
    """The rows of `join_printed_numbers` on one data set that are of all clients, or of the mean over domains."""
    table = join_printed_numbers(results)
    return table[(table["data_key"] == data) & table["domain_key"].isin([EVERY, AVERAGE])]


def number(entry: Mapping[str, str]) -> float:
    """The number that counts: the correction where there is one; NaN for a text that is not a number."""
    try:
        return float((entry["corrected"] or entry["value"]).translate(SIGNS))
    except ValueError:
        return float("nan")


class Known:
    """What printed numbers may be joined to."""

    def __init__(self, results: Results, numbers: pd.DataFrame | None = None):
        """`numbers` are those of `measured.over_seeds`, for the phases that were timed."""
        self.results = results
        self.domains: dict[tuple[str, str], set[str]] = {column: {EVERY} for column in results.columns}
        for data, heterogeneity, domain in columns(results, domains=True):
            self.domains[data, heterogeneity].add(domain)
        shown = {table.kind for table in results.study.shown("table")}
        self.metrics = {"accuracy", "std_clients", *({"rounds"} & shown), *({"seconds"} if "phases" in shown else ())}
        self.metrics |= set(ON_IMAGES) if "attacks" in shown else set()
        index = [] if numbers is None else numbers.index
        self.timed = {row for row, *_, metric in index if metric == "seconds"}
        self.computed = {cell.column for cell in results.finished}

    def domain(self, entry: Mapping[str, Any]) -> str:
        """Our name for a printed domain, whatever its case and hyphens; the printed one where we have none like it.

        A mean over domains is that over all clients where these have no domains.
        """
        column = entry["data_key"], entry["heterogeneity_key"]
        names = {letters(name): name for name in self.domains.get(column, ())}
        if column in self.computed and AVERAGE not in names:
            names[AVERAGE] = EVERY
        as_printed: str = entry["domain"]
        return names.get(letters(as_printed), as_printed)

    def why_unjoined(self, entry: Mapping[str, Any]) -> str:
        """The coordinate of a printed number that our study lacks; empty where only results are missing."""
        if np.isnan(entry["number"]):
            return f"'{entry['value']}' is no number"
        if entry["metric"] not in self.metrics and not measured.compared_with(self.results, entry["metric"]):
            return f"{entry['metric'] or 'a number without a metric'} is not measured here"
        for name in ("data", "heterogeneity"):
            if not isinstance(entry[KEYS[name]], str):
                return f"there is no {name} '{entry[name]}' here"
        column = entry["data_key"], entry["heterogeneity_key"]
        if column not in self.domains:
            return f"{entry['data']} was not run with {entry['heterogeneity']}"
        if entry["row"] == AVERAGED and column in self.computed:
            return "a mean over rows needs a number of ours for each of them"
        rows = self.timed if entry["metric"] == "seconds" else {*self.results.names.values(), AVERAGED}
        if entry["row"] not in rows:
            return f"there is no row '{entry['row']}' here"
        if column in self.computed and entry["domain_key"] not in self.domains[column]:
            return f"{entry['data']} has no domain '{entry['domain']}' here"
        return ""


def letters(name: str) -> str:
    """A name without its case, spaces and hyphens."""
    return "".join(filter(str.isalnum, name.casefold()))


def printed_table(results: Results, table: pd.DataFrame) -> tuple[pd.DataFrame, Grid]:
    """`join_printed_numbers` to write, and as a table: for each column what is printed, ours, and the difference."""
    comparable = table[table["unjoined"] == ""]
    statuses = measured.statuses(results).reset_index()
    notes = Footnotes(results, statuses)
    status = statuses.set_index(["label", "data", "heterogeneity"])["status"].to_dict()
    labels = {name: label for label, name in results.names.items()}
    entries = {(entry["row"], *column_of(entry)): entry for entry in comparable.to_dict("records")}
    columns_shown = ordered(results, comparable)
    order = [*results.names.values(), *comparable["row"], AVERAGED]
    rows = []
    for name in sorted(dict.fromkeys(comparable["row"]), key=order.index):
        cells = []
        for column in columns_shown:
            row = labels.get(name, "")
            word = without_number(status.get((row, *column[:2]), "missing"), notes.letter(row, *column[:2]))
            cells += printed_and_ours(entries.get((name, *column)), word, notes)
        rows.append((name, cells))
    header = heads(results, columns_shown, ["printed", "ours", "difference"])
    grid = Grid(caption(results, table), "Method", header, rows, notes.texts)
    return table.drop(columns=list(KEYS.values())), grid


def heads(results: Results, columns_shown: Sequence[tuple[str, str, str, str]], numbers: Sequence[str]) -> Header:
    """The header of a table with these `numbers`, such as printed and ours, in each column."""
    return header_of(results, [(*column, metric_words(results, metric)) for *column, metric in columns_shown], numbers)


def column_of(entry: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """The column of a printed number, by our names."""
    return entry["data_key"], entry["heterogeneity_key"], entry["domain_key"], entry["metric"]


def ordered(results: Results, table: pd.DataFrame) -> list[tuple[str, str, str, str]]:
    """The columns of joined numbers in study order; domains and metrics as the paper has them."""
    columns = list(dict.fromkeys(map(column_of, table.to_dict("records"))))
    return sorted(columns, key=lambda column: results.columns.index(column[:2]))


def metric_words(results: Results, metric: str) -> str:
    """A metric in a header."""
    label = measured.compared_with(results, metric)
    return f"Δ to {results.names[label]} (points)" if label else METRICS.get(metric, metric)


def printed_and_ours(entry: Mapping[str, Any] | None, word: Entry, notes: Footnotes) -> list[Entry]:
    """Printed number, ours and the difference; `word` where we have none, dashes where none is printed."""
    if entry is None:
        return [Entry()] * 3
    mark = captions.RANK_MARKS.get(int(entry["rank"]), "") if entry["rank"].isdigit() else ""
    corrected = notes.add(f"Printed as {entry['value']}.") if entry["corrected"] else ""
    first = Entry(entry["corrected"] or entry["value"], mark, corrected)
    if np.isnan(entry["ours"]):
        return [first, word, Entry()]
    return [first, Entry(our_number(entry, entry["metric"])), Entry(text(entry["difference"], signed=True))]


def our_number(entry: Mapping[str, Any], metric: str) -> str:
    """Our mean of a metric with its spread over seeds, from an entry of `measured.over_seeds`."""
    spread = "" if np.isnan(entry["ours_std_seeds"]) else f" ± {entry['ours_std_seeds']:.2f}"
    return text(entry["ours"], signed=metric.startswith(DELTA)) + spread


def text(value: float, signed: bool = False) -> str:
    """A number with two decimals; infinite is a number of rounds that was not reached."""
    if np.isinf(value):
        return DASH if signed else "not reached"
    return decimals(value, signed)


def caption(results: Results, table: pd.DataFrame) -> str:
    """What was joined with what, and what could not be joined."""
    source = f" ({results.study.source})" if results.study.source else ""
    sentences = [
        f"{captions.lead(results)}: numbers that the paper prints{source} beside ours, over {captions.seeds(results)}.",
        "Ours: mean ± sample standard deviation over seeds; rounds: median. Difference: ours less printed.",
        f"{', '.join(captions.RANK_MARKS.values())}: ranks as the paper marks them.",
        *unjoined(table),
    ]
    return " ".join(sentences)


def unjoined(table: pd.DataFrame) -> list[str]:
    """A sentence on the printed numbers that have no counterpart, by reason."""
    groups = table[table["unjoined"] != ""].groupby("unjoined", sort=False)
    if not len(groups):
        return []
    sentences = [f"{why}: {listing(map(coordinates, part.to_dict('records')))}" for why, part in groups]
    return [f"Printed, but not reproduced here: {'; '.join(sentences)}."]


def coordinates(entry: Mapping[str, str]) -> str:
    """The value of a printed number and what names it."""
    named = ", ".join(filter(None, [entry[name] for name in ("row", *PRINTED_COLUMN)]))
    return f"{entry['value']} ({named})"
