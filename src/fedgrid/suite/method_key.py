"""What the key of a method in a file of its own covers: all that it reads and runs."""

from fedgrid.engine.rounds import federate
from fedgrid.grid.study.audit import Watch
from fedgrid.grid.study.fingerprint import check_files, uncovered
from fedgrid.loading import locate
from fedgrid.suite import simulations
from fedgrid.suite.expectations import KEY, check, expect


@check("its key covers what it reads and runs", KEY)
def test_its_key_covers_what_it_does(method_name: str) -> None:
    """Of a method outside the package: what it opens and runs in rounds is beside it, or installed."""
    _, module, file = locate("methods", method_name)
    if file is None:
        return
    flaws = uncovered(module, file)
    expect(not flaws, "; ".join(flaws))
    check_files(simulations.method_class(method_name), module, file)
    with Watch(module, file):
        federate(simulations.method(method_name), simulations.ragged(2, rounds=2, batch_size=8))
