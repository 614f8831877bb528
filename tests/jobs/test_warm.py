"""The warm worker: one process a job, the same exit codes and output, and a plain process where no server is."""

import os
import random
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from processes import alive, eventually, listening, warm_command

from fedgrid.jobs import warm
from fedgrid.jobs.warm import server

JOB = """
import os, sys, time
def main(argv):
    if argv[0] == "say":
        print("said", os.environ.get("COLOUR"), os.getcwd()); print("wrong", file=sys.stderr)
    if argv[0] == "code":
        return int(argv[1])
    if argv[0] == "raise":
        raise ValueError("no")
    if argv[0] == "exit":
        sys.exit("sentence")
    if argv[0] == "code_of":
        import fedgrid; print(fedgrid.__file__)
    if argv[0] == "note":
        time.sleep(float(argv[2])); open(argv[1], "a").write("done\\n")
    if argv[0] == "fork" and not os.fork():
        os.closerange(0, 3); time.sleep(30); os._exit(0)
    if argv[0] in ("sleep", "fork"):
        open("started", "w").write(str(os.getpid())); time.sleep(600)
if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
"""


PATIENCE = 60.0
"Seconds after which what should have happened is taken not to happen."
LOST = 10.0
"Seconds after which a client must have noticed that its worker is lost."


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("jobs")
    (path / "job.py").write_text(JOB)
    return path


