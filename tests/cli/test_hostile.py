"""Whatever a study, a command or a method's file holds: an answer, or one sentence; nothing is written elsewhere."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path

import pytest
import yaml
from tiers import every_third

from fedgrid.cli.main import main
from fedgrid.grid.study import catalog

PATIENCE = 120
"Seconds after which a command counts as hanging; each takes a fraction of one."
STUDY = {
    "name": "s",
    "title": "A study",
    "results": "results",
    "data_root": ".",
    "download": False,
    "data": {"name": "digits", "label": "d", "side": 8, "features": {"backbone": "random", "weights": "hub"}},
    "heterogeneity": [{"partition": "dirichlet", "beta": 0.5, "clients": 4, "test": "own"}],
    "methods": {"fedprox": {"method": "fedprox", "title": "Prox", "mu": 0.1, "training": {"lr": 0.1}}},
    "model": {"name": "mlp", "hidden": 16},
    "training": {"rounds": 1, "optimizer": "sgd", "batch_size": 8},
    "seeds": [0, 1],
    "partition_seed": 1,
    "artifacts": ["clusters"],
    "report": {"score": "paper", "at": "last"},
    "compute": {"threads": 1, "device": "cpu", "client_chunk": "auto"},
}
HOSTILE = {
    "nothing": None,
    "true": True,
    "minus one": -1,
    "nought": 0,
    "a whole float": 1.0,
    "a half": 0.5,
    "a number beyond any float": 10**400,
    "a billion": 10**9,
    "not a number": float("nan"),
    "infinity": float("inf"),
    "no letters": "",
    "a letter that no file has": "a\0b",
    "half a letter": "\ud800",
    "300 letters": "x" * 300,
    "the home of nobody": "~nosuchuser/x",
    "a way out": "../../out",
    "a wildcard": "{x}",
    "markup": "<b>$\\frac{a}{b}$ | & %",
    "a list": [[]],
    "a mapping": {"a": {"b": {}}},
    "a mapping without text": {1: None, None: 2},
    "depth": None,  # see `deep`
}


def deep(levels=200):
    value = []
    for _ in range(levels):
        value = [value]
    return value


def places(value, at=()):
    """The way to every value of a study."""
    yield at
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield from places(one, (*at, key))


PLACES = [place for place in places(STUDY) if place]


def changed(place, name):
    study = deepcopy(STUDY)
    target = study
    for key in place[:-1]:
        target = target[key]
    target[place[-1]] = deep() if name == "depth" else HOSTILE[name]
    return study


@contextmanager
def within_patience() -> Iterator[None]:
    def give_up(*_):
        raise TimeoutError("this hangs")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def listing(top: Path) -> dict[str, float]:
    return {str(path.relative_to(top)): path.lstat().st_mtime_ns for path in top.rglob("*") if not path.is_dir()}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder inside another one, so that what leads out of it can be seen."""
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    return inner


def answered(arguments, capsys) -> int:
    """The exit code of a command that ends with an answer, or with one sentence."""
    with within_patience():
        code = main(arguments)
    error = capsys.readouterr().err
    assert code in (0, 2), error
    if code == 2:
        assert error.startswith("fedgrid: ") and error.count("\n") == 1, error
        assert "(?" not in error and "^[" not in error, error  # nobody reads regular expressions
    return code


@pytest.mark.parametrize("place", every_third(PLACES, step=5), ids=lambda p: ".".join(map(str, p)))
def test_studies(place, folder, capsys):
    codes = {}
    for name in list(HOSTILE)[PLACES.index(place) % 2 :: 2]:  # the next place gets the other half
        Path("study.yaml").write_text(yaml.safe_dump(changed(place, name)))
        before = listing(folder.parents[1])
        codes[name] = answered(["plan", "--configfile", "study.yaml"], capsys)
        assert listing(folder.parents[1]) == before, name
    assert 2 in codes.values()


