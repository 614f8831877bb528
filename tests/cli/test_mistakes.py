"""Every mistake a user can make: one sentence naming the key, no traceback, exit code 2, nothing trained."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from fedgrid.cli.main import main
from fedgrid.grid.study.yaml_file import read
from fedgrid.run.invocation import invocation

STUDY = {
    "name": "s",
    "data": "digits",
    "heterogeneity": [{"partition": "dirichlet", "clients": 4}],
    "methods": {"fedavg": None, "fedprox": {"mu": 0.1}},
    "training": {"rounds": 1},
}
CASES = yaml.safe_load(Path(__file__).with_name("mistakes.yaml").read_text(encoding="utf-8"))
STUDIES, COMMANDS = CASES["studies"], CASES["commands"]


@pytest.fixture(autouse=True)
def folder(working_folder):
    """A folder with files that a user might name by mistake."""
    texts = {"broken.py": "class :", "failing.py": "import no_such_thing", "empty.py": "", "file.txt": "text"}
    for name, text in (texts | {"broken.yaml": "a: [", "list.yaml": "[1]", "twice.yaml": "{a: 1, a: 2}"}).items():
        (working_folder / name).write_text(text)
    (working_folder / "latin.py").write_bytes('"""é"""'.encode("latin-1"))
    (working_folder / "my-method.py").write_text("")
    code = "from fedgrid.methods.fedavg import FedAvg\n\n\nclass Bare(FedAvg):\n    mu: float\n"
    (working_folder / "bare.py").write_text(code)
    (working_folder / "good.yaml").write_text(yaml.safe_dump(STUDY))
    return working_folder


def written(change={}, without=None):
    study = {key: value for key, value in (STUDY | change).items() if key != without}
    with open("study.yaml", "w") as file:
        yaml.safe_dump(study, file)
    return "study.yaml"


def assert_one_sentence(code, error, words, folder):
    assert code == 2
    assert error.startswith("fedgrid: ") and error.count("\n") == 1, error
    assert "Traceback" not in error
    for word in words:
        assert word in error
    assert not list(folder.rglob("cells"))


def study_of(case):
    """The file of a study with a mistake, and what has to be said of it."""
    about = dict(STUDIES[case])
    words = about.pop("says")
    return written(**about), words


@pytest.mark.parametrize("case", STUDIES)
def test_study(case, folder, capsys):
    file, words = study_of(case)
    code = main(["plan", "--configfile", file])
    assert_one_sentence(code, capsys.readouterr().err, words, folder)
    assert not (folder / "results").exists()


@pytest.mark.parametrize("case", COMMANDS)
def test_command(case, folder, capsys):
    code = main(shlex.split(COMMANDS[case]["command"]))
    assert_one_sentence(code, capsys.readouterr().err, COMMANDS[case]["says"], folder)


@pytest.mark.parametrize("case", ["unknown key", "hyperparameter out of range", "impossible smallest client"])
def test_the_workflow_says_the_same(case, folder, request, capsys):
    file, words = study_of(case)
    file = Path(file)
    with pytest.raises(SystemExit) as end:
        invocation(read(file), [file], submits=False)
    assert_one_sentence(end.value.code, capsys.readouterr().err, words, folder)


def test_snakemake_says_the_same(folder, request):
    file, words = study_of("impossible smallest client")
    snakefile = request.config.rootpath / "workflow/Snakefile"
    command = [sys.executable, "-m", "snakemake", "--cores", "1", "--snakefile", str(snakefile), "--configfile"]
    run = subprocess.run([*command, file], capture_output=True, text=True, env=os.environ)
    lines = [line for line in run.stderr.splitlines(keepends=True) if line.startswith("fedgrid: ")]
    assert "Traceback" not in run.stderr
    assert_one_sentence(run.returncode, "".join(lines), words, folder)


def test_the_workflow_reads_numbers_as_they_are_written(folder, capsys):
    text = yaml.safe_dump(STUDY).replace("rounds: 1", "rounds: 010")
    Path("study.yaml").write_text(text)
    with pytest.raises(SystemExit) as end:  # Snakemake has made 8 of it
        invocation(yaml.safe_load(text), [Path("study.yaml")], submits=False)
    words = ["study.yaml:", "training.rounds: YAML reads 010 as the octal number 8; write 10"]
    assert_one_sentence(end.value.code, capsys.readouterr().err, words, folder)


def test_snakemake_says_so_of_a_default_study_that_is_no_text(folder, request):
    (folder / "config").mkdir()
    (folder / "config/study.yaml").write_bytes("name: s".encode("utf-16"))
    command = [sys.executable, "-m", "snakemake", "--cores", "1", "--snakefile"]
    snakefile = request.config.rootpath / "workflow/Snakefile"
    run = subprocess.run([*command, str(snakefile)], capture_output=True, text=True, env=os.environ)
    words = ["config/study.yaml: not YAML (byte 0xff at position 0 is not UTF-8)"]
    assert_one_sentence(run.returncode, run.stderr, words, folder)


def test_a_run_that_cannot_write_its_results_does_not_begin(folder, request, capsys):
    """To look at the study needs no place for results."""
    file = Path(written({"results": "file.txt/results"}))
    assert main(["plan", "--configfile", str(file)]) == 0
    run = invocation(read(file), [file], submits=False)
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        run.begin()
    assert_one_sentence(end.value.code, capsys.readouterr().err, ["results: cannot write", "file.txt"], folder)


def test_a_value_of_many_pages_leaves_room_for_what_is_wrong_with_it(folder, capsys):
    code = main(["plan", "--configfile", written({"compute": {"device": "x" * 100_000}})])
    error = capsys.readouterr().err
    assert_one_sentence(code, error, ["compute.device: 'xxx", "xxx' must be auto|cpu|cuda"], folder)
    assert len(error) < 2100


def test_the_good_study_is_good():
    assert main(["plan", "--configfile", written()]) == 0
