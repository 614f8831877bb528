"""The measurements of `benchmarks.throughput`: a page for people and a table for programs."""

import csv
import os
import platform
import statistics
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.markdown import spread
from benchmarks.templates import rendered
from benchmarks.worker import DEFAULTS, SIZES
from fedgrid.engine.compute import CLIENTS_WORTH_A_CALL, FLOPS_OF_OVERHEAD, executor_for
from fedgrid.jobs.machine import processor
from fedgrid.settings import Compute

Row = Mapping[str, Any]
TRAINED, EVALUATED = 0.75, 2 * 0.25
"Shares of the images that a round trains on, and that it evaluates: a client's test images with two models."


def write(rows: list[dict[str, Any]], device: str, place: Path) -> Path:
    """Writes ``<place>.csv`` and ``<place>.md``; returns the latter."""
    rows = [DEFAULTS | row for row in rows]
    place.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{place}.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(name for row in rows for name in row)), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    page = Path(f"{place}.md")
    text = rendered(Path(__file__).with_name("report.md.j2"), **_facts(rows, device))
    page.write_text(text.rstrip() + "\n", encoding="utf-8")
    return page


def _facts(rows: list[dict[str, Any]], device: str) -> dict[str, Any]:
    """What the page shows."""
    cpu = device == "cpu"
    names = ("throughput", "whole", "side by side", "small", "scale")
    throughput, whole, beside, small, scale = ([row for row in rows if row["section"] == name] for name in names)
    flops = next(row["flops"] for row in throughput if "flops" in row)
    threads = sorted({row["threads"] for row in throughput if row["kind"] == "peak"})
    facts = {
        "hardware": f"{processor()}, {os.cpu_count()} cores" if cpu else torch.cuda.get_device_name(),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "torch": torch.__version__,
        "python": platform.python_version(),
        "repeats": 1 + max(row["repeat"] for row in throughput),
        "cpu": cpu,
        "memory": "memory" if cpu else "GPU memory",
        "job": throughput[0],
        "mega": flops / 1e6,
        "sides": ", ".join(map(str, SIZES[device])),
        "throughput": list(_throughput(throughput, flops)),
        "peaks": {n: spread(_series(throughput, _peak, kind="peak", threads=n), 0) for n in threads},
        "per_client": scale[0]["images"] // scale[0]["clients"],
        "fast": scale[0]["kind"],
        "scale": list(_scale(scale)),
    }
    if cpu:
        facts["whole"], facts["images"] = next(_throughput(whole, flops)), whole[0]["images"]
        facts["beside"], facts["small"] = _beside(beside), list(_small(small))
        facts["limits"] = (FLOPS_OF_OVERHEAD, CLIENTS_WORTH_A_CALL)
    return facts


def _throughput(rows: list[Row], flops: int) -> Iterator[dict[str, Any]]:
    for method in dict.fromkeys(row["method"] for row in rows):
        own = [row for row in rows if row["method"] == method]
        plain = {n: _series(own, _round, kind="plain", threads=n) for n in (1, 2)}
        for variant in dict.fromkeys(_variant(row) for row in own if row["kind"] != "peak"):
            chosen = [row for row in own if _variant(row) == variant]
            peaks = [1e9 * peak for peak in _series(own, _peak, kind="peak", threads=chosen[0]["threads"])]
            seconds = [_round(row) for row in chosen]
            yield {
                "method": method,
                "variant": variant,
                "samples": spread([TRAINED * row["images"] / _training(row) for row in chosen], 0),
                "seconds": spread(seconds, 2),
                "plain1": spread(_ratios(plain[1], seconds), 2),
                "plain2": spread(_ratios(plain[2], seconds), 2),
                "training": spread(_ratios([_training_rate(row, flops) for row in chosen], peaks), 2),
                "round": spread(_ratios([_round_rate(row, flops) for row in chosen], peaks), 2),
                "memory": _mebibytes(chosen),
            }


