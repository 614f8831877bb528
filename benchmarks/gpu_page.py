"""The page of `benchmarks.gpu`, made of its table: ``python -m benchmarks.gpu_page TABLE.csv``."""

import csv
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from benchmarks.convolutions import BATCH, LAYERS, LOWERINGS, PASSES, SIDE
from benchmarks.markdown import table
from benchmarks.processes import OVER
from benchmarks.rounds import PARTS

Row = dict[str, str]
COUNTED = ("launches", "kernels", "to_device", "to_host", "on_device", "synchronisations")
NOT_IN_TRAINING = ("first", "input_gradient")
"A layer, and its pass that nothing asks for."
SIDE_BY_SIDE = "cells, MPS"
"The name of the part, and of its rows, in which kernels of several processes run side by side."
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
    in_rounds = [row for row in rows if row["section"].startswith("rounds")]
    yield from timed(in_rounds)
    yield from cells(of(rows, "cells"), of(rows, SIDE_BY_SIDE))
    yield from launches(in_rounds, gpu)
    yield from convolutions(of(rows, "convolutions"))


def correct(rows: list[Row]) -> Iterator[str]:
    yield "## Are its numbers the processor's?"
    compared = [row for row in rows if row["difference"]]
    wrong = [row for row in compared if not float(row["difference"]) <= TOLERANCE]
    yield (
        f"{len(compared) - len(wrong)} of {len(rows)} agree to {TOLERANCE:g} of a tensor's largest number: a method "
        "with an executor, for three rounds of four clients in float64, in all that it keeps and all that is recorded. "
        "What they are compared with is the processor's loop."
    )
    if compared:
        worst = max(compared, key=lambda row: float(row["difference"]))
        which = " with ".join(what(worst))
        yield f"The largest difference is {float(worst['difference']):.1e}, of {which}."
    if counted := [row for row in compared if row.get("replayed")]:
        others = "; ".join(" with ".join(what(row)) for row in counted if row["replayed"] == "0")
        yield f"Of {len(counted)} with graphs all replayed some{f', but for {others}' if others else ''}."
    message = [(*what(row), f"differs by {float(row['difference']):.1e}") for row in wrong]
    yield from failures(rows, message)


def timed(rows: list[Row]) -> Iterator[str]:
    yield "## Seconds a round"
    yield (
        "Two-block CNN on 32×32×3, batch 16, drawn images by Dirichlet 0.1, three quarters of them for training. The "
        "median of rounds, in brackets the shortest and the longest, after rounds that warm up, and the medians of "
        "their parts: clients, server, and the evaluation of two models. *Plain* is `benchmarks/plain.py`, which sends "
        "every batch; it knows no FedSaC and no FedRep, and its server is part of the clients' time. *Busy* is the "
        "time of kernels in a further round, by torch's profiler, as a share of the median; *kernels a step* are those "
        "of that round, its evaluation included, for every step of its clients: of one client in *plain* and *loop*, "
        "of all together otherwise. *Memory* is the most that a GPU has held."
    )
    measured = [row for row in rows if row["train"]]
    plain = {case(row): float(row["seconds"]) for row in measured if row["kind"] == "plain"}
    lines = []
    for row in measured:
        round_seconds, base = float(row["seconds"]), plain.get(case(row))
        times = f"{round_seconds:.3f} ({float(row['least']):.3f}–{float(row['most']):.3f})"
        parts = [f"{float(row[name]):.3f}" for name in PARTS]
        busy = f"{float(row['busy']) / round_seconds:.2f}" if int(row["kernels"]) else "–"
        kernels = f"{int(row['kernels']) / int(row['steps']):.0f}" if int(row["kernels"]) else "–"
        faster, memory = f"{base / round_seconds:.2f}" if base else "–", f"{int(row['device_memory']) / 2**20:.0f}"
        lines.append((*case(row), variant(row), times, *parts, row["repeats"], faster, busy, kernels, memory))
    header = ("clients", "images", "method", "variant", "seconds a round", *PARTS, "rounds", "× plain", "busy")
    yield table((*header, "kernels a step", "memory, MiB"), lines)
    yield from failures(rows)


def case(row: Row) -> tuple[str, str, str]:
    """What is computed, in one way or another."""
    return row["clients"], row["images"], Path(row["method"]).stem


