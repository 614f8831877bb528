"""What a study names is read with care: no device without end, no file that is too large, and a true sentence."""

import os
from pathlib import Path

import pytest
from papers import PAPER, write_paper
from studies import parsed, study_of

from fedgrid.errors import UserError
from fedgrid.grid.plan import manifest
from fedgrid.grid.plan.product import planned_study
from fedgrid.grid.study import yaml_file
from fedgrid.grid.study.sections import Section
from fedgrid.grid.study.yaml_file import read

PIPE = "pipe.csv"
METHOD = "from fedgrid.methods.fedavg import FedAvg\n\n\nclass Mine(FedAvg):\n    files = ('pipe.csv',)\n"


@pytest.fixture(autouse=True)
def folder(working_folder):
    """A folder with a paper, and a pipe from which reading would wait for ever."""
    os.mkfifo(PIPE)
    write_paper(working_folder)
    return working_folder


def study(text):
    Path("study.yaml").write_text(text)
    return Path("study.yaml")


def sparse(name, size):
    """A file of that size, which takes no room."""
    with open(name, "wb") as file:
        file.truncate(size)
    return Path(name)


def test_too_many_values_are_refused_and_no_aliases_are_blamed():
    with pytest.raises(UserError, match=r"it holds more than 100,000 values") as error:
        read(study("[" + "0," * yaml_file.MOST_VALUES + "]"))
    assert "alias" not in str(error.value)


def test_no_more_values_are_composed_than_are_allowed(monkeypatch):
    monkeypatch.setattr(yaml_file, "MOST_VALUES", 7)
    assert read(study("seeds: [0, 1, 2, 3]")) == {"seeds": [0, 1, 2, 3]}
    with pytest.raises(UserError, match="it holds more than 7 values"):
        read(study("seeds: [0, 1, 2, 3, 4, [not even YAML"))


def test_deep_nesting_is_refused():
    assert read(study(f"seeds: {'[' * 99}{']' * 99}"))["seeds"]
    with pytest.raises(UserError, match=r"^study\.yaml: cannot be read \(it is nested more than 100 levels deep\)$"):
        read(study(f"seeds: {'[' * 100_000}"))


def test_aliases_do_not_nest_deeper_either():
    nested = "".join(f"k{level}: &a{level} [*a{level - 1}]\n" for level in range(1, 400))
    with pytest.raises(UserError, match=r"^study\.yaml: cannot be read \(it is nested too deeply\)$"):
        read(study(f"k0: &a0 [x]\n{nested}"))


def test_aliases_are_counted_by_their_expanded_size(monkeypatch):
    monkeypatch.setattr(yaml_file, "MOST_VALUES", 20)
    with pytest.raises(UserError, match=r"with its aliases \(\*name\) it holds 26 values, and a study may have 20"):
        read(study("a: &a [x, x, x, x]\nb: [*a, *a, *a]\nc: x"))
    with pytest.raises(UserError, match="contains itself"):
        read(study("a: &a [*a]"))


def test_a_file_that_is_too_large_is_refused_before_it_is_read():
    with pytest.raises(UserError, match=r"^large\.yaml has 5\.0 MB; at most 4 MB are allowed"):
        read(sparse("large.yaml", 5_000_000))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("name: s".encode("utf-16"), r": not YAML \(byte 0xff at position 0 is not UTF-8\)"),
        ("name: s\ntitle: é".encode("latin-1"), r": not YAML \(byte 0xe9 at position 15 is not UTF-8\)"),
        ("name: s\nseeds: [0]".encode("utf-16-le"), r":1: not YAML \(the character '\\x00' is not allowed\)"),
        (b"name: s\ntitle: \x1b[31m", r":2: not YAML \(the character '\\x1b' is not allowed\)"),
        (b"", ":1: a study is a mapping of keys such as name, data, methods"),
    ],
    ids=["UTF-16", "Latin-1", "UTF-16 without its mark", "a control character", "an empty file"],
)
def test_a_study_that_is_no_text(content, problem):
    Path("study.yaml").write_bytes(content)
    with pytest.raises(UserError, match=rf"^study\.yaml{problem}$"):
        read(Path("study.yaml"))


@pytest.mark.parametrize("name", [PIPE, "."])
def test_a_study_that_is_no_file(name):
    with pytest.raises(UserError, match=f"^{name} is not a regular file"):
        read(Path(name))


@pytest.mark.parametrize("name", [PIPE, "."])
def test_printed_numbers_that_are_no_file(name):
    with pytest.raises(UserError, match=f"^published: {name} is not a regular file"):
        planned_study(Section(parsed(PAPER) | {"published": name}))


def test_printed_numbers_that_are_too_large():
    sparse("large.csv", 65_000_000)
    with pytest.raises(UserError, match=r"^published: large\.csv has 65\.0 MB; at most 64 MB are allowed"):
        planned_study(Section(parsed(PAPER) | {"published": "large.csv"}))


def test_other_files_beside_printed_numbers_are_ignored():
    planned = planned_study(Section(parsed(PAPER)))
    before = manifest.page(planned)  # though a pipe lies there
    Path("latin.csv").write_bytes(b"\xe9")
    assert manifest.page(planned) != before


@pytest.mark.parametrize("name", [PIPE, "none.pth"])
def test_weights_that_are_no_file(name):
    features = {"backbone": "vit_tiny_patch16_224", "weights": name}
    with pytest.raises(UserError, match=rf"^data\.features\.weights: there is no file {name}"):
        study_of(data={"name": "digits", "features": features})


def test_a_method_that_names_no_file_as_its_data():
    Path("mine.py").write_text(METHOD)
    with pytest.raises(UserError, match=r"mine\.py: its `files` name pipe\.csv, which is not a regular file"):
        study_of(methods={"a": {"method": "mine.py"}})


def test_a_method_that_is_too_large():
    sparse("mine.py", 65_000_000)
    with pytest.raises(
        UserError, match=r"^methods\.a\.method: method 'mine\.py' has 65\.0 MB; at most 64 MB are allowed"
    ):
        study_of(methods={"a": {"method": "mine.py"}})


def test_a_published_partition_that_is_no_file():
    with pytest.raises(UserError, match=r"pipe\.csv is not a file"):
        study_of(heterogeneity=[{"partition": f"file:{PIPE}"}])
