"""`fedgrid check`: a line for each check, sentences for what fails, and what to do next."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from commands import complaint, output
from tiers import every_third

from fedgrid.cli.components import component_text
from fedgrid.components import describe
from fedgrid.loading import load


def checked(*arguments):
    """The finished command, in a process of its own: it is pytest that runs in it."""
    command = [sys.executable, "-m", "fedgrid.cli.main", "check", *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "PYTEST_ADDOPTS": "-x --no-such-option"}
    return subprocess.run(command, capture_output=True, text=True, env=environment)


@pytest.fixture
def file(tmp_path):
    def written(text, name="mine"):
        path = tmp_path / f"{name}.py"
        path.write_text(text)
        return path

    return written


def test_a_new_method_passes_as_it_is(tmp_path, capsys):
    path = tmp_path / "mine.py"
    assert f"\n  fedgrid check {path}\n" in output(capsys, "new-method", "mine", "--folder", tmp_path)
    run = checked(path)
    assert run.returncode == 0, run.stdout
    *lines, last = run.stdout.splitlines()
    assert len(lines) > 15 and all(line.startswith("passed  ") for line in lines)
    assert "passed  it trains and is scored: a client without images" in lines
    assert last.startswith(f"{len(lines)} passed in ") and last.endswith(f" checks: fedgrid check {path} --full")


@pytest.mark.parametrize("other", ["fedrep", "ditto"])
def test_a_new_method_may_begin_with_one_of_the_package(other, tmp_path, capsys):
    path = tmp_path / "mine.py"
    output(capsys, "new-method", "mine", "--like", other, "--folder", tmp_path)
    text = path.read_text()
    assert "class Mine(" in text and 'source = "Own, after ' in text and "cite" not in text
    assert describe(load("methods", str(path)))["parameters"] == describe(load("methods", other))["parameters"]
    run = checked(path)
    assert run.returncode == 0, run.stdout


@pytest.mark.parametrize("kind", every_third(["partition", "model", "data"]))
def test_new_files_of_other_kinds_pass_everything_as_they_are(kind, tmp_path, capsys):
    path = tmp_path / "mine.py"
    trial = f"fedgrid run fedavg --{kind} {path}"
    text = output(capsys, f"new-{kind}", "mine", "--folder", tmp_path)
    assert f"\n  {trial} --rounds 5\n  fedgrid check {path}\n" in text
    run = checked(path, "--full")
    assert run.returncode == 0, run.stdout
    assert run.stdout.splitlines()[-1].endswith(f"passes the suite; train it: {trial}")


@pytest.mark.full
def test_a_new_method_passes_everything(file):
    run = checked(file(component_text("methods", "mine")), "--full")
    assert run.returncode == 0, run.stdout
    assert "passed  any number of threads" in run.stdout and "this method passes the suite" in run.stdout


def test_failures_are_sentences_and_the_same_one_is_said_once(file):
    path = file(component_text("methods", "mine").replace("fed.average", "fed.avrage"))
    run = checked(path)
    assert run.returncode == 1 and "Traceback" not in run.stdout + run.stderr
    assert run.stdout.count("no attribute 'avrage'") == 1
    assert "docs/writing-a-method.md, section “What the engine calls”" in " ".join(run.stdout.split())
    assert "further checks, for the same reason as “four rounds run" in run.stdout
    assert f"fix the first failure and run again: fedgrid check {path}" in run.stdout


@pytest.mark.full
def test_a_loss_that_is_not_a_number_is_one_finding(file):
    loss = "return super().loss(theta, batch, at)"
    run = checked(file(component_text("methods", "mine").replace(loss, f'{loss} * float("nan")')), "--full")
    assert run.returncode == 1 and run.stdout.count("FAILED") == 2, run.stdout
    assert "trained with `loss`, is not finite in round 1; guard" in " ".join(run.stdout.split())
    assert "further checks, for the same reason as “four rounds run" in run.stdout and "flaw" not in run.stdout


@pytest.mark.full
def test_a_component_of_the_package_with_a_setting():
    run = checked("dirichlet", "--set", "beta=0.5")
    assert run.returncode == 0 and "this partition passes the suite" in run.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nothing.py"], "'nothing.py': no such file"),
        (["dirichlett"], "no component is called 'dirichlett'; did you mean 'dirichlet'?"),
        (["mine"], "no component is called 'mine'; did you mean 'mine.py'?"),
        (["dirichlet", "--set", "betta=1"], "unknown setting 'betta'; did you mean 'beta'?"),
        (["dirichlet", "--set", "beta=-1"], "must be greater than 0"),
        (["fedprox", "--set", "mu=1"], "methods are checked with their defaults"),
        (["mnist"], "data 'mnist' is not available: put"),
    ],
)
def test_mistakes(arguments, words, capsys, working_folder):
    Path("mine.py").touch()
    assert words in complaint(capsys, "check", *arguments)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "from fedgrid.components import Component\n\n\nclass Mine(Component):\n    pass\n",
            "Mine is neither a method, nor",
        ),
        ("x = 1\n", "expected one component class in the file, found 0"),
        ("def broken(:\n", "cannot be imported: SyntaxError: invalid syntax (line 1)"),
        ("\nimport nothing_of_the_kind\n", "No module named 'nothing_of_the_kind' (line 2)"),
        ("from fedgrid.methods import Method\n\n\nclass Mine(Method):\n    score = 'global'\n", "it has to define"),
    ],
)
def test_a_file_that_defines_no_component(file, text, words, capsys):
    assert words in complaint(capsys, "check", file(text))


def test_without_pytest(monkeypatch, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    sentence = "fedgrid check needs pytest; install it with: pip install 'fedgrid[check]'"
    assert sentence in complaint(capsys, "check", "fedavg")
