"""What a method does when it runs that its key does not cover, however its source spells it."""

import sys
import textwrap
import warnings

import pytest

from fedgrid.errors import UserError
from fedgrid.grid.study.audit import Watch, listening, opened_path
from fedgrid.loading import OUTSIDE, load

METHOD = """
from fedgrid.methods.fedavg import FedAvg
class Mine(FedAvg):
    files = ("prior.txt",)
"""
OPENS = r"mine\.py, line \d+: opens .*/elsewhere/{}; no key covers what it holds"
RUNS = r"mine\.py, line \d+: runs .*/elsewhere/extern\.py; no key covers what that brings in"


@pytest.fixture
def method(tmp_path, monkeypatch):
    """Imports a method with that source, watched; beside it are a module and data, and others lie elsewhere."""
    files = {"mine": {"helper.py": "K = 1.0\n", "prior.txt": "1", "unnamed.txt": "1"}}
    files["elsewhere"] = {"extern.py": "K = 1.0\n", "k.txt": "1"}
    for folder, contents in files.items():
        (tmp_path / folder).mkdir()
        for name, text in contents.items():
            (tmp_path / folder / name).write_text(text)
    monkeypatch.setattr("sys.path", sys.path[:])
    for module in ("helper", "extern"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    file = tmp_path / "mine" / "mine.py"

    def imported(source):
        file.write_text(textwrap.dedent(source).replace("ELSEWHERE", str(tmp_path / "elsewhere")) + METHOD)
        with Watch(f"{OUTSIDE}mine", file):
            return load("methods", str(file))

    return imported


@pytest.mark.parametrize(
    ("source", "flaw"),
    [
        ("import sys as s; s.path.insert(0, 'ELSEWHERE')\nfrom extern import K", RUNS),
        ("import runpy as r\nr.run_path('ELSEWHERE/extern.py')", OPENS.format("extern.py")),
        ("import builtins\nbuiltins.exec('K = 1')", r"line 2: runs code from a text \(exec or eval\)"),
        ("import builtins\nK = getattr(builtins, 'ev' + 'al')('1')", "runs code from a text"),
        ("import code\ncode.InteractiveInterpreter().runsource(open('ELSEWHERE/k.txt').read())", OPENS.format("k.txt")),
        ("K = open('ELSEWHERE/k.txt').read()", OPENS.format("k.txt")),
        ("import numpy as n\nK = n.loadtxt('ELSEWHERE/k.txt')", OPENS.format("k.txt")),
        ("from pathlib import Path\nK = Path('ELSEWHERE/k.txt').read_bytes()", OPENS.format("k.txt")),
        ("import os\nK = os.open('ELSEWHERE/k.txt', os.O_RDWR)", OPENS.format("k.txt")),
        ("from pathlib import Path\nK = Path(__file__).with_name('unnamed.txt').read_text()", "opens .*unnamed.txt"),
        ("try:\n    open('ELSEWHERE/k.txt')\nfinally:\n    raise SystemError('of its own')", OPENS.format("k.txt")),
        (
            "import subprocess as s\nK = s.run(['cat', 'ELSEWHERE/k.txt'], capture_output=True)",
            "starts another program",
        ),
        ("import os\nK = os.popen('cat ELSEWHERE/k.txt').read()", "starts another program"),
        (
            "import socket\ntry:\n    socket.create_connection(('127.0.0.1', 9))\nexcept OSError:\n    pass",
            "the network",
        ),
    ],
)
def test_what_no_key_covers_is_refused(method, source, flaw):
    with pytest.raises(UserError, match=flaw):
        method(source)


def test_what_a_copy_of_the_code_lacks_is_named(method):
    with pytest.raises(UserError, match=r"opens .*/absent\.txt"):
        method("from pathlib import Path\nK = Path(__file__).with_name('absent.txt').read_text()")


@pytest.mark.parametrize(
    "source",
    [
        "import helper",
        "from pathlib import Path\nK = float(Path(__file__).with_name('prior.txt').read_text())",
        "import numpy as n\nfrom pathlib import Path\nK = n.loadtxt(Path(__file__).with_name('prior.txt'))",
        "import sklearn.cluster, scipy.optimize, matplotlib.figure, zoneinfo, encodings.idna",
        "import xml.dom.minidom",
        "from collections import namedtuple\nfrom dataclasses import dataclass\nP = namedtuple('P', 'x y')",
        "import warnings\nwarnings.warn('of its own')",
        "import inspect, math\ndef f(): pass\ninspect.getsource(f)",
        "import tempfile\nwith tempfile.NamedTemporaryFile('w+') as f:\n    open(f.name).read()",
        "import os\nopen('/proc/self/status').read(); os.listdir('.')",
        "print('imported')",
        "import torch\nK = torch.jit.script(torch.nn.Linear(1, 1))",
    ],
)
def test_what_is_installed_covered_or_its_own_is_allowed(method, source):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert method(source).__name__ == "Mine"


def test_nothing_is_heard_outside(method, tmp_path):
    heard = []
    with listening(lambda event, arguments: heard.append(opened_path(event, arguments))):
        open(tmp_path / "elsewhere" / "k.txt").close()
    open(tmp_path / "elsewhere" / "extern.py").close()
    assert heard == [str(tmp_path / "elsewhere" / "k.txt")]
