"""Commands that are printed for copying hold for files whose names have spaces."""

import shlex
from pathlib import Path

from fedgrid.analysis.prose import origin

FOLDER = "my folder"


def commands(text):
    """The words of each command in the text, as a shell takes them."""
    lines = (line.strip() for line in text.splitlines())
    return [shlex.split(line, comments=True) for line in lines if line.startswith(("cd ", "fedgrid ", "snakemake "))]


def test_of_a_new_project(folder, output):
    assert commands(output("init", FOLDER)) == [["cd", FOLDER], ["fedgrid", "go"]]


def test_of_a_new_method_and_its_comparison(folder, output):
    Path(FOLDER).mkdir()
    file, study = f"{FOLDER}/mine.py", f"{FOLDER}/compared.yaml"
    run, check = commands(output("new-method", "mine", "--folder", FOLDER))
    assert run == ["fedgrid", "run", file, "--rounds", "5"] and check == ["fedgrid", "check", file]
    plan, train = commands(output("compare", file, "--data", "digits", "--out", study))
    assert plan == ["fedgrid", "plan", "--configfile", study] and train == ["fedgrid", "go", study]
    assert output(*plan[1:])


def test_of_pages():
    words = shlex.split(origin.command(f"{FOLDER}/study.yaml", "small", "table 1"))
    assert words[-4:] == [f"{FOLDER}/study.yaml", "--config", "scale=small", "only=table 1"]
