"""Files in the working folder that are called like modules: no command imports one."""

import os
import shlex
import shutil
import subprocess
import sys

import pytest

NAMES = ("difflib", "fedgrid", "multiprocessing", "pulp", "snakemake", "torch", "yaml")
HOSTILE = "from pathlib import Path\nPath(__file__).with_suffix('.ran').touch()\nraise ImportError\n"
PROGRAMS = {"fedgrid": "fedgrid.cli.main", "snakemake": "snakemake.cli"}
OLD_SNAKEFILE = "from fedgrid.shipped import study_rules\ninclude: study_rules()\nrule all:\n    input: EVERYTHING\n"
"What `fedgrid init` wrote in version 1.0."


@pytest.fixture
def hostile(project, tmp_path):
    """The finished project with such files, and programs as pip installs them, which start without the folder."""
    folder = shutil.copytree(project, tmp_path / "project")
    for name in NAMES:
        (folder / f"{name}.py").write_text(HOSTILE)
    for program, module in PROGRAMS.items():
        text = f"import sys\nfrom {module} import main\nif __name__ == '__main__':\n    sys.exit(main())\n"
        (tmp_path / program).write_text(text)
    return folder


def call(folder, command):
    """Calls a command in the folder; returns its output, and the files of the folder that it imported."""
    program, *options = shlex.split(command)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    run = subprocess.run(
        [sys.executable, str(folder.parent / program), *options],
        cwd=folder,
        env=environment | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1", "MPLBACKEND": "agg"},
        capture_output=True,
        text=True,
    )
    return run.stdout + run.stderr, sorted(file.stem for file in folder.glob("*.ran"))


COMMANDS = {
    "fedgrid go --dry-run": "This was a dry-run",
    "snakemake --cores 1 --dry-run": "This was a dry-run",
    "fedgrid verify --cells 1": "every recorded bit is the same",
    "fedgrid plan": "16 cached, 0 to run",
    "fedgrid status": "0 missing",
    "fedgrid report": "all 16 cells are finished",
    "fedgrid check local": "21 passed",
}
QUICK = ("fedgrid go --dry-run", "snakemake --cores 1 --dry-run", "fedgrid verify --cells 1")


@pytest.mark.parametrize(
    "command", [pytest.param(command, marks=[] if command in QUICK else pytest.mark.full) for command in COMMANDS]
)
def test_no_command_imports_a_file_of_the_working_folder(hostile, command):
    output, imported = call(hostile, command)
    assert COMMANDS[command] in output and not imported, output


@pytest.mark.full
@pytest.mark.parametrize("command", ["fedgrid go --snakemake='--until train'", "snakemake --cores 1 --until train"])
def test_neither_does_a_run_that_trains(hostile, command):
    for file in list((hostile / "results/store/cells").rglob("*.parquet"))[:2]:
        file.unlink()
    output, imported = call(hostile, command)
    assert "Requested targets are done" in output and not imported, output


@pytest.mark.full
def test_an_older_snakefile_leaves_the_folder_out_with_the_rules(hostile):
    (hostile / "Snakefile").write_text(OLD_SNAKEFILE)
    (hostile / "fedgrid.py").unlink()
    output, imported = call(hostile, "snakemake --cores 1 --dry-run")
    assert "This was a dry-run" in output and not imported, output
