"""What keeps the bits of two results from being compared."""

from dataclasses import replace

from fedgrid.grid.earlier.circumstances import NOT_RECORDED, Circumstances
from fedgrid.grid.plan.cell_metadata import Platform

HERE = Circumstances("EPYC", "avx2 avx512f", 1, "loop", "cpu", "2.6", "2.1")


def test_every_difference_is_named():
    other = replace(HERE, processor="Xeon", instructions="amx avx2", torch="2.5")
    assert other.differences(HERE) == [
        "processor Xeon (here EPYC)",
        "torch 2.5 (here 2.6)",
        "amx (missing here)",
        "no avx512f (present here)",
    ]


def test_an_instruction_set_that_was_not_recorded_is_no_difference():
    hardware = {"cpu": "EPYC", "threads": 1, "executor": "loop", "device": "cpu"}
    unrecorded = Circumstances.of(Platform({"torch": "2.6", "numpy": "2.1"}, hardware))
    assert unrecorded.instructions == NOT_RECORDED and unrecorded.differences(HERE) == []
