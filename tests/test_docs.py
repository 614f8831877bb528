"""The documentation: the site builds without a warning, and its examples are valid."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from fedgrid.cli import main as command_line
from fedgrid.grid.plan.product import planned_study
from fedgrid.grid.study.yaml_file import read

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.M | re.S)


def blocks(language, pages=PAGES):
    """(page, text) of each block of code in a language; empty: commands."""
    return [(p.name, m[2]) for p in pages for m in BLOCK.finditer(p.read_text(encoding="utf-8")) if m[1] == language]


@pytest.mark.full
def test_the_site_builds_without_a_warning(tmp_path):
    command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going", "-c", "docs"]
    built = subprocess.run([*command, ".", str(tmp_path)], cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    python = (tmp_path / "docs/python.html").read_text(encoding="utf-8")
    assert 'id="fedgrid.study"' in python and "one of its scales" in python


COMMANDS = [
    (page, re.split(r"#|   | && ", line)[0].strip())
    for page, text in blocks("")
    for line in text.splitlines()
    if line.startswith("fedgrid ")
]


@pytest.mark.parametrize(("page", "line"), [*COMMANDS, ("README.md", "fedgrid status --watch")])
def test_commands_are_understood(page, line):
    if "[" in line:
        return  # it describes a form
    command_line.parser().parse_args(shlex.split(line)[1:])


def test_there_are_commands():
    assert len(COMMANDS) > 8


STORY = "whole-story.md"  # whose study tests/test_whole_story.py runs


@pytest.mark.parametrize(("page", "text"), [block for block in blocks("yaml") if block[0] != STORY])
def test_yaml_is_valid_and_a_whole_study_can_be_planned(page, text, working_folder):
    content = yaml.safe_load(text)
    if not {"name", "data", "methods", "heterogeneity"} <= content.keys() or "experiments" in content:
        return
    assert command_line.main(["new-method", "mine", "--folder", "path/to"]) == 0
    Path("baselines.yaml").write_text("fedavg:\n")
    tables = blocks("text", [ROOT / "docs/exchange.md"])
    for name, (_, table) in zip(("clients.csv", "theirs.csv"), tables, strict=True):
        Path(name).write_text(table)
    Path("study.yaml").write_text(text, encoding="utf-8")
    assert planned_study(read(Path("study.yaml"))).cells


@pytest.mark.parametrize(("page", "text"), blocks("python"))
def test_python_is_valid(page, text):
    compile(text, page, "exec")


def test_the_files_of_the_page_on_components_make_a_study(working_folder):
    texts = [text for page, text in blocks("python") if "extending" in str(page)]
    for name, text in zip(("two_layers", "halves", "bars"), texts, strict=True):
        (working_folder / f"{name}.py").write_text(text, encoding="utf-8")
    assert command_line.main(["new-method", "mine"]) == 0
    (study,) = [text for page, text in blocks("yaml") if "extending" in str(page)]
    Path("study.yaml").write_text(f"name: extended\n{study}training: {{rounds: 1}}\n", encoding="utf-8")
    assert len(planned_study(read(Path("study.yaml"))).cells) == 12
    files = ["--data", "bars.py", "--partition", "halves.py", "--clients", "6", "--model", "two_layers.py"]
    assert command_line.main(["run", "mine.py", *files, "--rounds", "1"]) == 0


@pytest.mark.full
@pytest.mark.parametrize("number", range(3))
def test_the_files_of_the_page_on_components_pass_the_suite(number, tmp_path):
    (tmp_path / "example.py").write_text([text for page, text in blocks("python") if "extending" in str(page)][number])
    command = [sys.executable, "-m", "fedgrid.cli.main", "check", "example.py", "--full"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout
