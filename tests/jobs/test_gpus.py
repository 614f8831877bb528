"""Which GPUs there are, and that a place on one belongs to one process at a time."""

import os
import select
import signal
import stat
import subprocess
import sys
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from fedgrid.errors import UserError
from fedgrid.jobs import gpus
from fedgrid.settings import Compute

TWO = "GPU 0: NVIDIA A100 (UUID: GPU-aa1)\nGPU 1: NVIDIA A100 (UUID: GPU-bb2)\n"
MIG = TWO + "  MIG 1g.5gb     Device  0: (UUID: MIG-b1)\n  MIG 1g.5gb     Device  1: (UUID: MIG-b2)\n"
MIXED = TWO.replace("A100 (UUID: GPU-bb2)", "T4 (UUID: GPU-bb2)")
HOLDER = """
import os, subprocess, sys
from fedgrid.jobs.gpus import acquire_gpu
def say(number, word):
    os.write(1, f"{number} {word}\\n".encode())
say(os.getpid(), "asks")
with acquire_gpu("auto", int(sys.argv[1])) as card:
    if len(sys.argv) > 2:
        say(subprocess.Popen(["sleep", sys.argv[2]], close_fds=False).pid, "sleeps")
    say(os.getpid(), card)
    sys.stdin.read()
"""
"A process that asks for a place, says which card it got, and keeps it until its input ends."
PATIENCE = 60.0
"Seconds after which what should have happened is taken not to happen."


