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


FENCED = re.compile(r"^```.*?^```", re.M | re.S)
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)")


def anchors(page):
    """Anchors that GitHub and the site make of a page's headings."""
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    headings = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading) for heading in re.findall(r"^#+ (.+)$", text, re.M)]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files_and_headings(page):
    for path, anchor in LINK.findall(FENCED.sub("", page.read_text(encoding="utf-8"))):
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), path
        assert not anchor or target.suffix != ".md" or anchor in anchors(target), f"{path}#{anchor}"


def test_every_page_is_in_the_navigation():
    index = (ROOT / "docs/index.md").read_text(encoding="utf-8")
    listed = re.findall(
        r"^(?:[^\n`|]+ <)?([\w./-]+)>?$", "\n".join(re.findall(r"```{toctree}\n(.*?)```", index, re.S)), re.M
    )
    assert sorted(listed) == sorted({*listed}) and {p.stem for p in (ROOT / "docs").glob("*.md")} - {"index"} <= {
        *listed
    }
    assert re.findall(r"^:caption: (.*)$", index, re.M) == ["Learn", "Do", "Look up", "Understand"]


COMMANDS = [
    (page, re.split(r"#|   | && ", line)[0].strip())
    for page, text in blocks("")
    for line in text.splitlines()
    if line.startswith("fedgrid ")
]


@pytest.mark.parametrize(("page", "line"), [*COMMANDS, ("README.md", "fedgrid go --slurm")])
def test_commands_are_understood(page, line):
    if "[" in line:
        return  # it describes a form
    command_line.parser().parse_args(shlex.split(line)[1:])


def test_there_are_commands():
    assert len(COMMANDS) > 8


NEEDS = {
    title: re.findall(r"^\| (`fedgrid .*?) \| ", text, re.M)
    for title, text in re.findall(
        r"^## (\w+)\n(.*?)(?=^## |\Z)", (ROOT / "docs/commands.md").read_text(encoding="utf-8"), re.M | re.S
    )
}
"Forms of commands on their page, by its headings."


def test_the_page_of_commands_has_those_of_the_help_in_its_order():
    names = {need: [name for form in forms for name in form_names(form)] for need, forms in NEEDS.items()}
    expected = {need.capitalize(): [c.name for c in commands] for need, commands in command_line.GROUPS.items()}
    assert names == expected | {need: [] for need in names.keys() - expected.keys()}
    assert [need for need in names if need in expected] == list(expected)


def form_names(form):
    """Names of the commands in a form, such as `fedgrid new-model`, `new-data NAME [--folder DIR]`."""
    return [part.removeprefix("fedgrid ").split()[0] for part in re.findall(r"`([a-z][^`]*)`", form)]


@pytest.mark.parametrize("form", [form for forms in NEEDS.values() for form in forms])
def test_a_form_names_options_that_the_command_has(form, capsys):
    for name in form_names(form):
        with pytest.raises(SystemExit):
            command_line.main([name, "--help"])
        assert set(re.findall(r"--[\w-]+", form)) <= set(re.findall(r"--[\w-]+", capsys.readouterr().out))


STORY = "whole-story.md"  # whose study tests/test_whole_story.py runs


@pytest.mark.parametrize(("page", "text"), [block for block in blocks("yaml") if block[0] != STORY])
def test_yaml_is_valid_and_a_whole_study_can_be_planned(page, text, working_folder):
    content = yaml.safe_load(text)
    if not {"name", "data", "methods", "heterogeneity"} <= {*map(str, content)} or "experiments" in content:
        return
    assert command_line.main(["new-method", "mine", "--folder", "path/to"]) == 0
    Path("baselines.yaml").write_text("fedavg:\n")
    tables = blocks("text", [ROOT / "docs/exchange.md"])
    for name, (_, table) in zip(("clients.csv", "theirs.csv"), tables, strict=True):
        Path(name).write_text(table)
    Path("study.yaml").write_text(text, encoding="utf-8")
    assert planned_study(read(Path("study.yaml"))).cells


def test_the_tutorial_shows_the_default_study():
    study = next(text for page, text in blocks("yaml") if page == "first-study.md")
    assert study == (ROOT / "config/study.yaml").read_text(encoding="utf-8")


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