def variant(row: Row) -> str:
    """The way in which it is computed."""
    return f"{row['kind']}, TF32" if row["tf32"] else row["kind"]


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
    lines = [line for (measured, ways) in lowerings.items() for line in fastest(measured, ways)]
    yield table(("layer", "clients", "precision", "pass", *LOWERINGS, "fastest"), lines)
    yield from failures(rows)


def fastest(measured: tuple[str, int, str], ways: dict[str, Row]) -> Iterator[tuple[str, ...]]:
    """Lines of the three passes, and of the sum of those in training, by which a lowering is chosen."""
    needed = [name for name in PASSES if (measured[0], name) != NOT_IN_TRAINING]
    for name, passes in [*((name, [name]) for name in PASSES), ("sum", needed)]:
        times = {way: sum(float(row[each]) for each in passes) for way, row in ways.items()}
        shown = (f"{1000 * times[way]:.3f}" if way in times else "–" for way in LOWERINGS)
        yield (*map(str, measured), name.replace("_", " "), *shown, min(times, key=lambda way: times[way]))


def launches(rows: list[Row], gpu: bool) -> Iterator[str]:
    yield "## Launches and transfers of a round"
    if not gpu:
        yield "No GPU: nothing is launched, and nothing is transferred."
        return
    yield (
        "Of the same profiled rounds. A graph is launched as a whole, and counts as one launch; of the "
        "synchronisations, one or two are the profiler's own."
    )
    header = ("clients", "images", "method", "variant", *(name.replace("_", " ") for name in COUNTED), "busy seconds")
    lines = [
        (*case(row), variant(row), *(row[name] for name in COUNTED), f"{float(row['busy']):.4f}")
        for row in rows
        if row["train"]
    ]
    yield table(header, lines)


def cells(rows: list[Row], side_by_side: list[Row]) -> Iterator[str]:
    yield "## Cells at a time"
    yield (
        "FedAvg with 20 clients, in as many processes as there are cells: rounds a second of all of them, and how many "
        "times as many these are as one cell's, and as those of as many plain processes."
    )
    plain = {row["cells"]: float(row["rate"]) for row in rows if row["rate"] and row["kind"] == "plain"}
    yield from cell_rates(rows, plain)
    if side_by_side:
        yield "The same under NVIDIA's MPS, which lets kernels of several processes run side by side:"
        yield from cell_rates(side_by_side, plain)


def cell_rates(rows: list[Row], plain: dict[str, float]) -> Iterator[str]:
    """Rounds a second by cells at a time; `plain`: those of as many plain processes."""
    measured = [row for row in rows if row["rate"]]
    alone = {row["kind"]: float(row["rate"]) for row in measured if row["cells"] == "1"}
    lines = []
    for row in measured:
        bases = (alone.get(row["kind"]), plain.get(row["cells"]))
        times = [f"{float(row['rate']) / base:.2f}" if base else "–" for base in bases]
        lines.append((row["cells"], row["kind"], row["images"], row["rounds"], f"{float(row['rate']):.2f}", *times))
    yield table(("cells", "variant", "images", "rounds", "rounds a second", "× one cell", "× plain"), lines)
    yield from failures(rows)


def failures(rows: list[Row], more: Iterable[tuple[str, ...]] = ()) -> Iterator[str]:
    """What was not measured, and why; nothing where all was."""
    message = [*more, *((*what(row), row["error"]) for row in rows if row["error"] not in ("", OVER))]
    if message:
        yield table(("method", "variant", "what went wrong"), message)
    left = [" with ".join(what(row)) for row in rows if row["error"] == OVER]
    if left:
        yield f"There was no time for {len(left)}: {'; '.join(left)}."


def what(row: Row) -> tuple[str, str]:
    """Method and variant; the part where a row is of none."""
    if row["lowering"]:
        return f"{row['layer']} convolution, {row['precision']}", f"{row['lowering']}, {row['clients']} clients"
    if not row["method"]:
        return "all", row["section"]
    sizes = f", {row['clients']} clients, {row['images']} images" if row["clients"] else ""
    return Path(row["method"]).stem, variant(row) + sizes


def of(rows: list[Row], section: str) -> list[Row]:
    return [row for row in rows if row["section"] == section]


if __name__ == "__main__":
    print(write(Path(sys.argv[1])))
