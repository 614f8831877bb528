"""Which GPUs there are, and that a place on one belongs to one process at a time."""

import json
import os
import signal
import stat
import subprocess
import sys
import time

import pytest

from fedgrid.errors import UserError
from fedgrid.jobs import gpus

TWO = "GPU 0: NVIDIA A100 (UUID: GPU-aa1)\nGPU 1: NVIDIA A100 (UUID: GPU-bb2)\n"
MIG = TWO + "  MIG 1g.5gb     Device  0: (UUID: MIG-b1)\n  MIG 1g.5gb     Device  1: (UUID: MIG-b2)\n"
MIXED = TWO.replace("A100 (UUID: GPU-bb2)", "T4 (UUID: GPU-bb2)")
HOLDER = """
import json, sys, time
from fedgrid.jobs.gpus import acquire_gpu
with acquire_gpu("auto", int(sys.argv[2])) as card:
    began = time.monotonic()
    print(card, flush=True)
    time.sleep(float(sys.argv[1]))
    print(json.dumps([card, began, time.monotonic()]), flush=True)
"""


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
    "text, found", [(TWO, ["GPU-aa1", "GPU-bb2"]), (MIG, ["GPU-aa1", "MIG-b1", "MIG-b2"]), ("", [])]
)
def test_all_that_nvidia_smi_lists(machine, text, found):
    machine(text)
    assert gpus.cards() == found
    assert gpus.gpu_slots(3) == 3 * len(found)


def test_no_cards_where_nvidia_smi_is_absent_or_fails(machine):
    assert gpus.cards() == []
    machine(TWO, code=9)
    assert gpus.cards() == []


@pytest.mark.parametrize(
    "given, found",
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
def test_visible_devices_are_respected(machine, given, found):
    machine(TWO)
    assert gpus.cards({**os.environ, "CUDA_VISIBLE_DEVICES": given}) == found


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


def holders(count, seconds, share, **environment):
    command = [sys.executable, "-c", HOLDER, str(seconds), str(share)]
    given = {"stdout": subprocess.PIPE, "text": True, "env": os.environ | environment}
    return [subprocess.Popen(command, **given) for _ in range(count)]


@pytest.mark.parametrize("share", [1, 2])
def test_eight_processes_on_two_cards(share):
    """Never more than `share` on a card, spread evenly, and never an idle place while one waits."""
    running = holders(8, 0.6, share, CUDA_VISIBLE_DEVICES="0,1")
    seen = sorted((json.loads(p.communicate()[0].splitlines()[1]) for p in running), key=lambda times: times[1])
    for card, began, _ in seen:
        assert sum(other == card and start <= began < end for other, start, end in seen) <= share
    assert sorted(card for card, *_ in seen[:2]) == ["0", "1"]
    for card in ("0", "1"):
        times = [(began, ended) for other, began, ended in seen if other == card]
        assert len(times) == 4
        for began, _ in times[share:]:  # it waited, and began when a place became free
            assert began - max(ended for _, ended in times if ended <= began) < 0.5


def test_the_card_of_a_killed_process_is_free_at_once_whatever_it_started():
    child = HOLDER.replace(
        "time.sleep(float", "__import__('subprocess').Popen(['sleep', '5'], close_fds=False); time.sleep(float"
    )
    first = subprocess.Popen(
        [sys.executable, "-c", child, "60", "1"],
        env=os.environ | {"CUDA_VISIBLE_DEVICES": "0"},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert first.stdout.readline() == "0\n"
    (second,) = holders(1, 0.0, 1, CUDA_VISIBLE_DEVICES="0")
    time.sleep(0.5)
    assert second.poll() is None
    killed = time.monotonic()
    first.send_signal(signal.SIGKILL)
    _, began, _ = json.loads(second.communicate()[0].splitlines()[1])
    assert 0 < began - killed < 1
    first.wait()


def test_allocations_of_slurm_do_not_share_numbers(machine, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    with gpus.acquire_gpu("auto"):
        (other,) = holders(1, 0.0, 1, SLURM_JOB_ID="8")
        assert other.communicate(timeout=20)[0].startswith("0\n")


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
        pytest.raises(UserError, match=r"GPUs cannot be locked in .*belongs to somebody else"),
        gpus.acquire_gpu("auto"),
    ):
        pass


def test_a_share_below_one_is_refused():
    with pytest.raises(UserError, match="1 cell or more, not by 0"), gpus.acquire_gpu("auto", 0):
        pass
