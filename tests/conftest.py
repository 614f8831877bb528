"""Options and fixtures of all tests."""

import gc
import os
import signal
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
import torch
from processes import listening
from reach import OVER, Reach
from tiers import mark_full

from fedgrid.data.common.images import MODALITIES
from fedgrid.grid.study import configure
from fedgrid.jobs import calibration, warm
from fedgrid.jobs.warm.client import SIGNALS
from fedgrid.loading import names

torch.set_num_threads(1)
calibration.SECONDS = 0.1  # no test asks for a good estimate
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job, and all its children, ignore it
EXAMPLES = sorted(map(str, Path(__file__).parent.glob("methods/examples/*.py")))
"Methods in files of their own, as a reader of docs/writing-a-method.md writes them."
os.environ["OMP_NUM_THREADS"] = "1"
os.environ.pop("FEDGRID_DATA", None)  # data sets of the developer's own are none of a test's

# descriptions of components are cached beside pytest's own cache, not in the user's
os.environ["XDG_CACHE_HOME"] = str(Path(__file__).parents[1] / ".pytest_cache" / "xdg")

WITH_PROCESSES = ("workflow", "cluster", "run", "jobs", "cli")
"""Folders of tests that start processes and take longest; they come first, and then files with many tests, so that no
core idles at the end."""
SHARED_DATA = Path(__file__).parents[2] / "shared" / "data"


def pytest_addoption(parser):
    parser.addoption("--reached", type=float, metavar="SECONDS", help="run what the last edit can reach, for so long")


def pytest_configure(config):
    seconds = config.getoption("--reached")
    config.reach = Reach(seconds) if seconds else None


def pytest_ignore_collect(collection_path, config):
    if config.reach and collection_path.name.startswith("test_") and collection_path not in config.reach.files:
        return True
    return None


@pytest.fixture(autouse=True)
def import_path():
    """Commands keep the working folder off the import path of processes; those of the next test have it again."""
    yield
    os.environ.pop("PYTHONSAFEPATH", None)


def pytest_generate_tests(metafunc):
    if "method_name" in metafunc.fixturenames:
        metafunc.parametrize("method_name", [*names("methods"), *EXAMPLES])


def pytest_collection_modifyitems(config, items):
    mark_full(items)
    if reach := config.reach:
        items[:] = sorted(filter(reach.takes, items), key=reach.order)
    else:
        sizes = Counter(item.path for item in items)
        items.sort(key=lambda item: (item.path.parent.name not in WITH_PROCESSES, -sizes[item.path], str(item.path)))


def pytest_collection_finish():
    """Thousands of tests in memory cost a tenth of the time where every collection of garbage walks through them."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)


def pytest_runtest_setup(item):
    reach = item.config.reach
    if reach and time.monotonic() > reach.end:
        pytest.skip(OVER)


def pytest_terminal_summary(terminalreporter, config):
    skipped = terminalreporter.stats.get("skipped", [])
    left = sum(OVER in str(report.longrepr) for report in skipped)
    if config.reach and left:
        terminalreporter.write_line(f"{left:,} tests that the edit can reach were left to `make test`: {OVER}")


@pytest.fixture
def working_folder(tmp_path, monkeypatch):
    """An empty folder, which is the working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def in_job(monkeypatch):
    """Lets a job's main work in this process, where a test has replaced something."""
    monkeypatch.setenv(warm.JOB, str(os.getpid()))
    yield
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="module")
def signals():
    """What trains in this process heeds signals, and ignores them at its end; these are the handlers from before."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def shared_data():
    """Real data sets as Parquet, where they lie beside the checkout."""
    if not SHARED_DATA.is_dir():
        pytest.skip("real data sets are not at hand beside this checkout")
    return SHARED_DATA


@pytest.fixture
def threads():
    """Sets the number of threads; it is put back after the test."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def worker():
    """A warm worker, so that a process of a cell starts in a fraction of a second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        patch.setenv(warm.VARIABLE, "")
        server = listening()
        yield
        server.stop()


@pytest.fixture
def two_modalities(monkeypatch):
    """While a study is resolved, its model is one for pictures and captions."""

    def described(kind, name, real=configure.description):
        actual = real(kind, name)
        return actual if kind != "models" else actual | {"facts": actual["facts"] | {"modalities": list(MODALITIES)}}

    monkeypatch.setattr(configure, "description", described)
