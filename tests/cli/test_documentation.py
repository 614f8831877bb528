"""The page on methods says what the methods say, and every paper that they name can be cited."""

import inspect
import re
from collections import Counter
from pathlib import Path

import pytest

from fedgrid.cli.main import main
from fedgrid.cli.reference import GROUPS, idea, methods_page, own_methods, page
from fedgrid.components import describe
from fedgrid.grid.study.method_lists import group
from fedgrid.loading import load
from fedgrid.suite.state_sizes import KeptNumbers, kept_numbers

ROOT = Path(__file__).parents[2]
ENTRY = re.compile(r"^@(\w+)\{([\w:-]+),\n(.*?)^\}$", re.MULTILINE | re.DOTALL)
FIELD = re.compile(r"^  (\w+) = \{(.+)\},$", re.MULTILINE)
METHODS = own_methods()


@pytest.fixture(scope="module")
def text():
    return methods_page()


@pytest.fixture(scope="module")
def bibliography():
    return (ROOT / "CITATIONS.bib").read_text(encoding="utf-8")


def section(text, name):
    return re.search(rf"^## {name}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)[1]


def balanced(text):
    """Whether every brace is closed and none is closed too early."""
    depth = 0
    for sign in re.findall(r"[{}]", text):
        depth += 1 if sign == "{" else -1
        if depth < 0:
            return False
    return depth == 0


def test_the_committed_page_is_up_to_date(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    assert main(["docs", "--check"]) == 0, capsys.readouterr().err


def test_a_page_is_written_and_found_up_to_date(working_folder, capsys, text):
    assert main(["docs"]) == 0
    assert (working_folder / "docs/methods.md").read_text(encoding="utf-8") == text
    assert main(["docs", "--check"]) == 0
    assert "is up to date" in capsys.readouterr().out


@pytest.mark.parametrize("change", ["changed", "missing"])
def test_a_stale_page_is_refused_in_one_sentence(tmp_path, capsys, text, change):
    file = tmp_path / "page.md"
    if change == "changed":
        file.write_text(text.replace("# Methods", "# Method", 1), encoding="utf-8")
    before = file.read_bytes() if file.exists() else None
    assert main(["docs", "--check", "--out", str(file)]) == 2
    output = capsys.readouterr().err
    assert output == f"fedgrid: {file} is out of date; update it with: fedgrid docs --out {file}\n"
    assert (file.read_bytes() if file.exists() else None) == before


def test_sections_are_in_the_order_of_the_names(text):
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == ["Which one do I need?", *METHODS]


def test_every_method_is_in_the_table_of_its_group(text):
    groups = {name: group(describe(load("methods", name))["facts"]["family"]) for name in METHODS}
    assert set(groups.values()) == set(GROUPS)
    expected = [name for which in GROUPS for name in METHODS if groups[name] == which]
    assert re.findall(r"^\| \[`(\w+)`\]\(#\1\)", text, re.MULTILINE) == expected
    assert re.findall(r"^### (.*)$", text, re.MULTILINE) == [which.capitalize() for which in GROUPS]


@pytest.mark.parametrize("name", METHODS)
def test_a_docstring_begins_with_the_idea(name):
    first = idea(inspect.getdoc(inspect.getmodule(load("methods", name))))
    assert 20 < len(first) < 130 and "\n" not in first


@pytest.mark.parametrize(
    ("name", "client", "server"),
    [
        ("fedavg", "nothing", "|θ|"),
        ("local", "|θ|", "nothing"),
        ("fedper", "|θ|", "|φ|"),
        ("scaffold", "|θ|", "2·|θ|"),
        ("fedrod", "|π|", "|θ|"),
        ("fedcosr", "|θ| + 1", "C·k + C + |φ|"),
        ("fedpcl", "|θ|", "C·k + C + N·C·k + N·C"),
        ("pfedhn", "nothing", "3·M"),
        ("cfl", "nothing", "2·N + 1 + |θ|"),
        ("ifca", "nothing", "3·|θ| + N"),
    ],
)
def test_what_is_kept_between_rounds(name, client, server):
    kept = kept_numbers(name)
    assert (kept.client, kept.server) == (client, server)


@pytest.mark.parametrize("name", METHODS)
def test_a_section_holds_every_hyperparameter(text, name):
    actual = re.findall(r"^\| `(\w+)` \| (?:[^|\n]+ \| ){2}\S.*\|$", section(text, name), re.MULTILINE)
    parameters = [p["name"] for p in describe(load("methods", name))["parameters"]]
    assert actual == parameters
    assert ("No hyperparameters." in section(text, name)) == (not parameters)


@pytest.mark.parametrize("name", METHODS)
def test_a_method_says_what_the_overview_needs(name):
    facts = describe(load("methods", name))["facts"]
    assert all(facts[key] for key in ("family", "shares", "down", "up", "work", "score"))


@pytest.mark.parametrize("name", METHODS)
def test_a_symbol_table_is_a_code_block(text, name):
    lines = section(text, name).splitlines()
    starts = [i for i, line in enumerate(lines) if line.startswith("    ") and not lines[i - 1].startswith("    ")]
    assert all(not lines[i - 1] for i in starts)  # without the empty line, Markdown reads on in the paragraph


@pytest.mark.parametrize("name", METHODS)
def test_a_method_cites_a_paper_that_is_there(bibliography, name):
    key = describe(load("methods", name))["facts"]["cite"]
    assert key in {key for _, key, _ in ENTRY.findall(bibliography)} or (name, key) == ("local", "")


def test_the_bibliography_parses(bibliography):
    entries = ENTRY.findall(bibliography)
    assert entries and len(entries) == bibliography.count("@")
    assert max(Counter(key for _, key, _ in entries).values()) == 1
    assert balanced(bibliography)
    for _, key, body in entries:
        fields = dict(FIELD.findall(body))
        assert len(fields) == len(body.splitlines()), key
        assert {"title", "author", "year"} <= fields.keys(), key
        assert re.fullmatch(r"(19|20)\d\d", fields["year"]), key
        assert all(balanced(value) for value in fields.values()), key


def test_plain_text_keeps_its_meaning_in_markdown():
    facts = {"family": "own models: a", "shares": "φ|θ", "down": "|φ| + C·k", "up": "|φ|", "work": "1 + E"}
    facts |= {"score": "received", "cite": ""}
    doc = "Weight λ of `a*b`,\nor none."
    limits = [{"name": "lam", "types": ["float", "None"], "default": 0.5, "doc": doc, "above": 0, "high": 1}]
    limits += [{"name": "part", "types": ["str"], "default": "x", "doc": "", "choices": ("x", "y")}]
    limits += [{"name": "on", "types": ["bool"], "default": True, "doc": ""}]
    limits += [{"name": "free", "types": ["int"], "default": 1, "doc": ""}]
    method = {
        "kept": KeptNumbers("|θ|", "nothing"),
        "title": "Mine",
        "facts": facts,
        "parameters": limits,
        "text": "Mine: ‖θ‖_∞ of θ_i, *not* w*\n+ 2.\n\n    θ* < _x_",
    }
    output = page({"mine": method})
    row = (
        "| [`mine`](#mine) Mine | ‖θ‖\\_∞ of θ_i, *not* w\\* + 2 | φ\\|θ"
        " | \\|φ\\| + C·k | \\|φ\\| | 1 + E | \\|θ\\| | nothing | received | – |"
    )
    assert f"{row}\n" in output
    assert "Mine: ‖θ‖\\_∞ of θ_i, *not* w\\*\n\\+ 2.\n\n    θ* < _x_\n" in output
    assert "| `lam` | 0.5 | > 0, ≤ 1 or none | Weight λ of `a*b`, or none. |\n" in output
    assert "| `part` | x | x, y |  |\n" in output and "| `on` | true | true, false |  |\n" in output
    assert output.endswith("| `free` | 1 | any |  |\n")
