"""Components of all four kinds in files of their own, through Snakemake: what an edit recomputes, and what is kept."""

import shutil

import plugins
import pyarrow.parquet as pq
import pytest
from forked import Forked
from processes import eventually

STUDY = plugins.STUDY.replace("plug/", "../plug/")
ANALYSIS = {"manifest": 1, "experiment": 1}
CELLS = {"mine": 1, "local": 1}
CASES = {
    "the model": ("net.py", "nn.ReLU()", "nn.Tanh()", CELLS),
    "a helper of the model": ("helper.py", "0.5", "1.0", CELLS),
    "the method": ("mine.py", '"""FedAvg by another name."""', 'score = "trained"', {"mine": 1}),
    "data of the partition": ("shift.json", "0", "1", {"partition": 1} | CELLS),
    "the data set": ("noise.py", '"noise", part', '"other noise", part', {"data": 1, "partition": 1} | CELLS),
    "a comment": ("kind.py", "class RoundRobin", "# why\nclass RoundRobin", {}),
}

WAITS = """        Path("began").touch()
        while Path("hold").exists():
            time.sleep(0.02)
        return RawDataset("""
"In place of the first word of the data set's `return`."

pytestmark = [pytest.mark.usefixtures("forker"), pytest.mark.full]


@pytest.fixture(scope="module")
def finished(tmp_path_factory, forker):
    path = tmp_path_factory.mktemp("finished") / "tree"
    path.mkdir()
    plugins.write(path)
    checkout = Forked(path, STUDY)
    checkout.snakemake()
    return checkout


def test_a_study_of_all_four_kinds_is_trained_by_the_code_that_the_run_keeps(finished):
    files = finished.cells()
    assert [file.relative_to(finished.path).parts[3:6] for file in files] == [
        ("local", "noise", "kind-clients4"),
        ("mine", "noise", "kind-clients4"),
    ]
    kept = {file.name for file in (finished.path / "results/store/code").rglob("outside/*/*")}
    assert kept == {*plugins.FILES}
    (local, mine) = (pq.read_table(file) for file in files)
    assert len(local) and len(mine)
    assert finished.planned() == {}


@pytest.mark.parametrize(("name", "old", "new", "jobs"), CASES.values(), ids=CASES)
def test_an_edit_recomputes_what_depends_on_it(finished, name, old, new, jobs):
    file = finished.path / "plug" / name
    text = file.read_text()
    assert old in text
    try:
        file.write_text(text.replace(old, new))
        assert finished.planned() == (jobs | ANALYSIS if jobs else {})
    finally:
        file.write_text(text)


def test_a_run_ends_with_the_code_that_it_began_with(finished, tmp_path):
    checkout = finished.copied(tmp_path / "tree")
    shutil.rmtree(checkout.path / "results")
    text = (checkout.path / "plug/noise.py").read_text()
    held = text.replace("        return RawDataset(", WAITS)
    (checkout.path / "plug/noise.py").write_text(f"import time\nfrom pathlib import Path\n{held}")
    (checkout.path / "hold").touch()
    with checkout.started() as run:
        try:
            assert eventually((checkout.path / "began").exists, 300)
            for name in plugins.FILES:
                (checkout.path / "plug" / name).write_text("damaged")
        finally:
            (checkout.path / "hold").unlink()
        output, _ = run.communicate()
    assert run.returncode == 0, output
    assert "edited during this run" in output
    assert len(checkout.cells()) == 2
