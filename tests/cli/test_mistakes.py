"""Every mistake a user can make: one sentence naming the key, no traceback, exit code 2, nothing trained."""

import os
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
# what is changed in the study, and what the sentence must say
STUDIES = {
    "unknown key": ({"seedz": [1]}, ["seedz", "did you mean 'seeds'"]),
    "missing key": ({"data": ...}, ["'data'", "missing"]),
    "no methods": ({"methods": {}}, ["methods", "empty"]),
    "methods of a wrong type": ({"methods": 3}, ["methods", "a list or a mapping"]),
    "unknown method": ({"methods": ["fedavgg"]}, ["fedavgg", "did you mean 'fedavg'"]),
    "unknown method of a label": ({"methods": {"a": {"method": "dito"}}}, ["dito", "did you mean 'ditto'"]),
    "a method's missing file": ({"methods": {"a": {"method": "mine.py"}}}, ["mine.py", "no such file"]),
    "a method with a syntax error": ({"methods": {"a": {"method": "broken.py"}}}, ["broken.py", "line 1"]),
    "a method that fails on import": ({"methods": {"a": {"method": "failing.py"}}}, ["failing.py", "no_such_thing"]),
    "a file without a method": ({"methods": {"a": {"method": "empty.py"}}}, ["empty.py", "found 0"]),
    "unknown hyperparameter": ({"methods": {"fedprox": {"muu": 1}}}, ["methods.fedprox", "muu", "did you mean 'mu'"]),
    "hyperparameter of a wrong type": ({"methods": {"fedprox": {"mu": "big"}}}, ["methods.fedprox.mu", "float"]),
    "hyperparameter out of range": ({"methods": {"fedprox": {"mu": -1}}}, ["methods.fedprox.mu", "at least 0"]),
    "hyperparameter not finite": ({"methods": {"fedprox": {"mu": float("inf")}}}, ["methods.fedprox.mu", "finite"]),
    "hyperparameter no choice": (
        {"methods": {"fedper": {"local_part": "heads"}}},
        ["methods.fedper.local_part", "'head'"],
    ),
    "truth as a number": ({"methods": {"fedcosr": {"separate": 1}}}, ["methods.fedcosr.separate", "bool"]),
    "training of a method": ({"methods": {"fedavg": {"training": {"lrr": 1}}}}, ["methods.fedavg.training", "'lr'"]),
    "an adversary's unknown setting": (
        {"training": {"adversarial": {"epsilon": 0.1}}},
        ["training.adversarial: unknown setting 'epsilon'"],
    ),
    "an adversary out of range": (
        {"methods": {"fedavg": {"training": {"adversarial": {"eps": 2}}}}},
        ["methods.fedavg.training.adversarial.eps", "at most 1"],
    ),
    "an adversary that is no mapping": ({"training": {"adversarial": 0.1}}, ["training.adversarial", "mapping"]),
    "an unknown attack": ({"training": {"evaluate": ["clean", "pgd"]}}, ["training.evaluate", "did you mean 'pgd20'"]),
    "an attack on features": (
        {"data": {"name": "digits", "features": "random"}, "training": {"evaluate": ["fgsm"]}},
        ["evaluate: fgsm needs images alone", "'digits' is frozen features"],
    ),
    "an attack on captions": (
        {"data": "attributes", "model": "image_text", "training": {"adversarial": {}}},
        ["adversarial needs images alone", "'attributes' is data of the modalities visual and textual"],
    ),
    "a key of earlier versions": (
        {"keep": ["clusters"]},
        ["study.yaml:5: unknown key 'keep'; it is called 'artifacts' now"],
    ),
    "a setting of earlier versions": (
        {"methods": {"a": {"method": "fedper", "keep": "all"}}},
        ["methods.a: unknown setting 'keep'; it is called 'local_part' now"],
    ),
    "a partition's setting of earlier versions": (
        {"heterogeneity": [{"partition": "dirichlet", "keep": 0.1}]},
        ["heterogeneity.0: unknown setting 'keep'; it is called 'keep_fraction' now"],
    ),
    "a request of earlier versions": (
        {"compute": {"minutes": 5}},
        ["compute: unknown setting 'minutes'", "'runtime' now"],
    ),
    "unknown data": ({"data": "digitz"}, ["digitz", "did you mean 'digits'"]),
    "data of a wrong type": ({"data": 7}, ["data", "a text or a mapping or a list"]),
    "data not at hand": ({"data": "mnist", "download": False, "model": "cnn"}, ["mnist", "data_root", "download"]),
    "data_root that is not there": ({"data_root": "nowhere"}, ["data_root", "nowhere"]),
    "unknown partition": ({"heterogeneity": [{"partition": "dirichlett"}]}, ["dirichlett", "'dirichlet'"]),
    "no partition": ({"heterogeneity": []}, ["heterogeneity", "empty"]),
    "partition without a kind": ({"heterogeneity": [{"beta": 1.0}]}, ["heterogeneity.0", "'partition'", "missing"]),
    "unknown setting of a partition": (
        {"heterogeneity": [{"partition": "dirichlet", "alpha": 1}]},
        ["heterogeneity.0", "alpha"],
    ),
    "zero β": ({"heterogeneity": [{"partition": "dirichlet", "beta": 0}]}, ["heterogeneity.0.beta", "greater than 0"]),
    "no clients": ({"heterogeneity": [{"partition": "dirichlet", "clients": 0}]}, ["heterogeneity.0.clients"]),
    "more clients than images": (
        {"heterogeneity": [{"partition": "dirichlet", "clients": 5000, "min_samples": 0}]},
        ["partition.clients", "5000", "1797"],
    ),
    "impossible smallest client": (
        {"heterogeneity": [{"partition": "dirichlet", "clients": 100, "min_samples": 50}]},
        ["partition.min_samples", "5000", "1797"],
    ),
    "too many classes a client": (
        {"heterogeneity": [{"partition": "pathological", "classes": 11}]},
        ["partition.classes", "11", "10"],
    ),
    "too few classes for all": (
        {"heterogeneity": [{"partition": "pathological", "classes": 2, "clients": 3}]},
        ["partition.classes", "6 of 10"],
    ),
    "a partition twice": (
        {"heterogeneity": [{"partition": "dirichlet"}, {"partition": "dirichlet", "beta": 0.1}]},
        ["heterogeneity.1: duplicate label"],
    ),
    "unknown model": ({"model": "mpl"}, ["mpl", "'mlp'"]),
    "model setting": ({"model": {"name": "mlp", "hiden": 3}}, ["model", "hiden", "'hidden'"]),
    "images too small for the model": ({"model": "cnn"}, ["model", "cnn", "16×16"]),
    "no rounds": ({"training": {"rounds": 0}}, ["training.rounds", "at least 1"]),
    "rounds as text": ({"training": {"rounds": "many"}}, ["training.rounds", "int"]),
    "a row whose name is a number": (
        {"methods": {"fedavg": None, 0.1: {"method": "fedprox"}}},
        ["methods.0.1", "quotes"],
    ),
    "a row whose name is no text": ({"methods": {False: {"method": "fedprox"}}}, ["methods.False", "False", "quotes"]),
    "results in a file": ({"results": "study.yaml"}, ["results", "study.yaml is not a folder"]),
    "a name that is too long": ({"name": "x" * 101}, ["name", "too long: 101 characters", "100"]),
    "a title that is too long": ({"methods": {"fedavg": {"title": "x" * 101}}}, ["methods.fedavg.title", "101", "100"]),
    "a key in place of another": ({"methods": None, "method": "fedavg"}, ["unknown key 'method'", "'methods'"]),
    "a rate for Adam where steps are plain": (
        {"methods": {"scaffold": None}, "training": {"optimizer": "adam", "lr": 0.003}},
        ["methods.scaffold", "plain SGD", "Adam", "set lr"],
    ),
    "a rate for momentum where steps are plain": (
        {"methods": {"perfedavg": {"alpha": 0.1}}, "training": {"momentum": 0.9}},
        ["methods.perfedavg", "momentum of 0.9", "set beta"],
    ),
    "a rate with which steps overshoot": (
        {"methods": {"pfedme": {"inner_lr": 0.2}}},
        ["methods.pfedme", "inner_lr = 0.2 with lam = 15", "below 2", "set inner_lr"],
    ),
    "unknown optimiser": ({"training": {"optimizer": "sgdd"}}, ["training.optimizer", "did you mean 'sgd'"]),
    "participation above one": ({"training": {"participation": 1.5}}, ["training.participation", "at most 1"]),
    "negative seed": ({"seeds": [-1]}, ["seeds.0"]),
    "a seed twice": ({"seeds": [1, 1]}, ["seeds: duplicate entry"]),
    "seeds as text": ({"seeds": "012"}, ["seeds", "a list"]),
    "a seed too large for a file": ({"seeds": [3_000_000_000]}, ["seeds.0"]),
    "all seeds the same run": ({"seeds": [0, 1], "partition_seed": 0, "train_seed": 0}, ["seeds", "partition_seed"]),
    "a label that is a number": ({"methods": {3: {"method": "fedavg"}}}, ["methods", "3"]),
    "a label that is nothing": ({"methods": {None: None}}, ["methods"]),
    "a method's file that no name can name": ({"methods": {"a": {"method": "my-method.py"}}}, ["my-method.py"]),
    "a method that is not UTF-8": ({"methods": {"a": {"method": "latin.py"}}}, ["latin.py", "utf-8"]),
    "a method whose setting has no default": ({"methods": {"a": {"method": "bare.py"}}}, ["Bare", "no default"]),
    "a name that is the store's": ({"name": "store"}, ["name", "store"]),
    "a name that leads elsewhere": ({"name": ".."}, ["name", ".."]),
    "a name that is no folder": ({"name": "a/b"}, ["name", "a/b"]),
    "unknown score": ({"report": {"score": "best"}}, ["report.score", "best"]),
    "a score of earlier versions": ({"report": {"score": "personal"}}, ["report.score", "'personal'", "received"]),
    "the score of the papers": (
        {"report": {"score": "main"}},
        ["report.score: 'main' is not", "it is called 'paper' now"],
    ),
    "a score nearly right": ({"report": {"score": "receive"}}, ["report.score", "did you mean 'received'"]),
    "an unknown round": ({"report": {"at": "best"}}, ["report.at", "last, last5, validation"]),
    "a round chosen on images that nobody holds": (
        {"report": {"at": "validation"}},
        ["report.at: 'validation'", "heterogeneity.0 ('dirichlet')", "set its validation"],
    ),
    "a model chosen on images that nobody holds": (
        {
            "report": {"score": "validated"},
            "heterogeneity": [{"partition": "homogeneous", "validation": 0.2}, {"partition": "homogeneous"}],
        },
        ["report.score: 'validated'", "heterogeneity.1 ('homogeneous')", "set its validation"],
    ),
    "unknown device": ({"compute": {"device": "gpu"}}, ["compute.device", "gpu"]),
    "a key of compute": ({"compute": {"devise": "cpu"}}, ["compute", "devise", "'device'"]),
    "a time that is none": ({"compute": {"checkpoint_every": 0}}, ["compute.checkpoint_every", "greater than 0"]),
}
COMMANDS = {
    "no command": ([], ["COMMAND"]),
    "unknown command": (["tarin"], ["tarin"]),
    "study that is not there": (["plan", "--configfile", "none.yaml"], ["none.yaml"]),
    "study that is no YAML": (["plan", "--configfile", "broken.yaml"], ["broken.yaml:1: not YAML"]),
    "study that is no mapping": (["plan", "--configfile", "list.yaml"], ["mapping"]),
    "a scale of what is no mapping": (["plan", "--configfile", "list.yaml", "--scale", "small"], ["mapping"]),
    "status of a bad study": (["status", "--configfile", "list.yaml"], ["mapping"]),
    "run of an unknown method": (["run", "fedavgg"], ["fedavgg", "did you mean 'fedavg'"]),
    "run with unknown data": (["run", "fedavg", "--data", "digts"], ["digts", "'digits'"]),
    "run with an unknown partition": (["run", "fedavg", "--partition", "pathologic"], ["pathologic"]),
    "run with an unknown hyperparameter": (["run", "fedprox", "--set", "nu=1"], ["nu", "known: mu"]),
    "run with a hyperparameter of earlier versions": (
        ["run", "fedccl", "--set", "global_=0"],
        ["--set: unknown setting 'global_'; it is called 'global_weight' now"],
    ),
    "run without an equals sign": (["run", "fedprox", "--set", "mu"], ["--set", "name=value"]),
    "run with a text for a number": (["run", "fedprox", "--set", "mu=big"], ["mu", "float", "big"]),
    "run with another kind's setting": (["run", "fedavg", "--partition", "pathological", "--beta", "1"], ["beta"]),
    "run with rounds as text": (["run", "fedavg", "--rounds", "ten"], ["rounds", "int"]),
    "run with a negative seed": (["run", "fedavg", "--seed", "-1"], ["--seed"]),
    "run of an unknown model": (["run", "fedavg", "--model", "resnet"], ["resnet"]),
    "run over another cell": (["run", "fedavg", "--out", "file.txt"], ["file.txt"]),
    "a study with a key that stands twice": (["plan", "--configfile", "twice.yaml"], ["twice.yaml", "'a'"]),
    "run on no device": (["run", "fedavg", "--device", "gpu"], ["compute.device", "'gpu'", "auto|cpu|cuda"]),
    "run with no thread": (["run", "fedavg", "--threads", "0"], ["compute.threads", "at least 1"]),
    "run with threads as text": (["run", "fedavg", "--threads", "two"], ["threads", "int", "two"]),
    "run with chunks of nothing": (["run", "fedavg", "--client-chunk", "0"], ["compute.client_chunk", "'0'"]),
    "run with an unknown executor": (["run", "fedavg", "--executor", "stack"], ["compute.executor", "'stacked'"]),
    "run with a cluster's setting": (["run", "fedavg", "--pack", "2"], ["--pack"]),
    "run into results that cannot be written": (
        ["run", "fedavg", "--clients", "4", "--results", "file.txt/results"],
        ["results: ", "cannot write"],
    ),
    "explain without a word": (["explain"], ["WORD"]),
    "explain of no cell": (["explain", "fedper", "--configfile", "good.yaml"], ["fedper", "fedgrid plan --cells"]),
    "run into a folder": (["run", "fedavg", "--out", "."], ["--out", "folder"]),
    "run into nowhere": (["run", "fedavg", "--clients", "4", "--rounds", "1", "--out", "/proc/x"], ["--out", "/proc"]),
    "run on a device that is not there": (["run", "fedavg", "--clients", "4", "--device", "cuda:9"], ["cuda:9"]),
    "unknown name in a list": (["methods", "fedavgg"], ["fedavgg", "'fedavg'"]),
    "new method with a bad name": (["new-method", "Fed Mine"], ["Fed Mine"]),
    "new method with a name without end": (["new-method", "a" * 5000], ["NAME: 'aaa", "at most 100"]),
    "new method without a name": (["new-method", ""], ["NAME: ''", "starting with a letter"]),
    "new method with dots": (["new-method", "a.b"], ["NAME: 'a.b'", "letters, digits and '_'"]),
    "new method called as a module": (["new-method", "numpy"], ["NAME", "numpy.py", "'numpy'"]),
    "new method called as a word of Python": (["new-method", "class"], ["NAME: 'class'", "reserved word of Python"]),
    "new method whose class would be a word of Python": (
        ["new-method", "none"],
        ["NAME: 'none'", "reserved word of Python"],
    ),
    "new method with a name in use": (["new-method", "fedavg"], ["fedavg"]),
    "new model with a name in use": (["new-model", "cnn"], ["a model 'cnn' already exists"]),
    "new partition with a name in use": (["new-partition", "dirichlet"], ["a partition 'dirichlet' already exists"]),
    "new data set with a name in use": (["new-data", "mnist"], ["a data set 'mnist' already exists"]),
    "prune where no store is": (["prune", "--results", "nowhere"], ["nowhere"]),
}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder with files that a user might name by mistake."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FEDGRID_DATA", raising=False)
    texts = {"broken.py": "class :", "failing.py": "import no_such_thing", "empty.py": "", "file.txt": "text"}
    for name, text in (texts | {"broken.yaml": "a: [", "list.yaml": "[1]", "twice.yaml": "{a: 1, a: 2}"}).items():
        (tmp_path / name).write_text(text)
    (tmp_path / "latin.py").write_bytes('"""é"""'.encode("latin-1"))
    (tmp_path / "my-method.py").write_text("")
    code = "from fedgrid.methods.fedavg import FedAvg\n\n\nclass Bare(FedAvg):\n    mu: float\n"
    (tmp_path / "bare.py").write_text(code)
    (tmp_path / "good.yaml").write_text(yaml.safe_dump(STUDY))
    return tmp_path


