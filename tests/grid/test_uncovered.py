"""Code that a key cannot see is refused by name; data that a method names are covered."""

import os
import sys

import pytest
from studies import FOUR_CELLS, study_of

from fedgrid.errors import UserError
from fedgrid.grid.study.fingerprint import check_files, files, fingerprint, uncovered
from fedgrid.grid.study.nodes import WRITTEN_OUT
from fedgrid.grid.study.sources import _module_file
from fedgrid.loading import load

HEAD = "from fedgrid.methods.fedavg import FedAvg\n"
CLASS = "\n\nclass Mine(FedAvg):\n    files = ('prior.txt',)\n"


@pytest.fixture
def mine(working_folder, monkeypatch):
    """A method's file in a folder of its own; the working folder is another one, and on Python's path."""
    monkeypatch.syspath_prepend(str(working_folder))
    (working_folder / "methods").mkdir()
    (working_folder / "methods" / "prior.txt").write_text("1")
    return working_folder / "methods" / "mine.py"


def actual(file):
    """What no key covers, each without the advice that follows it."""
    return [flaw.partition(";")[0] for flaw in uncovered("fedgrid_outside_mine", file)]


def test_a_module_outside_the_folder_is_refused(mine, tmp_path):
    (tmp_path / "mymaths.py").write_text("def half(x):\n    return x / 2\n")
    mine.write_text("import mymaths\n" + HEAD + CLASS)
    assert actual(mine) == [f"{mine}: the module mymaths is neither beside it nor installed"]
    study = FOUR_CELLS.replace("[local, fedavg]", "{mine: {method: methods/mine.py}}")
    with pytest.raises(UserError, match="the module mymaths is neither beside it nor installed"):
        study_of(study)
    (tmp_path / "mymaths.py").rename(mine.with_name("mymaths.py"))
    _module_file.cache_clear()  # a process looks for a module once
    assert actual(mine) == []


def test_so_is_one_that_a_module_beside_it_imports(mine, tmp_path):
    (tmp_path / "mymaths.py").write_text("")
    mine.with_name("helper.py").write_text("import mymaths\n")
    mine.write_text("import helper\n" + HEAD + CLASS)
    assert actual(mine) == [f"{mine.with_name('helper.py')}: the module mymaths is neither beside it nor installed"]


def test_installed_modules_are_not_audited(mine):
    imports = (
        "import importlib.metadata, math, numpy, torch.nn\nfrom importlib import resources\nfrom PIL import Image\n"
    )
    mine.write_text(imports + HEAD + CLASS)
    assert actual(mine) == []


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("import importlib", "importlib"),
        ("from importlib.util import find_spec", "importlib"),
        ("module = __import__('os')", "__import__"),
        ("exec('x = 1')", "exec"),
        ("import sys; sys.path.append('elsewhere')", "sys.path"),
        ("from sys import path", "sys.path"),
    ],
)
def test_what_brings_in_code_by_other_ways_is_refused(mine, line, what):
    mine.write_text(f"{HEAD}{line}\n{CLASS}")
    assert actual(mine) == [f"{mine}, line 2: {what}"]


def test_methods_of_torch_and_models_are_not_meant(mine):
    mine.write_text(
        HEAD + "import re\nimport torch\n\npattern = re.compile('a')\n\n\ndef f(model):\n    model.eval()\n" + CLASS
    )
    assert actual(mine) == []


@pytest.mark.parametrize(
    "line",
    [
        "files = ('prior.txt',)",
        "files = ['prior.txt']",
        "files: ClassVar[tuple[str, ...]] = ('prior.txt',)",
        "files = names = ('prior.txt',)",
    ],
)
def test_files_count_in_every_form_that_is_written_out(mine, line):
    mine.write_text(f"from typing import ClassVar\n{HEAD}\nclass Mine(FedAvg):\n    {line}\n")
    before = fingerprint("fedgrid_outside_mine", mine)
    assert uncovered("fedgrid_outside_mine", mine) == []
    check_files(type("Mine", (), {"files": ("prior.txt",)}), "fedgrid_outside_mine", mine)
    mine.with_name("prior.txt").write_text("2")
    assert fingerprint("fedgrid_outside_mine", mine) != before


@pytest.mark.parametrize(
    "line",
    [
        "files = FILES",
        "files = ('prior.txt')",
        "files = tuple(['prior.txt'])",
        "files = (f'prior.txt',)",
        "files = ('/etc/hosts',)",
        "files = ('../prior.txt',)",
        "files = (1,)",
    ],
)
def test_files_that_cannot_be_read_from_the_source_are_refused(mine, line):
    mine.write_text(f"{HEAD}FILES = ('prior.txt',)\nclass Mine(FedAvg):\n    {line}\n")
    (flaw,) = uncovered("fedgrid_outside_mine", mine)
    assert flaw == f"{mine}, line 4: {WRITTEN_OUT}"


@pytest.mark.parametrize(
    "line", ["Mine.files = ('prior.txt',)", "setattr(Mine, 'files', 'prior.txt')", "Mine.files += ('prior.txt',)"]
)
def test_so_are_files_that_only_the_loaded_class_names(mine, line):
    mine.write_text(f"{HEAD}\nclass Mine(FedAvg):\n    pass\n\n{line}\n")
    with pytest.raises(UserError, match=r"Mine\.files is .*prior\.txt.* when it runs; write the names"):
        check_files(load("methods", str(mine)), "fedgrid_outside_mine", mine)


@pytest.mark.parametrize(
    ("line", "flaw"), [("Mine.files = ('prior.txt',)", "write the names"), ("open('methods/prior.txt')", "opens")]
)
def test_planning_says_so(mine, line, flaw):
    mine.write_text(f"{HEAD}\nclass Mine(FedAvg):\n    pass\n\n{line}\n")
    with pytest.raises(UserError, match=flaw):
        study_of(methods={"mine": {"method": "methods/mine.py"}})


def test_bytecode_of_an_earlier_version_is_not_run(mine):
    """As two archives have them whose members have one time of modification (``tar --mtime``)."""
    helper = mine.with_name("helper_of_mine.py")
    for number in (1, 2):
        mine.write_text(f"from helper_of_mine import K\n{HEAD}\nclass Mine(FedAvg):\n    numbers = ({number}, K)\n")
        helper.write_text(f"K = {number}\n")
        for file in (mine, helper):
            os.utime(file, (1_600_000_000, 1_600_000_000))
        sys.modules.pop("helper_of_mine", None)
        assert load("methods", str(mine)).numbers == (number, number)


def test_the_data_that_a_method_names_count(mine):
    mine.write_text(HEAD + CLASS)
    prior = mine.with_name("prior.txt")
    before = fingerprint("fedgrid_outside_mine", mine)
    assert files("fedgrid_outside_mine", mine) == [mine, prior]
    prior.write_text("2")
    assert fingerprint("fedgrid_outside_mine", mine) != before
    prior.unlink()
    with pytest.raises(UserError, match=r"prior\.txt: cannot be read"):
        fingerprint("fedgrid_outside_mine", mine)
