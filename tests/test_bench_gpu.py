"""The measurement of one GPU works where there is none: nothing in it is tried for the first time on a card."""

import csv
import io
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import lacking
import pytest
import torch
from pretended import DEVICE, machine
from recorded import Recorded

from benchmarks import agreement, convolutions, gpu, gpu_page, rounds, worker
from benchmarks.processes import OVER, ROOT, Failed, answers
from fedgrid.engine.local.captured import Captured
from fedgrid.engine.local.lowered import Lowered

PLAN = gpu.Plan("cpu", images=100, compared=("fedavg",), convolved=(1, 2))


def rows_of(file):
    with file.open(newline="", encoding="utf-8") as opened:
        return list(csv.DictReader(opened))


def test_the_script_for_a_lent_card_starts_without_the_workflow(tmp_path):
    command = [sys.executable, "-m", "benchmarks.gpu", "--help"]
    subprocess.run(command, cwd=ROOT, env=lacking.environment(tmp_path), check=True, capture_output=True)


@pytest.mark.full
def test_a_quick_run_needs_nothing_of_the_workflow(tmp_path):
    """It and all its processes find none of the modules that a lent machine lacks."""
    command = [sys.executable, "-m", "benchmarks.gpu", "--device=cpu", "--quick", "--out", str(tmp_path)]
    output = subprocess.check_output(command, cwd=ROOT, env=lacking.environment(tmp_path), text=True)
    page = tmp_path / output.strip()
    text, rows = page.read_text(encoding="utf-8"), rows_of(page.with_suffix(".csv"))
    assert not [row["error"] for row in rows if row["error"]]
    by_section = {name: [row for row in rows if row["section"] == name] for name in gpu.PARTS}
    assert [(row["method"], row["kind"]) for row in by_section["correct"]] == [
        ("fedavg", "stacked"),
        ("fedavg", "loop"),
    ]
    (timed,), running = by_section["rounds, 20 clients"], by_section["cells"]
    assert float(timed["seconds"]) >= float(timed["train"]) > 0 and int(timed["steps"]) > 20
    alone = {(row["layer"], row["lowering"]) for row in by_section["convolutions"] if float(row["forward"]) > 0}
    assert alone == set(itertools.product(convolutions.LAYERS, convolutions.LOWERINGS))
    assert [row["kind"] for row in running if float(row["rate"]) > 0] == ["stacked", "plain"]
    assert "no GPU" in text and "2 of 2 agree" in text and "| 20 | 800 | fedavg | loop |" in text
    assert "No GPU: nothing is launched" in text


# No part ends the run


def test_a_part_that_fails_is_a_row(tmp_path):
    def failing(plan, deadline):
        yield {"method": "fedavg", "kind": "loop", "difference": 0.0}
        raise ValueError("the first line\nand the second")

    def silent(plan, deadline):
        raise Failed("CUDA error: gone")

    parts = {"correct": (0.5, failing), "rounds": (0.5, silent), "cells": (0.5, lambda *_: iter([{"rate": 2.0}]))}
    page = gpu.run(PLAN, 60, tmp_path / "here.csv", parts)
    _, *rows = [row for row in rows_of(tmp_path / "here.csv") if row["section"] != "machine" or row["name"] == "card"]
    assert [(row["section"], row["error"]) for row in rows] == [
        ("correct", ""),
        ("correct", "ValueError: the first line"),
        ("rounds", "CUDA error: gone"),
        ("cells", ""),
    ]
    assert "| all | correct | ValueError: the first line |" in page.read_text(encoding="utf-8")


def test_without_time_everything_is_left_out(tmp_path, capsys):
    assert gpu.main(["--device=cpu", "--seconds=0", f"--out={tmp_path}"]) == 0
    page = tmp_path / capsys.readouterr().out.strip()
    actual = {row["section"]: row["error"] for row in rows_of(page.with_suffix(".csv")) if row["section"] != "machine"}
    assert actual == dict.fromkeys(gpu.PARTS, OVER)
    text = page.read_text(encoding="utf-8")
    assert "There was no time for 1: all with correct." in text
    assert "There was no time for 4: all with rounds, 100 clients;" in text


@pytest.fixture(autouse=True)
def signals():
    """As a shell's foreground has them, since SIGINT is ignored in the background; after a test they are as before."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(("number", "end"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)])
def test_an_interruption_leaves_a_page(tmp_path, monkeypatch, number, end):
    def interrupted(plan, deadline):
        yield {"method": "fedavg", "kind": "loop", "difference": 0.5}
        os.kill(os.getpid(), number)
        time.sleep(5)

    monkeypatch.setattr(gpu, "PARTS", {"correct": (0.5, interrupted), "cells": (0.5, interrupted)})
    with pytest.raises(end):
        gpu.main(["--device=cpu", f"--out={tmp_path}"])
    (page,) = tmp_path.glob("*-bench-gpu.md")
    assert "| fedavg | loop | differs by 5.0e-01 |" in page.read_text(encoding="utf-8")


def test_a_gpu_that_is_not_there(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(gpu.torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit):
        gpu.main(["--device=cuda", f"--out={tmp_path}"])
    assert "torch sees no GPU here" in capsys.readouterr().err


SERVER = """
import os
import time
from benchmarks.processes import serve

def answer(do):
    if do == "end":
        os._exit(3)
    if do == "sleep":
        time.sleep(60)
    if do in ("fail", "CUDA"):
        raise RuntimeError(do + " happened\\nsecond line")
    return {"process": os.getpid()}

serve(answer)
"""


def asked(questions, seconds, patience):
    """What is said to each question."""
    actual = answers("server", {}, [{"do": do} for do in questions], time.monotonic() + seconds, patience)
    return [answer.get("process", answer.get("error")) for answer in actual]


@pytest.fixture
def server(tmp_path, monkeypatch):
    (tmp_path / "server.py").write_text(SERVER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


@pytest.mark.usefixtures("server")
def test_no_question_hides_the_answer_to_another():
    first, failed, second, ended, third, lost, fourth = asked(["", "fail", "", "end", "", "CUDA", ""], 60, 30)
    assert failed == "RuntimeError: fail happened" and lost == "RuntimeError: CUDA happened"
    assert "ended with code 3" in ended
    assert first == second and len({second, third, fourth}) == 3


@pytest.mark.usefixtures("server")
def test_a_process_that_hangs_is_replaced_while_there_is_time():
    assert asked(["sleep"], 60, 1) == [OVER]
    assert asked(["sleep", ""], 1, 60) == [OVER, OVER]


class Fake:
    """A worker whose rounds take a second."""

    def __init__(self, job):
        self.job, self.rounds = job, 0

    def ask(self):
        pass

    def answer(self, deadline):
        self.rounds += 1
        return {"train": 0.5, "server": 0.25, "evaluate": 0.25, "memory": 2**20}

    def round(self, deadline):
        return self.answer(deadline)


@pytest.fixture
def fakes(monkeypatch):
    """Fakes in place of workers."""
    made = []

    @contextmanager
    def together(jobs):
        new = [Fake(job) for job in jobs]
        made.extend(new)
        yield new

    monkeypatch.setattr(gpu, "together", together)
    return made


def test_as_many_cells_at_a_time_as_asked_for(fakes):
    rows = list(gpu.cells(replace(PLAN, window=6.0, cells=(1, 2, 4)), time.monotonic() + 60))
    assert [(row["kind"], row["cells"], row["rounds"]) for row in rows[:3]] == [
        ("stacked", 1, 6),
        ("stacked", 2, 6),
        ("stacked", 4, 4),
    ]
    assert [fake.rounds for fake in fakes[:4]] == [3 + 6 + 3 + 1, 3 + 3 + 1, 3 + 1, 3 + 1]


def test_cells_side_by_side_are_fedgrids_alone(fakes, monkeypatch):
    around = []

    @contextmanager
    def service():
        around.append("start")
        yield
        around.append("end")

    monkeypatch.setattr(gpu, "multi_process_service", service)
    plan = replace(PLAN, device="cuda", window=6.0, cells=(1, 2))
    rows = list(gpu.cells_side_by_side(plan, time.monotonic() + 60))
    assert [(row["kind"], row["cells"]) for row in rows] == [("lowered", 1), ("lowered", 2)]
    assert around == ["start", "end"] and not list(gpu.cells_side_by_side(PLAN, time.monotonic() + 60))


def test_the_first_part_asks_for_what_matters_most(monkeypatch):
    monkeypatch.setattr(gpu, "answers", lambda module, job, questions, *_: iter(questions))
    plan = replace(PLAN, device="cuda", compared=("apple", "fedavg", "fedcosr"))
    asked = [(row["method"], row["kind"]) for row in gpu.correct(plan, 0.0)]
    methods = ("fedavg", "fedcosr")
    assert asked[:5] == [(m, kind) for m in methods for kind in ("lowered", "captured")] + [("apple", "lowered")]
    assert len(asked) == len(set(asked)) == 3 * len(gpu.KINDS["cuda"])


def test_every_way_on_a_card_is_a_job_that_can_be_measured(monkeypatch):
    asked = []

    def answers(module, job, questions, *_):
        asked.extend(job | question for question in questions)
        return iter([{"error": OVER}])

    monkeypatch.setattr(gpu, "answers", answers)
    list(gpu.timed(replace(PLAN, device="cuda"), 0.0, clients=100))
    of_fedavg = [(job["kind"], job.get("tf32", False)) for job in asked if job["method"] == "fedavg"]
    kinds = ("plain", "lowered", "captured", "stacked", "loop")
    assert of_fedavg == [*((kind, False) for kind in kinds), ("lowered", True)]
    assert {job["kind"] for job in asked if job["method"] == "fedsac"} == {*kinds} - {"plain"}


@pytest.mark.parametrize("kind", ["plain", "loop", "stacked"])
def test_rounds_are_measured(kind):
    job = {"method": "fedcosr", "kind": kind, "clients": 2, "images": 40, "drawn": True, "repeats": 2}
    job |= {"equal": True, "batch_size": 4}
    actual = rounds.measured(job)
    assert all(len(actual[part]) == 2 for part in rounds.PARTS) and min(actual["train"]) > 0
    assert actual["kernels"] == actual["launches"] == 0  # of a processor
    steps = {"plain": 8, "loop": 8, "stacked": 4}
    assert actual["steps"] == steps[kind]
    summary = gpu.summary(job | actual)
    assert summary["least"] <= summary["seconds"] <= summary["most"]


@pytest.mark.parametrize("layer", convolutions.LAYERS)
def test_every_lowering_of_the_convolution_gives_the_same(layer):
    x, filters, gradient = convolutions.inputs(layer, 2, "cpu", torch.float64)
    x.requires_grad_(), filters.requires_grad_()
    forward = torch.stack([torch.nn.functional.conv2d(*pair) for pair in zip(x, filters, strict=True)])
    expected = (forward, *torch.autograd.grad(forward, (x, filters), gradient))
    for lowering in convolutions.LOWERINGS.values():
        for name, value in zip(convolutions.PASSES, expected, strict=True):
            actual = getattr(lowering, name)(x, filters, gradient)
            torch.testing.assert_close(actual, value, rtol=1e-10, atol=1e-10)


def test_convolutions_are_asked_for_until_the_time_is_over(monkeypatch):
    asked = []

    def answers(module, job, questions, deadline, patience):
        for question in questions:
            asked.append(question)
            yield question

    monkeypatch.setattr(gpu, "answers", answers)
    assert len(list(gpu.convolutions(replace(PLAN, device="cuda"), time.monotonic() + 60))) == 2 * 2 * 2 * 3
    assert {question["precision"] for question in asked} == {"float32", "TF32"}
    assert len(list(gpu.convolutions(PLAN, 0.0))) == 1


# On the pretended device


@pytest.mark.parametrize("kind", gpu.KINDS["cuda"])
@pytest.mark.parametrize("method", ["fedavg", "fedcosr"])
def test_the_comparison_on_a_device(method, kind, monkeypatch):
    for name, executor in (("captured", Captured), ("lowered", Lowered)):
        monkeypatch.setitem(worker.EXECUTORS, name, partial(executor, capture=Recorded))
    with machine() as used:
        actual = agreement.compared(method, kind, str(DEVICE))
    assert actual["difference"] <= gpu_page.TOLERANCE
    assert actual.get("replayed", 0) == 0 if kind in ("loop", "stacked") else actual["replayed"] > 0
    assert used.counts.operators  # it was on the device


FORGETFUL = """
import torch
from fedgrid.methods.fedavg import FedAvg


class Forgetful(FedAvg):
    def round(self, fed, s):
        after = super().round(fed, s)
        return after.update(trained=torch.eye(fed.size) @ after.trained)
"""


def test_the_comparison_continues_after_a_method_that_forgets_the_device(tmp_path, monkeypatch, capsys):
    (tmp_path / "forgetful.py").write_text(FORGETFUL)
    questions = [{"method": method, "kind": "loop"} for method in (str(tmp_path / "forgetful.py"), "fedavg")]
    monkeypatch.setattr("sys.argv", ["agreement", json.dumps({"device": str(DEVICE)})])
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(json.dumps(question) + "\n" for question in questions)))
    with machine():
        agreement.main()
    wrong, right = map(json.loads, capsys.readouterr().out.splitlines())
    assert wrong["error"].startswith("Mixed: mm of tensors on the device")
    assert right["difference"] <= gpu_page.TOLERANCE


def test_a_difference_is_seen():
    (ours, _), (theirs, _) = (agreement.computed("fedavg", kind, "cpu") for kind in gpu.KINDS["cpu"])
    assert agreement.difference(ours, theirs) <= gpu_page.TOLERANCE
    ours.state.server["theta"]["head.bias"][0] += 1
    assert agreement.difference(ours, theirs) > 0.1
    ours.state.server["theta"]["head.bias"][0] = float("nan")
    assert agreement.difference(ours, theirs) == float("inf")


@pytest.mark.parametrize("kind", ["plain", *gpu.KINDS["cpu"]])
def test_a_round_on_a_device(kind, monkeypatch, capsys):
    job = {"kind": kind, "method": "fedcosr", "images": 40, "clients": 2, "device": str(DEVICE), "drawn": True}
    monkeypatch.setattr("sys.argv", ["worker", json.dumps(job)])
    monkeypatch.setattr("sys.stdin", io.StringIO('"go"\n'))
    with machine() as used, pytest.raises(SystemExit):
        worker.main()
    assert json.loads(capsys.readouterr().out)["train"] > 0
    assert used.counts.operators


# What a card's page says


TRACE = [
    {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "dur": 5},
    {"cat": "cuda_runtime", "name": "cudaLaunchKernelExC", "dur": 5},
    {"cat": "cuda_driver", "name": "cuLaunchKernelEx", "dur": 5},
    {"cat": "cuda_runtime", "name": "cudaGraphLaunch", "dur": 5},
    {"cat": "cuda_runtime", "name": "cudaMemcpyAsync", "dur": 5},
    {"cat": "cuda_runtime", "name": "cudaStreamSynchronize", "dur": 5},
    *[{"cat": "kernel", "name": "gemm", "dur": 100_000}] * 3,
    {"cat": "gpu_memcpy", "name": "Memcpy HtoD (Pageable -> Device)", "dur": 5},
    {"cat": "gpu_memcpy", "name": "Memcpy DtoH (Device -> Pinned)", "dur": 5},
    {"cat": "gpu_memcpy", "name": "Memcpy DtoH (Device -> Pageable)", "dur": 5},
    {"cat": "gpu_memcpy", "name": "Memcpy DtoD (Device -> Device)", "dur": 5},
    {"ph": "M", "args": {"name": "python"}},
]


def spread(seconds):
    return {"seconds": seconds, "least": seconds - 0.1, "most": seconds + 0.1}


def test_the_page_of_a_card(tmp_path, monkeypatch):
    counts = rounds.counted(TRACE)
    expected = {"launches": 4, "kernels": 3, "synchronisations": 1, "to_device": 1, "to_host": 2, "on_device": 1}
    assert counts == expected | {"busy": pytest.approx(0.3)}
    monkeypatch.setattr(gpu, "facts", lambda device: {"card": "NVIDIA X, 80 GiB", "driver": "580"})
    world = {"method": "fedavg", "clients": 20, "images": 8000}
    cosr = {"method": "fedcosr", "kind": "loop"}
    measured = counts | {"steps": 2, "repeats": 2, "server": 0.0, "device_memory": 2**30}
    timed = [
        world | measured | {"kind": kind, "tf32": tf32, "train": s - 0.5, "evaluate": 0.5} | spread(s)
        for kind, tf32, s in (("plain", "", 3.0), ("lowered", "", 1.0), ("lowered", True, 0.6))
    ]
    alone = {"section": "convolutions", "layer": "second", "clients": 20, "precision": "TF32"}
    slow, fast = ({name: 0.001 * (n + factor) for n, name in enumerate(convolutions.PASSES)} for factor in (2, 1))
    ways = [{"lowering": "vmapped"} | slow, {"lowering": "matrix product"} | fast]
    rows = {
        "convolutions": [alone | way for way in ways] + [alone | {"lowering": "channels last", "error": "no memory"}],
        "correct": [cosr | {"difference": 1e-12}, cosr | {"difference": 1e-3}, cosr | {"error": "a | b"}]
        + [cosr | {"kind": "lowered", "difference": 0.0, "replayed": count} for count in (4, 0)],
        "rounds, 20 clients": timed,
        "cells": [
            {"cells": n, "kind": kind, "images": 2000, "rounds": 8, "rate": rate * n}
            for kind, rate in (("lowered", 5.0), ("plain", 0.5))
            for n in (1, 2)
        ],
        gpu_page.SIDE_BY_SIDE: [{"cells": 2, "kind": "lowered", "images": 2000, "rounds": 8, "rate": 25.0}],
    }
    parts = {name: (0.5, lambda *_, actual=actual: iter(actual)) for name, actual in rows.items()}
    text = gpu.run(replace(PLAN, device="cuda"), 60, tmp_path / "card.csv", parts).read_text(encoding="utf-8")
    for line in (
        "# One card: NVIDIA X, 80 GiB",
        "3 of 5 agree to 1e-09",
        "Of 2 with graphs all replayed some, but for fedcosr with lowered.",
        "| fedcosr | loop | differs by 1.0e-03 |",
        "| fedcosr | loop | a / b |",
        "| 20 | 8000 | fedavg | lowered | 1.000 (0.900–1.100) | 0.500 | 0.000 | 0.500 | 2 | 3.00 | 0.30 | 2 | 1024 |",
        "| 20 | 8000 | fedavg | lowered, TF32 | 0.600 (0.500–0.700) | 0.100 | 0.000 | 0.500 | 2 | 5.00 | 0.50 | 2 |",
        "| second | 20 | TF32 | input gradient | 3.000 | – | 2.000 | matrix product |",
        "| second | 20 | TF32 | sum | 9.000 | – | 6.000 | matrix product |",
        "| second convolution, TF32 | channels last, 20 clients | no memory |",
        "| 20 | 8000 | fedavg | lowered | 4 | 3 | 1 | 2 | 1 | 1 | 0.3000 |",
        "| 2 | lowered | 2000 | 8 | 10.00 | 2.00 | 10.00 |",
        "| 2 | lowered | 2000 | 8 | 25.00 | – | 25.00 |",
    ):
        assert line in text
    assert "no GPU" not in text.replace("where there is none", "")