HEAD = "from fedgrid.components import Component, hp\n\n\n"
CLASS = HEAD + "class A(Component):\n"
METHOD = "from fedgrid.methods.fedavg import FedAvg\n\n\nclass A(FedAvg):\n"
REFUSED = {
    "nothing": "",
    "white space": "   \n\n",
    "no Python": "class :",
    "an open bracket": "x = (",
    "tabs and spaces": "if 1:\n\tx = 1\n        y = 2\n",
    "a null byte": "x = 1\0",
    "letters of another encoding": b'"""\xe9"""',
    "an encoding that there is not": "# -*- coding: nonsense -*-\n",
    "UTF-16": "x = 1".encode("utf-16"),
    "a picture": b"\x89PNG\r\n\x1a\n" + bytes(range(256)),
    "brackets without end": "x = " + "(" * 5000,
    "a sum without end": "x = " + "+".join(["1"] * 20000),
    "minus without end": "x = " + "-" * 20000 + "1",
    "a module that there is not": "import no_such_module_here",
    "a name that there is not": "x = nothing_of_that_name",
    "a relative import": "from . import helper",
    "an error": "raise RuntimeError('no')",
    "an error without words": "raise RuntimeError",
    "an error of many lines": "raise RuntimeError('a\\nb\\nc')",
    "an assertion": "assert False",
    "no end of itself": "def f():\n    f()\nf()",
    "out of memory": "raise MemoryError",
    "an end": "import sys; sys.exit(0)",
    "an end with words": "raise SystemExit('bye')",
    "an end with a code": "raise SystemExit(3)",
    "an end at once": "import os; os._exit(0)",
    "an abort": "import os; os.abort()",
    "Ctrl-C": "raise KeyboardInterrupt",
    "a kill": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "a loop": "while True:\n    pass",
    "a nap": "import time; time.sleep(1000)",
    "a question": "input()",
    "importlib": "import importlib",
    "importlib by its part": "from importlib import import_module",
    "__import__": "x = __import__('os')",
    "exec": "exec('x = 1')",
    "eval": "x = eval('1')",
    "the path": "import sys; sys.path.insert(0, '/tmp')",
    "runpy": "import runpy",
    "no class": "x = 1",
    "a class that is no component": "class A:\n    pass",
    "two classes": CLASS + "    pass\n\n\nclass B(Component):\n    pass",
    "no default": CLASS + "    mu: float",
    "a default of another type": CLASS + "    mu: float = hp('a')",
    "a default outside its limits": CLASS + "    mu: float = hp(2.0, high=1.0)",
    "a default that is no choice": CLASS + "    mu: str = hp('c', choices=('a', 'b'))",
    "None as a default": CLASS + "    mu: float = hp(None)",
    "NaN as a default": CLASS + "    mu: float = hp(float('nan'))",
    "a list as a default": CLASS + "    mu: list = hp(())",
    "a type that no study holds": CLASS + "    mu: bytes = hp(b'')",
    "a type without a name": CLASS + "    mu: 'nonsense' = hp(1)",
    "a type that is a text": CLASS + "    mu: '1 +' = hp(1)",
    "a mutable default": CLASS + "    mu: list[int] = hp([])",
    "hp with nonsense": CLASS + "    mu: float = hp(1.0, lowest=2)",
    "a file that there is not": CLASS + "    files = ('w.npy',)",
    "a component, not a method": CLASS + "    pass",
    "an abstract method": "from fedgrid.engine.federation.method import Method\n\n\nclass A(Method):\n    pass",
    "a score that there is not": METHOD + "    score = 'best'",
    "a setting called training": METHOD + "    training: int = 1",
    "a setting called used": METHOD + "    used: int = 1",
    "a setting called title": METHOD + "    title: str = 'a'\n    method: int = 1",
}
PRINTING = "print('[1]')\n" + METHOD + "    mu: float = 1.0\nprint('{}')\n"


@pytest.mark.parametrize("case", every_third([*REFUSED], step=6))
def test_method_files(case, folder, capsys, monkeypatch):
    if case in ("a loop", "a nap"):
        monkeypatch.setattr(catalog, "PATIENCE", 2)
    text = REFUSED[case]
    Path("mine.py").write_bytes(text if isinstance(text, bytes) else text.encode())
    Path("study.yaml").write_text(yaml.safe_dump(STUDY | {"methods": {"mine": {"method": "mine.py"}}}))
    before = listing(folder.parents[1])
    assert answered(["plan", "--configfile", "study.yaml"], capsys) == 2
    assert listing(folder.parents[1]) == before


@pytest.mark.full
def test_what_a_method_file_prints_is_its_own_affair(folder, capsys):
    Path("mine.py").write_bytes(b"\xef\xbb\xbf" + PRINTING.encode())
    Path("study.yaml").write_text(yaml.safe_dump(STUDY | {"methods": {"mine": {"method": "mine.py", "mu": 2}}}))
    assert answered(["plan", "--configfile", "study.yaml"], capsys) == 0


WORDS = (
    "",
    " ",
    "-1",
    "nan",
    "inf",
    "1e999",
    "9" * 400,
    "½",
    "x" * 300,
    "~nosuchuser/x",
    "../../out",
    "{x}",
    "[",
    "a\nb",
    "a\x1b[31m",
    "caf\udce9",
    "%s",
)
IMPOSSIBLE = ["--clients", "99999"]  # so that what is accepted is not trained either
OPTIONS = [
    *(["run", "{}"], ["run", "fedavg", "--data", "{}"], ["run", "fedavg", "--partition", "{}"]),
    *(
        ["run", "fedavg", f"--{name}", "{}"]
        for name in ("beta", "rounds", "lr", "batch-size", "seed", "threads", "model")
    ),
    *(["run", "fedavg", f"--{name}", "{}"] for name in ("results", "data-root", "out", "features", "device")),
    *(
        ["run", "fedprox", "--set", "mu={}"],
        ["run", "fedprox", "--set", "{}=1"],
        ["run", "fedavg", "--data-set", "side={}"],
    ),
    ["run", "fedavg", "--model-set", "hidden={}"],
]
LOOKS = [
    *([name, "--configfile", "{}"] for name in ("plan", "status", "report", "prune")),
    *(["explain", "{}", "--configfile", "study.yaml"], ["logs", "{}", "--configfile", "study.yaml"]),
    *(["inspect", "{}"], ["export-partition", "{}", "out"], ["methods", "{}"], ["datasets", "{}"]),
    *(["prune", "--results", "{}"], ["{}"]),
]


@pytest.mark.parametrize("command", every_third(OPTIONS + LOOKS), ids=" ".join)
def test_commands(command, folder, capsys):
    Path("study.yaml").write_text(yaml.safe_dump(STUDY))
    before = listing(folder.parents[1])
    for word in WORDS:
        arguments = [part.replace("{}", word) for part in command]
        arguments += IMPOSSIBLE * (command in OPTIONS)
        code = answered(arguments, capsys)
        assert code == 2 or command in LOOKS, arguments
        assert listing(folder.parents[1]) == before, arguments
