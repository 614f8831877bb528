"""A run that is told to end does so, at whatever moment it hears of it."""

import os
import signal
import threading
import time
from contextlib import contextmanager

import pytest
from checkout import STUDY
from forked import Forked

from fedgrid.run.invocation import _end_without_reader, _handle_in_thread

SIGTERM_WHEN_A_JOB_ENDS = """
import os, signal
from snakemake.scheduling.job_scheduler import JobScheduler

def finish_jobs(scheduler, finish=JobScheduler._finish_jobs):
    if scheduler._tofinish:
        os.kill(os.getpid(), signal.SIGTERM)
    finish(scheduler)

JobScheduler._finish_jobs = finish_jobs
"""
"Lines of a Snakefile: the signal comes while Snakemake's main thread holds the lock of its scheduler."
FAILING = """[ -n "$WARM" ] && touch waiting && until [ -e gone ]; do sleep 0.1; done && exit 1
"""
"A line of the script of a job: that of a cell fails once a file is there."
PATIENCE = 120
"Seconds for which a run may go on after it has been told to end."


@pytest.fixture
def terminated():
    """A lock, and an event that the handler of SIGTERM sets once it has the lock."""
    lock, event = threading.Lock(), threading.Event()

    def handler(*_):
        with lock:
            event.set()

    before = signal.signal(signal.SIGTERM, handler)
    _handle_in_thread(signal.SIGTERM)
    yield lock, event
    signal.signal(signal.SIGTERM, before)


def test_a_handler_may_need_a_lock_that_the_main_thread_holds(terminated):
    lock, event = terminated
    with lock:
        os.kill(os.getpid(), signal.SIGTERM)
        assert not event.is_set()
    assert event.wait(PATIENCE)


def test_a_message_that_nobody_reads_is_lost_and_ends_the_run(terminated):
    _, event = terminated
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w", buffering=1) as stream:
        _end_without_reader(stream)
        print("a job failed", file=stream)
        assert event.wait(PATIENCE)
        print("another one did", file=stream)


@pytest.mark.full
def test_a_run_ends_that_is_terminated_while_its_scheduler_is_at_work(tmp_path, forker):
    checkout = Forked(tmp_path / "tree", STUDY)
    with open(checkout.path / "workflow/Snakefile", "a") as snakefile:
        snakefile.write(SIGTERM_WHEN_A_JOB_ENDS)
    with ending(checkout) as run:
        printed, _ = run.communicate(timeout=PATIENCE)
    assert run.returncode == 1, printed
    assert "Run the same command to continue." in printed
    assert len(checkout.cells()) < 10


@pytest.mark.full
def test_a_run_ends_whose_job_fails_after_the_reader_of_its_output(tmp_path, forker):
    checkout = Forked(tmp_path / "tree", STUDY)
    checkout.edit("workflow/scripts/job.sh", "log=$1", FAILING + "log=$1")
    with ending(checkout) as run:
        while not (checkout.path / "waiting").exists():
            assert run.poll() is None
            time.sleep(0.05)
        run.stdout.close()
        (checkout.path / "gone").touch()
        assert run.wait(PATIENCE) == 1


@contextmanager
def ending(checkout):
    """A run that trains cells, and is killed where it has not ended by then."""
    with checkout.started("--until", "train") as run:
        try:
            yield run
        finally:
            run.kill()
