"""Accuracy of each client as bars, with the scarce clients marked."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from fedgrid.analysis.figures.common.palette import COLOURS, SKY
from fedgrid.analysis.figures.common.style import ABOVE, WHISKERS, Drawn
from fedgrid.analysis.figures.curves import entries_of
from fedgrid.analysis.kinds import FigureOptions
from fedgrid.analysis.papers.published import on_data
from fedgrid.analysis.prose import captions, figure_captions
from fedgrid.analysis.prose.phrases import percent
from fedgrid.analysis.scores.results import ROW, Results
from fedgrid.analysis.scores.summary import SCORED, cell_scores, client_scores, summary

STEP, NARROWEST, WIDEST = 0.2, 3.6, 9.0
"""From one client to the next, and the narrowest and widest panel, in inches."""
HEIGHT = 1.1
"""Of a panel, in inches."""
OTHERS, SCARCE = SKY, COLOURS[1]
HATCH = "////"


class Options(FigureOptions):
    """There is nothing to choose."""


def draw_figure(results: Results, options: Options, data: str) -> Drawn:
    """One panel a row and heterogeneity of `data`, one bar a client; return the figure, its title and its caption.

    A line is the mean over clients. A row without a score keeps its panel, with its status in it. Raises `UserError`
    when the study has no such data set.
    """
    columns = results.heterogeneities(data)
    clients = client_scores(results)[0]
    clients = clients[clients["data"] == data]
    number = int(clients["client"].max()) + 1 if len(clients) else 1
    width = float(np.clip(STEP * number, NARROWEST, WIDEST))
    size = (width * len(columns) + 0.8, HEIGHT * len(results.names) + 1.0)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(len(results.names), len(columns), sharex=True, sharey=True, squeeze=False)
    entries, paper = summary(results).set_index(ROW), printed_scores(results, data)
    for (label, name), across in zip(results.names.items(), grid, strict=True):
        for heterogeneity, ax in zip(columns, across, strict=True):
            there = clients[(clients["label"] == label) & (clients["heterogeneity"] == heterogeneity)]
            few = scarce(results, data, heterogeneity)
            draw_panel(ax, name, entries.loc[label, data, heterogeneity], there, few)
            add_to_title(ax, paper.get((name, heterogeneity), ""))
    for heterogeneity, ax in zip(columns, grid[0], strict=True):
        ax.annotate(results.heterogeneity_title(heterogeneity), (0.5, 1), (0, 18), xycoords="axes fraction", **ABOVE)
    for ax in grid[-1]:
        ax.set(xlabel="Client", xlim=(-0.6, number - 0.4), ylim=(0, 105), yticks=[0, 50, 100])
        ax.xaxis.set_major_locator(MaxNLocator(20, integer=True, steps=[1, 2, 5, 10]))
    figure.supylabel("Test accuracy (%)", fontsize="medium")
    marked = [heterogeneity for heterogeneity in columns if scarce(results, data, heterogeneity)]
    if marked:
        handles = [Patch(color=OTHERS, label="client"), Patch(facecolor=SCARCE, hatch=HATCH, label="scarce client")]
        figure.legend(handles=handles, loc="outside lower center", ncols=2)
    return figure, f"Accuracy of each client on {results.title(data)}", caption(results, data, marked)


def draw_panel(ax: Axes, name: str, entry: pd.Series, clients: pd.DataFrame, few: Sequence[int]) -> None:
    """Draw the clients of one entry, whose row of `scores.summary` this is, or the word why it has no score."""
    ax.set_title(name, loc="left", fontsize="medium")
    if entry["status"] not in SCORED:
        ax.text(0.5, 0.5, entry["status"], transform=ax.transAxes, ha="center", va="center")
        return
    draw_clients(ax, clients, few)
    add_to_title(ax, f": {percent(entry['accuracy'])} ± {percent(entry['std_clients'])}")


def add_to_title(ax: Axes, text: str) -> None:
    """Add to the title of a panel."""
    ax.set_title(ax.get_title(loc="left") + text, loc="left", fontsize="medium")


def printed_scores(results: Results, data: str) -> dict[tuple[str, str], str]:
    """By name of the row and heterogeneity, the mean and standard deviation over clients that the paper prints."""
    if not results.published:
        return {}
    table = on_data(results, data)
    texts: dict[tuple[str, str], list[str]] = {}
    for metric, sign in (("accuracy", ""), ("std_clients", "± ")):
        for entry in table[table["metric"] == metric].to_dict("records"):
            position = entry["row"], entry["heterogeneity_key"]
            texts.setdefault(position, []).append(sign + (entry["corrected"] or entry["value"]))
    return {position: f" (printed: {' '.join(parts)})" for position, parts in texts.items()}


def scarce(results: Results, data: str, heterogeneity: str) -> Sequence[int]:
    """The clients that keep only a part of their data, where others keep all."""
    settings = results.study.partitions.get(data, {}).get(heterogeneity, {})
    if not settings.get("scarce") or settings.get("keep_fraction", 1) >= 1:
        return []
    return range(settings["clients"] - settings["scarce"], settings["clients"])


def draw_clients(ax: Axes, clients: pd.DataFrame, marked: Sequence[int]) -> None:
    """Draw the mean over seeds of each client, its lowest and highest seed, and the mean over all as a line."""
    by_client = clients.groupby("client")["accuracy"].agg(["mean", "min", "max"]) * 100
    for few, colour, hatch in ((False, OTHERS, None), (True, SCARCE, HATCH)):
        part = by_client[by_client.index.isin(list(marked)) == few]
        ax.bar(part.index, part["mean"], 0.8, linewidth=0, facecolor=colour, hatch=hatch)
    varying = by_client[by_client["max"] > by_client["min"]]
    reach = [varying["mean"] - varying["min"], varying["max"] - varying["mean"]]
    ax.errorbar(varying.index, varying["mean"], reach, elinewidth=0.8, capsize=1.5, **WHISKERS)
    if len(by_client):
        ax.axhline(by_client["mean"].mean(), color="black", lw=1, ls=(0, (4, 2)))
    ax.grid(axis="x", visible=False)


def caption(results: Results, data: str, marked: Sequence[str]) -> str:
    """What the bars are, and which clients are scarce."""
    sentences = [
        f"{captions.lead(results)}: test accuracy of each client on {results.title(data)}.",
        f"{figure_captions.marks(results, 'Bars')}; dashed: the mean over clients. "
        "Above each panel: mean ± standard deviation over clients, in percent.",
        *(scarce_sentence(results, data, heterogeneity) for heterogeneity in marked),
        *figure_captions.missing_cells(results, entries_of(results, data)),
    ]
    scores = cell_scores(results).merge(entries_of(results, data)[ROW], on=ROW)
    protocol = [figure_captions.scored_on(results, data), captions.counted_rounds(results, scores)]
    return figure_captions.in_two(sentences, protocol)


def scarce_sentence(results: Results, data: str, heterogeneity: str) -> str:
    """Which clients of a heterogeneity are scarce, and how much they keep."""
    few = scarce(results, data, heterogeneity)
    who = f"clients {few[0]} to {few[-1]}" if len(few) > 1 else f"client {few[0]}"
    share = results.study.partitions[data][heterogeneity]["keep_fraction"]
    where = f" ({results.heterogeneity_title(heterogeneity)})" if len(results.heterogeneities(data)) > 1 else ""
    verb, whose = ("keep", "their") if len(few) > 1 else ("keeps", "its")
    return f"Hatched: {who}, counted from 0, which {verb} {share:.0%} of {whose} data{where}."
