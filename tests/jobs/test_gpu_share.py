"""How many cells a GPU computes at a time, from its memory and the machine's cores."""

import os

import pytest

from fedgrid.jobs import gpu_share
from fedgrid.jobs.gpu_share import cells_on_a_gpu, memory, side_by_side
from fedgrid.settings import Compute


@pytest.mark.parametrize(
    ("cores", "cards", "mib", "threads", "expected"),
    [
        (16, 1, 81559, 1, 8),
        (16, 1, 24564, 1, 2),
        (16, 4, 81559, 1, 4),
        (16, 1, 81559, 4, 4),
        (2, 1, 81559, 1, 2),
        (64, 1, 143771, 1, gpu_share.MOST),
        (1, 2, 81559, 1, 1),
        (16, 1, 4096, 1, 1),
        (16, 0, 0, 1, 1),
    ],
)
def test_auto_is_what_memory_and_cores_carry(monkeypatch, cores, cards, mib, threads, expected):
    monkeypatch.setattr(gpu_share, "cores", lambda: cores)
    monkeypatch.setattr(gpu_share, "cards", lambda: ["card"] * cards)
    monkeypatch.setattr(gpu_share, "memory", lambda: mib)
    assert cells_on_a_gpu(Compute(threads=threads)) == expected


@pytest.mark.parametrize("share", [3, "3"])
def test_a_number_is_taken_as_it_is(monkeypatch, share):
    monkeypatch.setattr(gpu_share, "memory", lambda: pytest.fail("not asked for"))
    assert cells_on_a_gpu(Compute(gpu_share=share)) == 3


@pytest.fixture
def nvidia_smi(tmp_path, monkeypatch):
    """Makes a program of that name that prints some lines."""

    def made(lines, code=0):
        program = tmp_path / "nvidia-smi"
        program.write_text(f"#!/bin/sh\nprintf '{lines}'\nexit {code}\n")
        program.chmod(0o755)

    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    return made


@pytest.mark.parametrize(
    ("lines", "code", "expected"), [(r"81559\n24564\n", 0, 24564), ("[N/A]", 0, 0), ("", 0, 0), ("81559", 9, 0)]
)
def test_the_memory_of_the_smallest_card(nvidia_smi, lines, code, expected):
    nvidia_smi(lines, code)
    assert memory() == expected


def test_without_nvidia_smi_no_memory_is_known(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert memory() == 0


def test_mps_runs_where_somebody_reads_its_pipe(tmp_path, monkeypatch):
    monkeypatch.setenv(gpu_share.PIPES, str(tmp_path))
    assert not side_by_side()
    os.mkfifo(tmp_path / "control")
    assert not side_by_side()  # a daemon was there
    reader = os.open(tmp_path / "control", os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert side_by_side()
    finally:
        os.close(reader)
