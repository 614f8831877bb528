"""A job that another program starts: a process of its own, whose output and exit code are the program's to have."""

import io
import os
import signal
import subprocess
import sys

import pytest
from processes import alive, eventually

import fedgrid
from fedgrid.errors import UserError
from fedgrid.jobs import apart, warm

JOB = """
import os, sys, time
from fedgrid.jobs.apart import job
from fedgrid.jobs.signals import end_with_signals
from fedgrid.jobs.warm import enter_job

@job("errand")
def main(argv=None):
    end_with_signals()
    if argv[0] == "where":
        print(os.getpid()); print("wrong", file=sys.stderr)
    if argv[0] == "fail":
        print("as it went", file=sys.stderr); print("fedgrid: it cannot be", file=sys.stderr)
        return 2
    if argv[0] == "sleep":
        open("started", "w").write(str(os.getpid())); time.sleep(600)
    return 0

if __name__ == "__main__":
    enter_job()
    sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(params=["warm", "plain"])
def folder(request, working_folder, monkeypatch):
    (working_folder / "errand.py").write_text(JOB)
    monkeypatch.syspath_prepend(working_folder)
    monkeypatch.setenv("PYTHONPATH", str(working_folder), prepend=os.pathsep)
    if request.param == "plain":
        monkeypatch.setenv(warm.VARIABLE, "")
    return working_folder


def test_a_job_that_is_called_works_in_another_process(folder, capsys):
    import errand

    assert errand.main(["where"]) == 0
    output = capsys.readouterr()
    assert int(output.out) != os.getpid() and output.err == "wrong\n"


def test_the_sentence_of_a_job_that_fails_is_raised_and_the_rest_is_printed_once(folder, capsys):
    with pytest.raises(UserError, match=r"^it cannot be$"):
        apart.require("errand", ["fail"])
    assert capsys.readouterr().err == "as it went\n"


def test_output_goes_where_it_is_wanted(folder):
    errors = io.StringIO()
    assert apart.run("errand", ["fail"], errors=errors) == 2
    assert errors.getvalue() == "as it went\nfedgrid: it cannot be\n"


PROGRAM = """
import sys
from fedgrid.jobs import apart
try:
    code = apart.run("errand", ["sleep"], heeds_signals=True)
except KeyboardInterrupt:
    code = 130
sys.exit(code)
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, apart.KILLED)])
def test_signals_end_the_job_and_then_the_program(number, code, folder):
    program = subprocess.Popen([sys.executable, "-c", PROGRAM], start_new_session=True)
    job = _number_in(folder / "started")
    program.send_signal(number)
    assert program.wait(60) == code and eventually(lambda: not alive(job))


def test_a_warm_job_ends_with_the_program(folder):
    if os.environ.get(warm.VARIABLE) == "":
        pytest.skip("a plain process goes on, and finishes")
    program = subprocess.Popen([sys.executable, "-c", PROGRAM], start_new_session=True)
    job = _number_in(folder / "started")
    program.kill()
    program.wait()
    assert eventually(lambda: not alive(job))


def _number_in(file):
    assert eventually(lambda: file.exists() and file.read_text(), 120)
    return int(file.read_text())


def test_a_made_partition_leaves_no_plan(working_folder):
    fedgrid.make_partition("digits", {"partition": "homogeneous", "clients": 2})
    assert not list(working_folder.rglob("plans/*.json"))
