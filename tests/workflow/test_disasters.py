"""Full and read-only disks, processes that die while they write, two runs at once: one sentence, nothing lost."""

import json
import os
import re
import shutil
import subprocess
import sys
from functools import partial

import dying
import pyarrow.parquet as pq
import pytest
from checkout import STUDY, Checkout, accuracy_tables
from disk import Disk
from forked import Forked, Forker
from processes import listening, warm_command
from studies import plan_of, prepared, study_of
from tiers import every_third

from fedgrid.engine.state.checkpoint import DIGEST_SIZE, _digest
from fedgrid.jobs import warm
from fedgrid.jobs.status import Status
from fedgrid.run import cell_states

SMALL = re.sub(r"methods:\n(.*\n)*", "methods: [fedavg]\n", STUDY).replace("[0, 1]", "[0]")
REPORT = "results/tiny/report.html"
FULL, CLOSED = "No space left on device|its disk was full", "Read-only file system"
ENDS = {".svg": "</svg>", ".pdf": "%%EOF", ".html": ">", ".csv": "\n", ".md": "\n", ".tex": "\n", ".txt": "\n"}


def assert_whole(folder):
    """No file under a final name is damaged."""
    for file in folder.rglob("*"):
        left_out = file.name.startswith(".") or file.name == "filler" or {"logs", "code"} & set(file.parts)
        if file.is_file() and not left_out:
            assert_whole_file(file)


def assert_whole_file(file):
    if file.suffix == ".parquet":
        pq.read_table(file)
    elif file.suffix == ".json":
        json.loads(file.read_text())
    elif file.suffix == ".pt":
        content = file.read_bytes()
        assert _digest(content[DIGEST_SIZE:]) == content[:DIGEST_SIZE], file
    else:
        assert file.read_text(errors="replace").rstrip().endswith(ENDS[file.suffix].rstrip()) and file.stat().st_size


def assert_one_sentence(printed, reason):
    """The output names a path and the reason, and shows none of our entrails."""
    assert re.search(rf"^fedgrid: .*results.*\(({reason})\)$", printed, re.M), printed[-3000:]
    assert "Traceback" not in printed, printed[-3000:]


def tables(results):
    """What is the same in every run: the bytes of the accuracy tables, the rows of the cells."""
    cells = (results / "store/cells").rglob("s*.parquet")
    return accuracy_tables(results) | {file.name: pq.read_table(file).to_pydict() for file in cells}


@pytest.fixture(scope="module")
def undisturbed(forker, tmp_path_factory):
    checkout = Forked(tmp_path_factory.mktemp("undisturbed") / "tree", SMALL)
    checkout.snakemake(REPORT)
    (checkout.cell,) = (str(cell.relative_to(checkout.path)) for cell in checkout.cells())
    return checkout


# The whole workflow


class ForkerOnDisk(Forker):
    """A forker whose processes find the disk."""

    def __init__(self, disk):
        self.disk = disk

    def command(self):
        return self.disk.own(super().command(), self.disk.folder.parent)


class OnDisk(Forked):
    """A checkout whose results lie on a small disk; Snakemake, which keeps its own records elsewhere, runs on it."""

    def __init__(self, like, path):
        super().__init__(path, SMALL)
        self.disk = Disk(path / "results", megabytes=8)
        self.results = self.disk.seen
        self.take(like, "store/code")

    def take(self, other, *folders):
        """Copies folders of another checkout's results."""
        for folder in folders:
            shutil.copytree(other.path / "results" / folder, self.results / folder, dirs_exist_ok=True)

    def drop(self, *folders):
        for folder in folders:
            shutil.rmtree(self.results / folder)


@pytest.fixture
def on_disk(undisturbed, tmp_path, monkeypatch):
    checkout = OnDisk(undisturbed, tmp_path / "tree")
    monkeypatch.setenv(warm.VARIABLE, "")
    forker = listening(partial(ForkerOnDisk, checkout.disk))
    yield checkout
    forker.stop()
    checkout.disk.end()