def _beside(rows: list[Row]) -> dict[str, str]:
    """How much more two processes at the same time do than one, and than the plain baseline's two threads."""
    alone, plain = (_series(rows, _round, how=how) for how in ("alone", "plain"))
    both = [[_round(row) for row in rows if row["how"] == "beside" and row["repeat"] == r] for r in range(len(alone))]
    slower = [max(pair) for pair in both]
    return {
        name: spread([2 * ratio for ratio in _ratios(other, slower)], 2)
        for name, other in (("alone", alone), ("plain", plain))
    }


def _small(rows: list[Row]) -> Iterator[dict[str, Any]]:
    cpu = torch.device("cpu")
    for clients, model, settings in dict.fromkeys((r["clients"], r["model"], str(r["model_settings"])) for r in rows):
        own = [r for r in rows if (r["clients"], r["model"], str(r["model_settings"])) == (clients, model, settings)]
        loop, stacked = (_series(own, _round, kind=kind) for kind in ("loop", "stacked"))
        flops, together = own[0]["flops"] * own[0]["batch_size"], own[0]["together"]
        yield {
            "clients": clients,
            "model": f"{model} ({settings.strip('{}')})".replace("'", ""),
            "mega": flops / 1e6,
            "together": together,
            "loop": spread(loop, 3),
            "stacked": spread(stacked, 3),
            "ratio": spread(_ratios(loop, stacked), 2),
            "auto": type(executor_for(Compute(), cpu, flops, together)).__name__.lower(),
        }


def _scale(rows: list[Row]) -> Iterator[dict[str, Any]]:
    for method in dict.fromkeys(row["method"] for row in rows):
        own = [row for row in rows if row["method"] == method]
        clients = sorted({row["clients"] for row in own})
        chosen = [[row for row in own if row["clients"] == n] for n in clients]
        for n, group in zip(clients, chosen, strict=True):
            seconds = spread([_round(row) for row in group], 2)
            yield {"method": method, "clients": n, "seconds": seconds, "memory": _mebibytes(group)}
        time = _exponent(clients, [statistics.median(_round(row) for row in group) for group in chosen])
        space = _exponent(clients, [max(_memory(row) for row in group) for group in chosen])
        yield {"method": method, "clients": "grows as", "seconds": f"N^{time:.2f}", "memory": f"N^{space:.2f}"}


def _exponent(clients: list[int], values: list[float]) -> float:
    return float(np.polyfit(np.log(clients), np.log(values), 1)[0])


def _variant(row: Row) -> str:
    words = [row["kind"]] + ([f"{row['threads']} threads"] if row["threads"] > 1 else [])
    return ", ".join(words + ["TF32"] * row["tf32"] + [row["dtype"]] * (row["dtype"] != "float32"))


def _peak(row: Row) -> float:
    """GFLOP/s."""
    return row["peak"] / 1e9


def _training(row: Row) -> float:
    """Seconds in which clients train and the server combines."""
    return row["train"] + row.get("server", 0.0)


def _round(row: Row) -> float:
    return _training(row) + row["evaluate"]


def _training_rate(row: Row, flops: int) -> float:
    """Floating-point operations a second, where the forward pass of an image has `flops`."""
    return 3 * TRAINED * row["images"] * flops / _training(row)


def _round_rate(row: Row, flops: int) -> float:
    return (3 * TRAINED + EVALUATED) * row["images"] * flops / _round(row)


def _memory(row: Row) -> float:
    return row.get("device_memory", row["memory"])


def _mebibytes(rows: list[Row]) -> str:
    return f"{max(_memory(row) for row in rows) / 2**20:.0f}"


def _series(rows: list[Row], value: Callable[[Row], float], **wanted: Any) -> list[float]:
    """A value of the float32 rows that agree with `wanted`, in the order of the repeats."""
    wanted = {"dtype": "float32"} | wanted
    return [value(row) for row in rows if all(row.get(name) == given for name, given in wanted.items())]


def _ratios(first: list[float], second: list[float]) -> list[float]:
    return [a / b for a, b in zip(first, second, strict=True)] if first else []