def libraries(folder, code=""):
    """The path of Python with modules of that code in place of the libraries that a server imports: they take long."""
    for library in {"pyarrow", *server.LIBRARIES}:
        place = folder / library.replace(".", "/")
        place.mkdir(parents=True, exist_ok=True)
        (place / "__init__.py").write_text(code)
    return {"PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}


@pytest.fixture(scope="module", params=["warm", "plain"])
def environment(request, folder):
    path = libraries(folder) | {"COLOUR": "blue"}
    if request.param == "plain":
        yield os.environ | path
        return
    with pytest.MonkeyPatch.context() as patch:
        worker = start_worker(folder, patch)
        yield os.environ | path
        worker.stop()
        assert not Path(worker.socket).parent.exists()


def start_worker(folder, patch):
    """A worker that listens and has no libraries; its socket stands in the environment."""
    patch.setenv("PYTHONPATH", libraries(folder)["PYTHONPATH"])
    patch.setenv(warm.VARIABLE, "")
    return listening()


@pytest.fixture
def light_worker(folder, monkeypatch):
    """A worker of one test, which may do to it what it likes."""
    worker = start_worker(folder, monkeypatch)
    yield worker
    worker.stop()


def test_what_a_killed_run_left_is_removed_by_the_next(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    ended = subprocess.Popen(["true"])
    ended.wait()
    names = (f"{ended.pid}-x", f"{os.getpid()}-x", "somebody-x", f"{ended.pid}-young", f"{ended.pid}-heard")
    left, going, others, young, heard = (tmp_path / f"{warm.PREFIX}{name}" for name in names)
    for folder in (left, going, others, young, heard):
        folder.mkdir()
    with socket.socket(socket.AF_UNIX) as listener:  # of a process whose number is another one where it is
        listener.bind(str(heard / "socket"))
        listener.listen()
        (left / "socket").touch()
        for folder in (left, going, others, heard):
            os.utime(folder, (0, 0))
        warm.remove_leftovers()
    assert not left.exists() and all(folder.exists() for folder in (going, others, young, heard))


def job(environment, folder, *arguments):
    pipes = {"capture_output": True, "text": True, "timeout": PATIENCE}
    return subprocess.run(warm_command("job", *arguments), env=environment, cwd=folder, **pipes)


@pytest.fixture
def sleeping(request, environment, folder):
    """A client whose job sleeps, and the number of the job's process."""
    started = folder / "started"
    started.unlink(missing_ok=True)
    command = warm_command("job", getattr(request, "param", "sleep"))
    run = subprocess.Popen(command, env=environment, cwd=folder, stderr=subprocess.PIPE, text=True)
    assert eventually(lambda: started.exists() and started.read_text())
    yield run, int(started.read_text())
    run.kill()
    run.communicate()


def test_output_environment_and_folder(environment, folder):
    run = job(environment, folder, "say")
    assert (run.stdout, run.stderr, run.returncode) == (f"said blue {folder}\n", "wrong\n", 0)


def test_a_job_runs_the_code_that_its_own_environment_names(environment, folder, tmp_path):
    (tmp_path / "fedgrid").mkdir()
    code = tmp_path / "fedgrid/__init__.py"
    code.touch()
    path = os.pathsep.join([str(tmp_path), environment["PYTHONPATH"]])
    assert job(environment | {"PYTHONPATH": path}, folder, "code_of").stdout == f"{code}\n"


def test_exit_codes(environment, folder):
    assert job(environment, folder, "code", "0").returncode == 0
    assert job(environment, folder, "code", "2").returncode == 2
    assert job(environment, folder, "exit").returncode == 1
    run = job(environment, folder, "raise")
    assert run.returncode == 1 and "ValueError: no" in run.stderr


def test_a_killed_client_takes_its_job_along(sleeping):
    run, process = sleeping
    run.kill()
    run.wait()
    assert eventually(lambda: not alive(process))


def test_a_killed_job_is_a_failed_job(environment, sleeping):
    run, process = sleeping
    os.kill(process, signal.SIGKILL)
    printed = run.communicate(timeout=PATIENCE)[1]
    if warm.VARIABLE in environment:
        assert "was killed" in printed and run.returncode == 70
    else:  # job and client are one process
        assert process == run.pid and run.returncode == -signal.SIGKILL


@pytest.mark.parametrize("sleeping", ["fork"], indirect=True)
def test_a_killed_job_is_noticed_though_what_it_forked_lives_on(sleeping):
    run, process = sleeping
    os.kill(process, signal.SIGKILL)
    assert run.wait(LOST) in (70, -signal.SIGKILL)


@pytest.mark.parametrize("megabytes", [0, pytest.param(1, marks=pytest.mark.full)])
def test_a_job_for_a_stopped_server_is_done_once_by_its_client(light_worker, folder, megabytes):
    """Whether or not the server's buffer has room for the whole message."""
    done, large = folder / f"done-{megabytes}", {f"LARGE_{n}": "x" * 100_000 for n in range(10 * megabytes)}
    light_worker.process.send_signal(signal.SIGSTOP)
    began = time.monotonic()
    assert job(os.environ | large, folder, "note", str(done), "0").returncode == 0
    assert time.monotonic() - began < LOST
    light_worker.process.send_signal(signal.SIGCONT)
    assert job(os.environ, folder, "code", "3").returncode == 3
    assert eventually(lambda: not children(light_worker.process.pid))
    assert done.read_text() == "done\n"


def children(process):
    """The numbers of the processes that a process has started."""
    return [int(number) for number in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def test_a_job_is_done_by_its_client_where_the_worker_is_killed_before_it_takes_it(folder, tmp_path):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        listener.listen()
        environment = os.environ | libraries(folder) | {warm.VARIABLE: str(tmp_path / "socket")}
        run = subprocess.Popen(warm_command("job", "code", "3"), env=environment, cwd=folder)
        listener.accept()[0].close()
        assert run.wait(LOST) == 3


@pytest.mark.full
def test_a_hundred_kills_at_random_moments(folder, monkeypatch):
    """Every client ends soon; it says that its job is done only where it is."""
    moments, worker = random.Random(7), start_worker(folder, monkeypatch)
    for number in range(100):
        done = folder / f"killed-{number}"
        run = subprocess.Popen(warm_command("job", "note", str(done), "0.05"), cwd=folder, stderr=subprocess.DEVNULL)
        time.sleep(moments.uniform(0, 0.2))
        victims = moments.choice([[worker.process.pid], [run.pid], children(worker.process.pid)])
        for victim in victims:
            with suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
        code = run.wait(LOST)
        assert code in (0, 70, -signal.SIGKILL) and (code or done.exists())
        if worker.process.poll() is not None:
            worker.stop()
            worker = start_worker(folder, monkeypatch)
    worker.stop()


@pytest.mark.parametrize("wait_for_socket", [False, True])
def test_the_server_ends_with_its_parent_however_that_ends(tmp_path, wait_for_socket):
    """Before it listens, while it still imports libraries, and after."""
    path = libraries(tmp_path, "" if wait_for_socket else "import time; time.sleep(0.2)")
    code = (
        "import os, sys, time; from fedgrid.jobs import warm; w = warm.Worker(); w.start();"
        "print(w.process.pid, w.socket, flush=True); time.sleep(600)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=os.environ | path)
    process, socket = parent.stdout.readline().split()
    assert not wait_for_socket or eventually(lambda: os.path.exists(socket))
    parent.kill()
    parent.communicate()
    assert eventually(lambda: not alive(process))
    assert not os.path.exists(os.path.dirname(socket))