@pytest.fixture(autouse=True)
def machine(tmp_path, monkeypatch):
    """A machine without cards; `listing` gives it an nvidia-smi that says a text."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    for name in ("CUDA_VISIBLE_DEVICES", "SLURM_JOB_ID", "CUDA_DEVICE_ORDER"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "bin").mkdir()

    def listing(text, code=0):
        program = tmp_path / "bin/nvidia-smi"
        program.write_text(f"#!/bin/sh\ncat <<'END'\n{text}END\nexit {code}\n")
        program.chmod(0o755)

    return listing


@pytest.mark.parametrize(
    "text, actual", [(TWO, ["GPU-aa1", "GPU-bb2"]), (MIG, ["GPU-aa1", "MIG-b1", "MIG-b2"]), ("", [])]
)
def test_all_that_nvidia_smi_lists(machine, text, actual):
    machine(text)
    assert gpus.cards() == actual
    assert gpus.gpu_slots(3) == 3 * len(actual)


def test_no_cards_where_nvidia_smi_is_absent_or_fails(machine):
    assert gpus.cards() == [] and gpus.memory() == 0
    machine(TWO, code=9)
    assert gpus.cards() == []


@pytest.mark.parametrize(
    "given, actual",
    [
        ("", []),
        ("-1", []),
        ("0", ["0"]),
        ("1,0", ["1", "0"]),
        ("0,0,1", ["0", "1"]),
        ("0,-1,1", ["0"]),
        ("0,7", ["0"]),
        ("GPU-aa1,GPU-b", ["GPU-aa1", "GPU-b"]),
        ("0,GPU-aa1", ["0"]),
        ("NoDevFiles", []),
    ],
)
def test_visible_devices_are_respected(machine, given, actual):
    machine(TWO)
    assert gpus.cards({**os.environ, "CUDA_VISIBLE_DEVICES": given}) == actual


def test_names_that_nobody_lists_are_believed():
    assert gpus.cards({"PATH": "", "CUDA_VISIBLE_DEVICES": "MIG-x,3"}) == ["MIG-x", "3"]


@pytest.mark.parametrize("text, same", [(TWO, True), (MIXED, False), (MIG, False)])
def test_a_number_and_a_uuid_are_one_card_where_that_is_known(machine, text, same):
    machine(text)
    number, uuid = (gpus._by_lock({**os.environ, "CUDA_VISIBLE_DEVICES": name}) for name in ("0", "GPU-aa1"))
    assert (number.keys() == uuid.keys()) is same


def test_the_variable_names_the_card_and_is_restored(machine, monkeypatch):
    machine(TWO)
    with gpus.acquire_gpu("auto") as card:
        assert card == os.environ["CUDA_VISIBLE_DEVICES"] == "GPU-aa1"
    assert "CUDA_VISIBLE_DEVICES" not in os.environ
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,0")
    with gpus.acquire_gpu("cuda") as card:
        assert card == os.environ["CUDA_VISIBLE_DEVICES"] == "1"
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "1,0"


@pytest.mark.parametrize("device", ["cpu", "cuda:1"])
def test_the_users_own_choice_holds_nothing(machine, tmp_path, device):
    machine(TWO)
    with gpus.acquire_gpu(device) as card:
        assert card is None and not list(tmp_path.glob("fedgrid-gpus*"))


def test_without_cards_nothing_is_held():
    with gpus.acquire_gpu("auto") as card:
        assert card is None


@pytest.mark.parametrize(
    "device, shortage",
    [
        *((name, "") for name in ("auto", "cpu", "cuda", "cuda:0", "cuda:1")),
        ("cuda:2", "compute.device: 'cuda:2' needs 3 GPUs, and 2 can be seen here"),
    ],
)
def test_what_a_device_lacks_on_a_machine_with_two_cards(machine, device, shortage):
    machine(TWO)
    assert gpus.shortage(device) == shortage


@pytest.mark.parametrize("by_torch, code", [(0, 2), (1, 0)])
def test_torch_decides_where_nvidia_smi_lists_no_card(monkeypatch, by_torch, code):
    monkeypatch.setattr(gpus, "seen_by_torch", lambda: by_torch)
    assert gpus.shortage("cuda") == "compute.device: 'cuda' needs a GPU, and none can be seen here"
    with (
        pytest.raises(UserError, match=r"^compute\.device: 'cuda' .* set it to auto or cpu") if code else nullcontext()
    ):
        gpus.check_device("cuda")


def test_torch_sees_no_card_where_all_are_hidden(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(UserError, match="none can be seen here"):
        gpus.check_device("cuda")


@pytest.fixture
def holders():
    """Starts processes of `HOLDER`; what they say comes one after the other from `output`."""
    running, (reading, writing) = {}, os.pipe()
    lines = os.fdopen(reading, "rb", buffering=0)

    def start(count, *arguments, **environment):
        command = [sys.executable, "-c", HOLDER, *map(str, arguments)]
        given = {"stdin": subprocess.PIPE, "stdout": writing, "env": os.environ | environment}
        actual = [subprocess.Popen(command, **given) for _ in range(count)]
        running.update({process.pid: process for process in actual})
        return actual

    def output(patience=PATIENCE):
        if not select.select([lines], [], [], patience)[0]:
            return None
        number, word = lines.readline().decode().split()
        return int(number), word

    yield SimpleNamespace(start=start, output=output, end=lambda number: running[number].stdin.close())
    for process in running.values():
        process.kill()
        process.wait()
        process.stdin.close()
    os.close(writing)
    lines.close()


@pytest.mark.parametrize("share", [1, 2])
def test_eight_processes_on_two_cards(holders, share):
    """Never more than `share` on a card, spread evenly, and never an idle place while one waits."""

    def started(count, free):
        """The cards of those that got the free places, by process."""
        holders.start(count, share, CUDA_VISIBLE_DEVICES="0,1")
        events = [holders.output() for _ in range(count + free)]
        return {number: word for number, word in events if word != "asks"}

    held = started(2, free=2)
    assert sorted(held.values()) == ["0", "1"]
    held |= started(6, free=2 * share - 2)
    assert sorted(held.values()) == sorted(["0", "1"] * share)
    for _ in range(8 - 2 * share):
        assert holders.output(patience=3 * gpus.POLL) is None, "all places are taken"
        freed = next(iter(held))
        holders.end(freed)
        number, card = holders.output()
        assert card == held.pop(freed)
        held[number] = card


def test_the_card_of_a_killed_process_is_free_whatever_it_started(holders):
    (first,) = holders.start(1, 1, "600", CUDA_VISIBLE_DEVICES="0")
    assert holders.output() == (first.pid, "asks")
    child, word = holders.output()
    assert word == "sleeps" and holders.output() == (first.pid, "0")
    (second,) = holders.start(1, 1, CUDA_VISIBLE_DEVICES="0")
    assert holders.output() == (second.pid, "asks")
    assert holders.output(patience=3 * gpus.POLL) is None, "the card is taken"
    first.kill()
    try:
        assert holders.output() == (second.pid, "0")
        os.kill(child, 0)  # what the first one started still lives
    finally:
        os.kill(child, signal.SIGKILL)


def test_allocations_of_slurm_do_not_share_numbers(holders, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    with gpus.acquire_gpu("auto"):
        (other,) = holders.start(1, 1, SLURM_JOB_ID="8")
        assert [holders.output(), holders.output()] == [(other.pid, "asks"), (other.pid, "0")]


def test_the_folder_of_locks_is_private(machine, tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    with gpus.acquire_gpu("auto"):
        (folder,) = tmp_path.glob("fedgrid-gpus*")
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    folder.symlink_to(tmp_path)
    with (
        pytest.raises(UserError, match=r"GPUs cannot be locked in .*belongs to another user"),
        gpus.acquire_gpu("auto"),
    ):
        pass


def test_a_share_below_one_is_refused():
    with pytest.raises(UserError, match="1 cell or more, not by 0"), gpus.acquire_gpu("auto", 0):
        pass


@pytest.mark.parametrize(
    ("cores", "cards", "mib", "threads", "expected"),
    [
        (16, 1, 81559, 1, 8),
        (16, 1, 24564, 1, 2),
        (16, 4, 81559, 1, 4),
        (16, 1, 81559, 4, 4),
        (2, 1, 81559, 1, 2),
        (64, 1, 143771, 1, gpus.MOST_CELLS),
        (1, 2, 81559, 1, 1),
        (16, 1, 4096, 1, 1),
        (16, 0, 0, 1, 1),
    ],
)
def test_auto_is_what_memory_and_cores_carry(monkeypatch, cores, cards, mib, threads, expected):
    monkeypatch.setattr(gpus, "cores", lambda: cores)
    monkeypatch.setattr(gpus, "cards", lambda: ["card"] * cards)
    monkeypatch.setattr(gpus, "memory", lambda: mib)
    assert gpus.cells_on_a_gpu(Compute(threads=threads)) == expected


@pytest.mark.parametrize("share", [3, "3"])
def test_a_number_is_taken_as_it_is(monkeypatch, share):
    monkeypatch.setattr(gpus, "memory", lambda: pytest.fail("not asked for"))
    assert gpus.cells_on_a_gpu(Compute(gpu_share=share)) == 3


@pytest.mark.parametrize(
    ("lines", "code", "expected"), [("81559\n24564\n", 0, 24564), ("[N/A]\n", 0, 0), ("", 0, 0), ("81559\n", 9, 0)]
)
def test_the_memory_of_the_smallest_card(machine, lines, code, expected):
    machine(lines, code)
    assert gpus.memory() == expected


def test_mps_runs_where_somebody_reads_its_pipe(tmp_path, monkeypatch):
    monkeypatch.setenv(gpus.MPS_PIPES, str(tmp_path))
    assert not gpus.side_by_side()
    os.mkfifo(tmp_path / "control")
    assert not gpus.side_by_side()  # a daemon was there
    reader = os.open(tmp_path / "control", os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert gpus.side_by_side()
    finally:
        os.close(reader)


@pytest.mark.parametrize(
    ("control", "mps", "expected"), [(True, False, True), (False, False, False), (True, True, False)]
)
def test_cells_take_turns_where_mps_could_run(monkeypatch, control, mps, expected):
    monkeypatch.setattr(gpus.shutil, "which", lambda name: f"/usr/bin/{name}" if control else None)
    monkeypatch.setattr(gpus, "side_by_side", lambda: mps)
    assert gpus.could_be_side_by_side() == expected
