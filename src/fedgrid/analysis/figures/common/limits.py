"""Where the axis of accuracy starts and ends in each panel: around the lines, not at zero."""

from collections.abc import Collection, Iterable, Mapping
from math import ceil, floor, inf, log10

import pandas as pd

from fedgrid.analysis.prose.phrases import listing

Limits = dict[str, tuple[float, float]]
"""The lowest and highest accuracy in percent that a panel shows."""
LATE = 0.5
"""Share of a curve's points, the last ones, that are always shown."""
FLAT = 0.5
"""Earlier points are cut off where the later ones take less than this part of the axis."""
BUNCH, APART = 2 / 3, 1.5
"""Share of rows that make a bunch; a row is far below that ends below it by more than so many times its width."""
MANY = 0.5
"""A row is cut off that is far below in at least this part of its panels, so that panels show the same rows."""
FEWEST = 5
"""Rows among which there may be a bunch."""
COMPARABLE = 0.6
"""Panels share an axis where the narrowest needs at least this part of it."""
STEPS = 10
"""An axis starts at a multiple of about this part of its length."""
MARGIN = 0.04
NEAR_ZERO = 0.2
"""An axis starts at zero whose lowest accuracy is less than this part of the highest one."""


def limits(
    table: pd.DataFrame,
    panels: Iterable[str],
    curves: bool,
    shown: Collection[str] = (),
    printed: pd.DataFrame | None = None,
) -> Limits:
    """The limits of the `panels` of a `table` as in `lines.panelled`; equal ones where panels can share an axis.

    Of `curves`, which rise from low accuracies, the part that is shown begins where most of the later points lie;
    lines of `shown` rows are never cut off. `printed` (columns `panel`, `number`) are numbers to show beside them.
    """
    parts = {panel: table[table["panel"] == panel] for panel in panels}
    near = {*shown, *bunched(parts.values())} if curves else set()
    ranges = {panel: visible(part, curves, near) for panel, part in parts.items()}
    ranges = {panel: span for panel, span in ranges.items() if span[0] <= span[1]}
    for entry in () if printed is None else printed.to_dict("records"):
        low, high = ranges.get(entry["panel"], (inf, -inf))
        ranges[entry["panel"]] = min(low, entry["number"]), max(high, entry["number"])
    if not ranges:
        return {}
    union = min(low for low, _ in ranges.values()), max(high for _, high in ranges.values())
    if min(high - low for low, high in ranges.values()) >= COMPARABLE * (union[1] - union[0]):
        return dict.fromkeys(parts, rounded(*union))
    return {panel: rounded(*span) for panel, span in ranges.items()}


def visible(lines: pd.DataFrame, curves: bool, near: Collection[str]) -> tuple[float, float]:
    """The lowest and highest accuracy of one panel that are shown, with bands; of `curves`, later points of `near`."""
    lines = lines[lines["mean"].notna()]
    low, high = lines["low"].min(), lines["high"].max()
    if curves and len(lines):
        from_last = lines.groupby("label").cumcount(ascending=False)
        points = lines.groupby("label")["x"].transform("size")
        late = lines[(from_last < LATE * points) & lines["label"].isin(near)]
        if high - late["low"].min() < FLAT * (high - low):
            low = late["low"].min()
    return float(low), float(high)


def ends(lines: pd.DataFrame) -> pd.Series:
    """The last mean of every line of one panel, by label."""
    return lines[lines["mean"].notna()].groupby("label", sort=False)["mean"].last()


def bunched(panels: Iterable[pd.DataFrame]) -> list[str]:
    """The labels of all lines but those that end far below most others in many panels."""
    last = [ends(lines) for lines in panels]
    near = [label for values in last for label in bunch(values)]
    everywhere = [label for values in last for label in values.index]
    return [label for label in dict.fromkeys(near) if near.count(label) > (1 - MANY) * everywhere.count(label)]


def bunch(last: pd.Series) -> list[str]:
    """The labels of the lines of one panel, by their `last` means, that do not end far below most others."""
    if len(last) < FEWEST:
        return list(last.index)
    ordered = last.sort_values(ascending=False)
    top, bottom = ordered.iloc[0], ordered.iloc[ceil(BUNCH * len(ordered)) - 1]
    return list(ordered.index[ordered >= bottom - APART * (top - bottom)])


def rounded(low: float, high: float) -> tuple[float, float]:
    """Limits around two accuracies, of which the lower one is a round number, and none is below zero."""
    if low < NEAR_ZERO * high:
        return 0.0, high * (1 + MARGIN)
    length = max(high - low, 0.1)
    decade = 10 ** floor(log10(length / STEPS))
    step = max(factor * decade for factor in (1, 2, 5) if factor * decade <= length / STEPS * (1 + 1e-9))
    return max(0.0, round(floor((low - MARGIN * length) / step) * step, 6)), high + MARGIN * length


def cut_off(table: pd.DataFrame, panel_limits: Limits) -> dict[str, dict[str, float]]:
    """By panel, the lines that end below its axis, with the accuracy at their end."""
    last = {panel: ends(table[table["panel"] == panel]) for panel in panel_limits}
    return {panel: last[panel][last[panel] < low].to_dict() for panel, (low, _) in panel_limits.items()}


def seen(table: pd.DataFrame, panel_limits: Limits) -> set[str]:
    """The labels of the lines of which some panel shows a point."""
    points = zip(table["panel"], table["label"], table["mean"], strict=True)
    return {label for panel, label, mean in points if mean >= panel_limits.get(panel, (-inf, inf))[0]}


def sentences(table: pd.DataFrame, panel_limits: Limits, names: Mapping[str, str]) -> list[str]:
    """Where the axes start, that earlier points lie below, and which lines do so to their end."""
    starts = {panel: low for panel, (low, _) in panel_limits.items()}
    if not any(starts.values()):
        return []
    if len(set(panel_limits.values())) == 1:
        where = f"The axis starts at {next(iter(starts.values())):g} %, not at zero"
    else:
        where = f"Panels have axes of their own, which start at {listing(f'{low:g}' for low in starts.values())} %"
    below = cut_off(table, panel_limits)
    ended = [label in below.get(panel, {}) for panel, label in zip(table["panel"], table["label"], strict=True)]
    early = (table["mean"] < table["panel"].map(starts)) & ~pd.Series(ended, index=table.index)
    lost = [f"{names[label]} {value:.2f} %" for lines in below.values() for label, value in lines.items()]
    if len(panel_limits) > 1 and lost:
        lost_text = "Lines that end below the axis are named in their panel, with their last accuracy."
    else:
        lost_text = f"Below the axis to their end: {listing(lost)}." if lost else ""
    return [f"{where}{'; earlier points of some lines lie below' if early.any() else ''}.", *filter(None, [lost_text])]