@pytest.mark.full
def test_a_disk_that_is_full_at_every_step(undisturbed, on_disk):
    on_disk.disk.fill()
    assert_one_sentence(on_disk.snakemake(REPORT, code=2), FULL)
    made = ["store/data", "store/partitions"], ["store/cells"]
    for there in ([], *made):
        on_disk.disk.empty()
        on_disk.take(undisturbed, *there)
        on_disk.disk.fill(left=16_384)
        assert_one_sentence(on_disk.snakemake(undisturbed.cell, REPORT, code=1), FULL)
        assert_whole(on_disk.results)
    on_disk.disk.empty()
    on_disk.drop(*made[0], *made[1])
    on_disk.snakemake(undisturbed.cell, REPORT)
    assert tables(on_disk.results) == tables(undisturbed.path / "results")


@pytest.mark.full
def test_read_only_results_can_be_looked_at(undisturbed, on_disk):
    on_disk.take(undisturbed, "store")
    on_disk.disk.remount("ro")
    for command, words in ((["status"], "1 done"), (["plan"], "1 cached"), (["logs", "fedavg"], "round 2/2")):
        assert words in on_disk.fedgrid(*command)
    printed = on_disk.fedgrid("run", "fedper", "--rounds", "1", code=2)
    assert printed.count("\n") == 1 and CLOSED in printed
    assert_one_sentence(on_disk.snakemake(REPORT, code=2), CLOSED)
    on_disk.disk.remount("rw")
    (on_disk.results.parent / undisturbed.cell).unlink()
    on_disk.snakemake(REPORT)
    assert tables(on_disk.results) == tables(undisturbed.path / "results")


class Mortal(Forked):
    """A checkout in which processes die where they write a file that fits the `pattern`, each file once.

    Those are plain processes: the others are forked from one that is immortal.
    """

    pattern = ""

    def command(self, *arguments):
        return Checkout.command(self, *arguments) if self.pattern else super().command(*arguments)

    @property
    def environment(self):
        hook, given = self.path / "hook", super().environment
        if not self.pattern:
            return given
        hook.mkdir(exist_ok=True)
        (hook / "sitecustomize.py").write_text(dying.STARTUP)
        shutil.copy(dying.__file__, hook)
        path = os.pathsep.join([given["PYTHONPATH"], str(hook)])
        return given | {"PYTHONPATH": path, dying.VARIABLE: f"{self.pattern}\n{hook}", warm.VARIABLE: ""}


@pytest.mark.full
def test_jobs_of_a_run_that_die_while_they_write(undisturbed, tmp_path):
    checkout = Mortal(tmp_path / "tree", SMALL)
    checkout.pattern = "store/cells/|figures/.*svg$"
    for _ in ("the cell", "a figure"):
        printed = checkout.snakemake(REPORT, code=1)
        assert "fedgrid: the process of this job was killed" in printed and "Traceback" not in printed
        assert_whole(checkout.path / "results")
    checkout.pattern = ""
    checkout.snakemake(REPORT)
    drawn = checkout.path / "results/tiny/figures/curves-digits"
    assert all(drawn.with_suffix(end).is_file() for end in (".svg", ".pdf", ".txt"))
    assert tables(checkout.path / "results") == tables(undisturbed.path / "results")


@pytest.mark.full
def test_two_runs_at_once(undisturbed, tmp_path):
    checkout = Forked(tmp_path / "tree", SMALL)
    runs = [checkout.started(REPORT) for _ in range(2)]
    printed = {run.returncode: text for run, text in [(run, run.communicate()[0]) for run in runs]}
    assert printed.keys() == {0, 2}, printed
    assert printed[2].count("fedgrid: results/store is in use by another run") == 1
    assert "Traceback" not in printed[0] + printed[2]
    assert_whole(checkout.path / "results")
    assert tables(checkout.path / "results") == tables(undisturbed.path / "results")


# One cell


