"""``fedgrid init`` and ``fedgrid go``."""

import gzip
import os
from pathlib import Path

import pytest
import yaml

from fedgrid.cli.main import main
from fedgrid.run.launch import SNAKEMAKE, snakemake_arguments

ROOT = Path(__file__).parents[2]


def test_a_project_has_what_a_run_needs_and_keeps_what_its_user_changed(folder, output):
    output("init", "mine")
    files = {file.relative_to("mine").as_posix() for file in Path("mine").rglob("*") if file.is_file()}
    profiles = {"profiles/default/config.yaml", "profiles/slurm/config.yaml"}
    assert files == {"Snakefile", ".gitignore", "README.md", "config/study.yaml", *profiles}
    assert Path("mine/Snakefile").read_text() == (ROOT / "src/fedgrid/cli/templates/Snakefile.txt").read_text()
    assert len(Path("mine/README.md").read_text().splitlines()) <= 10
    Path("mine/config/study.yaml").write_text("name: changed\n")
    assert "kept     mine/config/study.yaml, which differs" in output("init", "mine")
    assert Path("mine/config/study.yaml").read_text() == "name: changed\n"


def test_a_paper_comes_with_its_printed_numbers_and_can_be_planned(folder, output, monkeypatch):
    assert "fedgrid go config/papers/fedssc.yaml --scale small" in output("init", ".", "--paper", "fedssc")
    assert output("plan", "--configfile", "config/papers/fedssc.yaml", "--scale", "small")
    monkeypatch.chdir("config")  # its numbers lie beside it, wherever a command is run
    assert output("plan", "--configfile", "papers/fedssc.yaml")


def test_all_papers_come_with_one_word(folder):
    assert main(["init", ".", "--paper", "all"]) == 0
    names = {file.name for file in (ROOT / "config/papers").iterdir()}
    assert {file.name for file in Path("config/papers").iterdir()} == names


@pytest.mark.parametrize(("name", "hint"), [("fedsack", "did you mean 'fedsac'?"), ("", "known: all, fedccl, ")])
def test_an_unknown_paper_is_one_sentence(folder, complaint, name, hint):
    assert complaint("init", ".", "--paper", name).startswith(f"fedgrid: --paper: no paper '{name}'; {hint}")
    assert not Path("Snakefile").exists()


def test_a_study_that_does_not_exist_is_one_sentence(folder, complaint):
    sentence = "fedgrid: config/none.yaml: no such study; fedgrid init makes a project with one\n"
    assert complaint("go", "config/none.yaml") == sentence


NOT_STUDIES = {
    "UTF-16": ("name: s".encode("utf-16"), "not YAML (byte 0xff at position 0 is not UTF-8)"),
    "a gzip file": (gzip.compress(b"name: s", mtime=0), "not YAML (byte 0x8b at position 1 is not UTF-8)"),
    "a NUL byte": (b"name: \0", r"not YAML (the character '\x00' is not allowed)"),
    "nothing": (b"", "a study is a mapping of keys such as name, data, methods"),
    "an octal number": (b"training: {rounds: 010}", "training.rounds: YAML reads 010 as the octal number 8"),
}


@pytest.fixture
def started(monkeypatch):
    """The commands that start Snakemake, which does not begin."""
    commands = []
    monkeypatch.setattr(os, "execv", lambda interpreter, command: commands.append(command))
    return commands


@pytest.mark.parametrize("case", NOT_STUDIES)
def test_what_is_no_study_is_one_sentence_before_snakemake_starts(folder, complaint, started, case):
    content, problem = NOT_STUDIES[case]
    Path("study.yaml").write_bytes(content)
    sentence = complaint("go", "study.yaml")
    assert sentence.startswith("fedgrid: study.yaml:") and problem in sentence and not started


def test_a_folder_or_a_pipe_is_no_study(folder, complaint, started):
    os.mkfifo("pipe")
    for name in (".", "pipe"):
        assert complaint("go", name) == f"fedgrid: {name} is not a regular file\n" and not started


def test_a_study_is_started(folder, started):
    assert main(["go", "study.yaml", "--cores", "1"]) == 0
    assert started == [[*SNAKEMAKE, *snakemake_arguments(Path("study.yaml"), "1")]]


def test_the_command_that_go_stands_for(folder):
    main(["init", "."])
    study = Path("config/study.yaml")
    whole = ["--cores", "2", "--configfile", "config/study.yaml"]
    assert snakemake_arguments(study, "2") == whole
    assert snakemake_arguments(study, "2", "small", "table1") == [*whole, "--config", "scale=small", "only=table1"]
    assert snakemake_arguments(study, slurm=True)[:2] == ["--workflow-profile", "profiles/slurm"]


def test_without_a_project_the_rules_and_profiles_of_the_package_are_named(folder):
    arguments = snakemake_arguments(Path("s.yaml"))
    named = dict(zip(arguments[::2], arguments[1::2], strict=True))
    assert Path(named["--snakefile"]).is_file()
    assert yaml.safe_load((Path(named["--workflow-profile"]) / "config.yaml").read_text())["scheduler"] == "greedy"


@pytest.mark.parametrize("name", ["default", "slurm"])
def test_profiles_of_a_project_are_those_of_the_clone(folder, name):
    main(["init", "."])
    profile = f"profiles/{name}/config.yaml"
    assert Path(profile).read_text() == (ROOT / profile).read_text()
