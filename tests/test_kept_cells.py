"""The cells that the repository keeps, of the papers at scale small, are those of the code beside them."""

import sys

import pytest

from benchmarks.papers import unpack
from fedgrid.cli.main import main

PAPERS = ("fedcosr", "fedcrl", "fedccl", "fedssc", "fedsac")
NOT_HERE = "no finished cell can be compared on this machine"


@pytest.mark.full
def test_ten_cells_at_random_come_to_the_same_bits(request, tmp_path, monkeypatch, shared_data, capfd):
    """Those of this kind of processor; where there are none, that is the reason to skip."""
    root = request.config.rootpath
    monkeypatch.setenv("FEDGRID_DATA", str(shared_data))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.chdir(root)
    unpack("small", tmp_path)
    monkeypatch.chdir(tmp_path)
    files = [str(root / f"config/papers/{paper}.yaml") for paper in PAPERS]
    code = main(["verify", *files, "--scale", "small", "--cells", "10", "--cores", "2"])
    out, problem = capfd.readouterr()
    print(out, problem, file=sys.stderr)
    if NOT_HERE in problem:
        pytest.skip(problem.strip())
    assert code == 0 and "10 cells trained again: every recorded bit is the same" in out
