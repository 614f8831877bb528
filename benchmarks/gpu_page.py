"""The page of `benchmarks.gpu`, made of its table: ``python -m benchmarks.gpu_page TABLE.csv``."""

import csv
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import median

from benchmarks.convolutions import BATCH, LAYERS, LOWERINGS, PASSES, SIDE
from benchmarks.markdown import spread, table

Row = dict[str, str]
COUNTED = ("launches", "kernels", "to_device", "to_host", "on_device", "synchronisations")
PARTS = ("train", "server", "evaluate")
"Of a round."
NOT_IN_TRAINING = ("first", "input_gradient")
"A layer, and its pass that nothing asks for."
TOLERANCE = 1e-9
"Relative difference that is rounding in float64."


def write(file: Path) -> Path:
    """Writes the page beside the table."""
    with file.open(newline="", encoding="utf-8") as opened:
        rows = list(csv.DictReader(opened))
    page = file.with_suffix(".md")
    page.write_text("\n\n".join(paragraphs(rows)) + "\n", encoding="utf-8")
    return page


def paragraphs(rows: list[Row]) -> Iterator[str]:
    """The page, in the order in which it is read."""
    machine = {row["name"]: row["value"] for row in of(rows, "machine")}
    gpu = machine["card"] != "no GPU"
    yield f"# One card: {machine['card'] if gpu else 'no GPU, but ' + machine['processor']}"
    without = "" if gpu else " where there is **no GPU**: all numbers are the processor's"
    yield f"Written by `make bench-gpu`{without}."
    yield table(("what", "version or name"), machine.items())
    yield from correct(of(rows, "correct"))
    yield from timed([row for row in rows if row["section"].startswith("seconds")])
    yield from convolutions(of(rows, "convolutions"))
    yield from launches(of(rows, "launches"), gpu)
    yield from cells(of(rows, "cells"))


def correct(rows: list[Row]) -> Iterator[str]:
    yield "## Are its numbers the processor's?"
    compared = [row for row in rows if row["difference"]]
    wrong = [row for row in compared if not float(row["difference"]) <= TOLERANCE]
    yield (
        f"{len(compared) - len(wrong)} of {len(rows)} agree to {TOLERANCE:g} of a tensor's largest number: a method "
        "with an executor, for two rounds of four clients in float64, in all that it keeps and all that is recorded. "
        "What they are compared with is the processor's loop."
    )
    if compared:
        worst = max(compared, key=lambda row: float(row["difference"]))
        which = " with ".join(what(worst))
        yield f"The largest difference is {float(worst['difference']):.1e}, of {which}."
    message = [(*what(row), f"differs by {float(row['difference']):.1e}") for row in wrong]
    yield from failures(rows, message)


def timed(rows: list[Row]) -> Iterator[str]:
    yield "## Seconds a round"
    yield (
        "Two-block CNN on 32×32×3, batch 16, drawn images by Dirichlet 0.1, three quarters of them for training. The "
        "median of repeats, in brackets the smallest and the largest, after a round that warms up, and the medians of "
        "its parts: clients, server, and the evaluation of two models. *Plain* is `benchmarks/plain.py`, which sends "
        "every batch; it knows no FedSaC, and its server is part of the clients' time. "
        "*Memory* is the most that a process has held: of a GPU's own, or of the machine's where there is none."
    )
    groups = grouped([row for row in rows if row["train"]])
    lines = []
    for (clients, images, method, kind), own in groups.items():
        plain = groups.get((clients, images, method, "plain"))
        faster = f"{median(map(seconds, plain)) / median(map(seconds, own)):.2f}" if plain else "–"
        memory = max(int(row["device_memory"] or row["memory"]) for row in own) / 2**20
        times = spread([*map(seconds, own)], 3)
        parts = [f"{median(part(row, name) for row in own):.3f}" for name in PARTS]
        lines.append((clients, images, method, kind, times, *parts, len(own), faster, f"{memory:.0f}"))
    header = ("clients", "images", "method", "variant", "seconds a round", *PARTS, "repeats", "× plain", "memory, MiB")
    yield table(header, lines)
    yield from failures(rows)


