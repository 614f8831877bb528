"""Which lines a figure is about: rows that the paper claims to lead, with their strongest rival, or the user's own."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from matplotlib.figure import Figure

from fedgrid.analysis.figures.common.palette import COLOURS, MUTED, line_styles
from fedgrid.analysis.prose import figure_captions
from fedgrid.analysis.scores.results import Results
from fedgrid.analysis.scores.summary import cell_scores

THIN, THICK = {"lw": 1.4, "zorder": 2}, {"lw": 2.8, "zorder": 3, "linestyle": "-"}
"""Of most lines, and of those that are claimed to lead or are the user's own."""
MOST_BANDS = 8
"""Lines in colour of one figure that have bands: those of more would cover each other."""
FAINT = {"lw": 1.1, "zorder": 1.5}
"""Of lines in grey."""


@dataclass(frozen=True)
class Emphasis:
    """What stands out among the lines of a figure; nothing does where nothing is claimed and no method is one's own."""

    thick: list[str] = field(default_factory=list)
    "Lines that are claimed to lead, or the user's own."
    rival: str = ""
    "The strongest other line, or none."
    muted: bool = False
    "Whether the others are grey."

    @property
    def lines(self) -> list[str]:
        """The lines that stand out."""
        return [*self.thick, *filter(None, [self.rival])]

    def has_bands(self, drawn: Iterable[str]) -> bool:
        """Whether the lines that are in colour have bands, of different lines `drawn`."""
        return len({*(self.lines if self.muted else drawn)}) <= MOST_BANDS

    def sentences(self, names: Mapping[str, str]) -> list[str]:
        """What is in colour, where the rest is grey."""
        rival = f" and {names[self.rival]}, the strongest other row by mean accuracy" if self.rival else ""
        return [f"In colour: what is claimed to lead{rival}; the rest is grey."] if self.muted else []

    def styles(self, names: Collection[str]) -> dict[str, dict[str, Any]]:
        """The look of every line, of all `names`."""
        styles = line_styles(names)
        for label, style in styles.items():
            style |= THICK if label in self.thick else THIN
            if self.muted and label not in self.lines:
                style |= FAINT | {"color": MUTED}
        if self.muted:
            taken: set[str] = set()
            for label in self.lines:  # of few lines in colour, no two have the same one
                free = [colour for colour in COLOURS if colour not in taken]
                if styles[label]["color"] in taken and free:
                    styles[label]["color"] = free[0]
                taken.add(styles[label]["color"])
        return styles


def emphasis(results: Results, data: str, drawn: Collection[str], colours: bool) -> Emphasis:
    """What stands out among the rows `drawn` of data set `data`; with `colours`, the other lines keep theirs."""
    thick = figure_captions.thick(results, drawn)
    others = [label for label in drawn if label not in thick]
    if not thick or not figure_captions.claimed(results):
        return Emphasis(thick)
    return Emphasis(thick, strongest(results, data, others), muted=len(others) > 1 and not colours)


def strongest(results: Results, data: str, rows: Collection[str]) -> str:
    """Of some rows, the one with scores in most heterogeneities and the highest mean accuracy; none of none."""
    scores = cell_scores(results)
    scores = scores[(scores["data"] == data) & scores["label"].isin(rows) & (scores["status"] == "ok")]
    means = scores.groupby(["label", "heterogeneity"])["accuracy"].mean().groupby("label").agg(["count", "mean"])
    return str(means.sort_values(["count", "mean"]).index[-1]) if len(means) else ""


def has_muted(figure: Figure) -> bool:
    """Whether some lines of a figure are grey."""
    return any(line.get_color() == MUTED for ax in figure.axes for line in ax.lines)