class Cell:
    """The only cell of a study, with its data set and its partition in a folder, and the plan of its run."""

    def __init__(self, folder):
        changes = {"results": str(folder), "download": False, "artifacts": ["representations"]}
        self.study = prepared(study_of(SMALL, compute={"checkpoint_every": 1e-6}, **changes))
        self.cell, self.plan = self.study.cells[0], plan_of(self.study)

    def run(self, *module, log=subprocess.PIPE):
        """Exit code and output of the process."""
        module = module or ("fedgrid.jobs.cell",)
        command = warm_command(*module, str(self.plan), self.cell.key)
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        run = subprocess.run(command, env=environment, stdout=log, stderr=subprocess.STDOUT, text=True)
        return run.returncode, run.stdout

    def actual(self):
        """The tables of its results, and of what is kept beside them."""
        return [pq.read_table(file).to_pydict() for file in self.cell.files]


@pytest.fixture(scope="module")
def trained(forker, tmp_path_factory):
    cell = Cell(tmp_path_factory.mktemp("results"))
    assert cell.run()[0] == 0
    cell.whole = cell.actual()
    return cell


@pytest.fixture
def cell(trained):
    """The cell, without the results of other tests: a process that finds them has nothing to do."""
    shutil.rmtree(trained.cell.file.parent, ignore_errors=True)
    return trained


@pytest.fixture
def disk(tmp_path):
    disk = Disk(tmp_path / "disk", megabytes=1)
    yield disk
    disk.end()


@pytest.mark.parametrize("which", every_third(["cells", "status", "checkpoints"]))
def test_a_cell_with_one_file_on_a_full_disk(cell, disk, which):
    place, there = cell.study.store / which, disk.seen / which
    shutil.rmtree(place, ignore_errors=True)
    there.mkdir()
    place.symlink_to(there)
    try:
        disk.fill()
        code, printed = cell.run()
        assert code == 2 and "Traceback" not in printed
        assert re.search(rf"\nfedgrid: {place}/.*: cannot be written \(No space left on device\)\n$", "\n" + printed)
        assert not [f for f in disk.seen.rglob("*") if f.is_file() and f.name != "filler"]
        if which != "status":
            assert cell_states.read(cell.study)[cell.cell.key].remark.endswith("(No space left on device)")
        disk.empty()
        assert cell.run()[0] == 0
        assert cell.actual() == cell.whole
    finally:
        place.unlink()


def test_what_became_of_a_cell_is_noted_on_a_full_disk(cell, disk):
    """The note that it is at work is overwritten where it lies."""
    place = cell.study.store / "status"
    shutil.rmtree(place, ignore_errors=True)
    place.symlink_to(disk.seen)
    try:
        note = Status(cell.cell.status, rounds=2)
        note.running()
        disk.fill()
        note.failed("enough")
        assert cell_states.read(cell.study)[cell.cell.key] == cell_states.State("failed", "enough")
    finally:
        place.unlink()


def test_a_finished_cell_does_not_fail_over_its_log(cell, disk):
    with open(disk.seen / "log", "w") as log:
        disk.fill()
        assert cell.run(log=log)[0] == 0
    assert cell.actual() == cell.whole


@pytest.mark.full
def test_twenty_deaths_in_the_middle_of_a_write(cell):
    targets = ("status/", "checkpoints/", "representations.parquet$", r"s0-\w+.parquet$")
    moments = [(target, share) for target in targets for share in (0.0, 0.3, 0.7, 1.0, 2.0)]
    for target, share in moments:
        code, printed = cell.run("dying", target, str(share))
        assert code == 70 and "Traceback" not in printed, printed
        assert_whole(cell.study.results)
        assert cell.cell.file.exists() == (share > 1 and target == targets[-1])
    assert len(moments) == 20 and list(cell.study.results.rglob(".*.tmp"))
    assert cell.run()[0] == 0
    assert cell.actual() == cell.whole
    assert not cell.cell.status.exists() and not list((cell.study.store / "checkpoints").glob("*.pt"))