def convolutions(rows: list[Row]) -> Iterator[str]:
    yield "## The convolution alone"
    layers = "; ".join(f"{name}: {a} to {b} channels, {side}×{side}" for name, (a, b, side) in LAYERS.items())
    yield (
        f"Milliseconds of one call for all clients, each with its own {SIDE}×{SIDE} filters and a batch of {BATCH} "
        f"images, with all copies. Layers of the two-block CNN: {layers}. *Vmapped* is the grouped convolution that "
        "torch.vmap makes and fedgrid uses, *channels last* the same in that order of memory, *matrix product* gathers "
        "what the filters see and multiplies. The *sum* is of the passes that training needs: no gradient of the first "
        "layer's input."
    )
    lowerings: dict[tuple[str, int, str], dict[str, Row]] = {}
    for row in rows:
        if row[PASSES[0]]:
            lowerings.setdefault((row["layer"], int(row["clients"]), row["precision"]), {})[row["lowering"]] = row
    lines = [line for (case, ways) in lowerings.items() for line in fastest(case, ways)]
    yield table(("layer", "clients", "precision", "pass", *LOWERINGS, "fastest"), lines)
    yield from failures(rows)


def fastest(case: tuple[str, int, str], ways: dict[str, Row]) -> Iterator[tuple[str, ...]]:
    """Lines of the three passes, and of the sum of those in training, by which a lowering is chosen."""
    needed = [name for name in PASSES if (case[0], name) != NOT_IN_TRAINING]
    for name, passes in [*((name, [name]) for name in PASSES), ("sum", needed)]:
        times = {way: sum(float(row[each]) for each in passes) for way, row in ways.items()}
        shown = (f"{1000 * times[way]:.3f}" if way in times else "–" for way in LOWERINGS)
        yield (*map(str, case), name.replace("_", " "), *shown, min(times, key=lambda way: times[way]))


def launches(rows: list[Row], gpu: bool) -> Iterator[str]:
    yield "## Launches and transfers of a round"
    if not gpu:
        yield "No GPU: nothing is launched, and nothing is transferred."
        return
    yield (
        "Counted by torch's profiler in one round, evaluation included. *Busy* are seconds of kernels, "
        "*seconds* those of the round before, which was not profiled; of the synchronisations, one or two are the "
        "profiler's own."
    )
    header = ("method", "variant", *(name.replace("_", " ") for name in COUNTED), "busy", "seconds", "share busy")
    lines = []
    for row in rows:
        if row["kernels"]:
            busy, whole = float(row["busy"]), float(row["seconds"])
            times = (f"{busy:.3f}", f"{whole:.3f}", f"{busy / whole:.2f}")
            lines.append((*what(row), *(row[name] for name in COUNTED), *times))
    yield table(header, lines)
    yield from failures(rows)


def cells(rows: list[Row]) -> Iterator[str]:
    yield "## Cells at a time"
    yield "FedAvg with 20 clients, in as many processes as there are cells: rounds a second of all of them."
    measured = [row for row in rows if row["rate"]]
    lines = []
    for row in measured:
        rate, first = float(row["rate"]), float(measured[0]["rate"])
        lines.append((row["cells"], row["kind"], row["images"], row["rounds"], f"{rate:.2f}", f"{rate / first:.2f}"))
    yield table(("cells", "variant", "images", "rounds", "rounds a second", "× the first"), lines)
    yield from failures(rows)


def failures(rows: list[Row], more: Iterable[tuple[str, ...]] = ()) -> Iterator[str]:
    """What was not measured, and why; nothing where all was."""
    message = [*more, *((*what(row), row["error"]) for row in rows if row["error"])]
    if message:
        yield table(("method", "variant", "what went wrong"), message)


def what(row: Row) -> tuple[str, str]:
    """Method and variant; the part where a row is of none."""
    variant = f"{row['kind']}, {row['clients']} clients, {row['images']} images" if row["clients"] else row["kind"]
    if row["lowering"]:
        return f"{row['layer']} convolution, {row['precision']}", f"{row['lowering']}, {row['clients']} clients"
    return (Path(row["method"]).stem, variant) if row["method"] else ("all", row["section"])


def grouped(rows: list[Row]) -> dict[tuple[int, int, str, str], list[Row]]:
    """Repeats of the same."""
    groups: dict[tuple[int, int, str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((int(row["clients"]), int(row["images"]), row["method"], row["kind"]), []).append(row)
    return groups


def seconds(row: Row) -> float:
    """Of a whole round."""
    return sum(part(row, name) for name in PARTS)


def part(row: Row, name: str) -> float:
    """Seconds of one of `PARTS`; 0 where they are in another one's."""
    return float(row[name] or 0)


def of(rows: list[Row], section: str) -> list[Row]:
    return [row for row in rows if row["section"] == section]


if __name__ == "__main__":
    print(write(Path(sys.argv[1])))
