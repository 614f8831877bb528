"""The cases of `make numerics`: every module that counts is reached, and no case that reads files fails."""

import pytest
import yaml

from benchmarks.numerics.cases import MATRIX, REFUSED, cases, variants
from benchmarks.numerics.inputs import write_inputs
from benchmarks.numerics.worker import FAILED, NOT_AT_ALL, compute
from fedgrid.grid.study import ledger
from fedgrid.grid.study.sources import Sources
from fedgrid.loading import load, names

FAILING = {
    "inputs of imported from PFLlib, too far, local": "whatever usual normalisation is undone",
    "inputs of own kind of partition, wrong, local": "is dealt out twice",
}
"Cases that have to fail, and what they fail with."


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    write_inputs(folder)
    return folder


@pytest.mark.full
def test_every_unit_of_the_ledger_is_reached_and_every_entry_of_the_matrix_planned(inputs):
    planned = list(cases(inputs))
    reached = {module for case in planned for modules in case.reached.values() for module in modules}
    assert {*ledger.units(Sources.of())} - reached == set(), "add a case to benchmarks/numerics/matrix.yaml"
    matrix = yaml.safe_load(MATRIX.read_text(encoding="utf-8"))
    for name, changes in (matrix["cases"] | dict(variants(matrix["variants"]))).items():
        begin = f"inputs of {name}, " if changes.get("trained") == NOT_AT_ALL else f"{name}, loop, "
        of_entry = [case for case in planned if case.name.startswith(begin)]
        assert of_entry and not any(REFUSED in case.reached for case in of_entry), f"planning refuses '{name}'"


def published():
    """The data sets whose authors' own files are read."""
    return [name for name in names("data") if load("data", name).wanted]


def test_cases_read_their_files(inputs, tmp_path):
    reading = {f"fedgrid.data.{name}" for name in (*published(), "folder", "table")}
    reading |= {"fedgrid.partition.file", "fedgrid.partition.imported", "fedgrid.partition.common.dealt_rows"}
    chosen = list(cases(inputs, reading))
    assert {name for case in chosen if "data" in case.work for name in case.reached} == {*published()}
    for case in chosen:
        compute(case.job, tmp_path)
        out = tmp_path / case.name
        failure = (out / FAILED).read_text() if (out / FAILED).is_file() else ""
        assert FAILING.get(case.name, "") in failure and bool(failure) == (case.name in FAILING), case.name
        assert failure or len(list(out.iterdir())) >= 2
