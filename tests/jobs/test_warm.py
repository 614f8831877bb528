"""The warm worker: one process a job, the same exit codes and output, and a plain process where no server is."""

import os
import signal
import subprocess
import sys
import time

import pytest

from fedgrid.jobs import warm

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
    if argv[0] == "sleep":
        open("started", "w").write(str(os.getpid())); time.sleep(60)
if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("jobs")
    (path / "job.py").write_text(JOB)
    return path


@pytest.fixture(scope="module", params=["warm", "plain"])
def environment(request, folder):
    given = os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), *sys.path]), "COLOUR": "blue"}
    if request.param == "plain":
        yield given
        return
    worker, before = warm.Worker(), dict(os.environ)
    os.environ["PYTHONPATH"] = given["PYTHONPATH"]
    worker.start()
    socket = os.environ[warm.VARIABLE]
    patience = time.monotonic() + 60
    while not os.path.exists(socket) and time.monotonic() < patience:
        time.sleep(0.05)
    yield given | {warm.VARIABLE: socket}
    worker.stop()
    os.environ.clear()
    os.environ.update(before)
    assert not os.path.exists(os.path.dirname(socket))


def job(environment, folder, *arguments):
    command = [sys.executable, "-S", "-E", str(warm.CLIENT), "job", *arguments]
    return subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True)


def test_output_environment_and_folder(environment, folder):
    run = job(environment, folder, "say")
    assert (run.stdout, run.stderr, run.returncode) == (f"said blue {folder}\n", "wrong\n", 0)


def test_exit_codes(environment, folder):
    assert job(environment, folder, "code", "0").returncode == 0
    assert job(environment, folder, "code", "2").returncode == 2
    assert job(environment, folder, "exit").returncode == 1
    run = job(environment, folder, "raise")
    assert run.returncode == 1 and "ValueError: no" in run.stderr


def test_a_killed_client_takes_its_job_along(environment, folder):
    (folder / "started").unlink(missing_ok=True)
    run = subprocess.Popen([sys.executable, "-S", "-E", str(warm.CLIENT), "job", "sleep"], env=environment, cwd=folder)
    patience = time.monotonic() + 20
    while not ((folder / "started").exists() and (folder / "started").read_text()) and time.monotonic() < patience:
        time.sleep(0.02)
    process = int((folder / "started").read_text())
    run.send_signal(signal.SIGKILL)
    run.wait()
    while alive(process) and time.monotonic() < patience:
        time.sleep(0.02)
    assert not alive(process)


def test_a_killed_job_is_a_failed_job(environment, folder):
    if warm.VARIABLE not in environment:
        pytest.skip("without a server, job and client are one process")
    (folder / "started").unlink(missing_ok=True)
    command = [sys.executable, "-S", "-E", str(warm.CLIENT), "job", "sleep"]
    run = subprocess.Popen(command, env=environment, cwd=folder, stderr=subprocess.PIPE, text=True)
    while not ((folder / "started").exists() and (folder / "started").read_text()):
        time.sleep(0.02)
    os.kill(int((folder / "started").read_text()), signal.SIGKILL)
    assert "was killed" in run.communicate(timeout=20)[1]
    assert run.returncode == 70


def alive(process):
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("wait_for_socket", [False, True])
def test_the_server_ends_with_its_parent_however_that_ends(tmp_path, wait_for_socket):
    code = (
        "import os, sys, time; from fedgrid import warm; w = warm.Worker(); w.start();"
        "print(w.process.pid, os.environ[warm.VARIABLE], flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    process, socket = parent.stdout.readline().split()
    patience = time.monotonic() + 60
    while wait_for_socket and not os.path.exists(socket) and time.monotonic() < patience:
        time.sleep(0.05)
    parent.kill()
    parent.wait()
    while alive(int(process)) and time.monotonic() < patience:
        time.sleep(0.1)
    assert not alive(int(process))
    assert not os.path.exists(os.path.dirname(socket))
