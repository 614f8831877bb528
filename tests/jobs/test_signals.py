"""Signals at known moments: an interrupted job ends with 75, a finished one with 0, and none with a traceback."""

import io
import os
import shutil
import signal
import socket
import subprocess

import pytest
from processes import PIPES, warm_command
from studies import plan_of, prepared, study_of
from tiers import every_third

from fedgrid.errors import say
from fedgrid.jobs import warm
from fedgrid.jobs.signals import TERMINATED
from fedgrid.jobs.status import Note
from fedgrid.jobs.warm.client import READY

ALL = [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1]
BOTH = pytest.mark.parametrize("number", ALL[:2], ids=lambda number: number.name)


class Job:
    """A cell whose job is interrupted at a known moment."""

    def __init__(self, folder):
        self.study = prepared(study_of(results=str(folder / "results"), methods=["fedavg"], seeds=[0]))
        (self.cell,) = self.study.cells
        self.plan = str(plan_of(self.study))

    def start(self, *module):
        command = warm_command(*module, self.plan, self.cell.key)
        return subprocess.Popen(command, **PIPES)

    def run(self, *module):
        """Exit code and output."""
        run = self.start(*module)
        output = run.communicate()[0]
        assert "Traceback" not in output, output
        return run.returncode, output

    @property
    def noted(self):
        return Note.read(self.cell.status).state


@pytest.fixture(scope="module")
def job(worker, tmp_path_factory):
    return Job(tmp_path_factory.mktemp("job"))


@pytest.fixture
def unfinished(job):
    shutil.rmtree(job.cell.file.parent, ignore_errors=True)
    return job


@pytest.fixture
def finished(job):
    if not job.cell.done:
        assert job.run("fedgrid.jobs.cell")[0] == 0
    return job


@pytest.mark.full
@pytest.mark.parametrize("kind", ["warm", "plain"])
@BOTH
def test_a_signal_waits_until_the_job_has_its_handlers(unfinished, monkeypatch, kind, number):
    if kind == "plain":
        monkeypatch.delenv(warm.VARIABLE)
    run = unfinished.start("stopping", "import", str(int(number)))
    assert run.stdout.readline() == "waiting\n"
    run.send_signal(number)
    output = run.communicate()[0]
    assert (output, run.returncode) == ("interrupted; run the same command to continue\n", TERMINATED)
    assert not unfinished.cell.done
    monkeypatch.undo()
    assert unfinished.run("fedgrid.jobs.cell")[0] == 0


@BOTH
@pytest.mark.parametrize("moment", every_third(["install_signal_handlers", "_main", "Status", "is_finished", "train"]))
def test_a_signal_before_the_results_are_written(unfinished, moment, number):
    unfinished.cell.status.unlink(missing_ok=True)
    code, output = unfinished.run("stopping", moment, str(int(number)))
    assert code == TERMINATED and output.endswith("interrupted; run the same command to continue\n")
    assert not unfinished.cell.done
    if moment in ("is_finished", "train"):
        assert unfinished.noted == "interrupted"


@pytest.mark.parametrize("moment", ["Status", "train", "return"])
def test_several_signals_at_once_are_one(unfinished, moment):
    code, _ = unfinished.run("stopping", moment, " ".join(str(int(number)) for number in ALL))
    assert code == (0 if moment == "return" else TERMINATED)


@BOTH
@pytest.mark.parametrize("moment", every_third(["_metadata", "say", "return"]))
def test_a_signal_after_the_last_round_comes_too_late(unfinished, moment, number):
    code, _ = unfinished.run("stopping", moment, str(int(number)))
    assert code == 0 and unfinished.cell.done and not unfinished.cell.status.exists()


@pytest.mark.parametrize("moment", ["remove_checkpoint", "say", "return"])
def test_a_signal_after_the_results_of_another_process_were_met(finished, moment):
    assert finished.run("stopping", moment, str(int(signal.SIGTERM)))[0] == 0


def test_a_signal_after_a_mistake_of_the_user_changes_nothing(unfinished):
    partition = unfinished.cell.partition.file
    hidden = partition.rename(partition.with_suffix(".hidden"))
    try:
        code, output = unfinished.run("stopping", "complain", str(int(signal.SIGTERM)))
    finally:
        hidden.rename(partition)
    assert code == 2 and output.startswith("fedgrid: ") and unfinished.noted == "failed"


def test_no_signal_comes_between_a_line_and_its_end():
    class Pieces(io.StringIO):
        def write(self, text):
            pieces.append(text)

    pieces = []
    say("round 1/2", Pieces())
    assert pieces == ["round 1/2\n"]


# The client, with a server of the test


class Server:
    """Takes the one job of a client."""

    def __init__(self, folder):
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(folder / "socket"))
        self.listener.listen()
        environment = os.environ | {warm.VARIABLE: str(folder / "socket")}
        self.client = subprocess.Popen(warm_command("module"), env=environment, **PIPES)
        self.connection, _ = self.listener.accept()
        self.connection.sendall(READY)
        length, descriptors, *_ = socket.recv_fds(self.connection, 8, 2)
        for descriptor in descriptors:  # or the end of the client would not be the end of its output
            os.close(descriptor)
        self.connection.recv(int.from_bytes(length, "big"), socket.MSG_WAITALL)

    def signal(self, number, flags=0):
        """The client gets a signal, and passes it on; with MSG_PEEK it is not read here."""
        self.client.send_signal(number)
        assert self.connection.recv(1, flags) == b"T"

    def end(self, answer=b""):
        """Answers, closes the connection, and only then lets the client hear of it, after another signal."""
        self.client.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.client.pid, os.WSTOPPED)
        self.connection.sendall(answer)
        self.connection.close()
        self.client.send_signal(signal.SIGINT)
        self.client.send_signal(signal.SIGCONT)
        return self.client.communicate()[0], self.client.wait()

    def close(self):
        self.client.kill()
        self.client.wait()
        self.client.stdout.close()
        self.connection.close()
        self.listener.close()


@pytest.fixture
def server(tmp_path):
    server = Server(tmp_path)
    yield server
    server.close()


def test_a_second_signal_after_the_end_of_the_job(server):
    server.signal(signal.SIGUSR1)
    assert server.end(b"75") == ("", TERMINATED)


def test_a_signal_after_the_end_of_a_finished_job(server):
    server.signal(signal.SIGINT)
    assert server.end(b"0") == ("", 0)


def test_an_answer_is_heard_though_the_job_has_not_read_the_signal(server):
    server.signal(signal.SIGTERM, socket.MSG_PEEK)
    assert server.end(b"75") == ("", TERMINATED)


def test_a_job_that_is_killed_before_it_reads_the_signal_is_a_failed_job(server):
    server.signal(signal.SIGTERM, socket.MSG_PEEK)
    assert server.end() == ("fedgrid: the process of this job was killed\n", 70)