def written(change):
    study = {key: value for key, value in (STUDY | change).items() if value is not ...}
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


@pytest.mark.parametrize("case", STUDIES)
def test_study(case, folder, capsys):
    change, words = STUDIES[case]
    code = main(["plan", "--configfile", written(change)])
    assert_one_sentence(code, capsys.readouterr().err, words, folder)
    assert not (folder / "results").exists()


@pytest.mark.parametrize("case", COMMANDS)
def test_command(case, folder, capsys):
    arguments, words = COMMANDS[case]
    code = main(arguments)
    assert_one_sentence(code, capsys.readouterr().err, words, folder)


@pytest.mark.parametrize("case", ["unknown key", "hyperparameter out of range", "impossible smallest client"])
def test_the_workflow_says_the_same(case, folder, request, capsys):
    change, words = STUDIES[case]
    file = Path(written(change))
    with pytest.raises(SystemExit) as end:
        invocation(read(file), [file], submits=False)
    assert_one_sentence(end.value.code, capsys.readouterr().err, words, folder)


def test_snakemake_says_the_same(folder, request):
    change, words = STUDIES["impossible smallest client"]
    snakefile = request.config.rootpath / "workflow/Snakefile"
    command = [sys.executable, "-m", "snakemake", "--cores", "1", "--snakefile", str(snakefile), "--configfile"]
    run = subprocess.run([*command, written(change)], capture_output=True, text=True, env=os.environ)
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
    assert main(["plan", "--configfile", written({})]) == 0
