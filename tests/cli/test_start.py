"""What commands import before they begin: libraries take most of the time that a command needs to start."""

import subprocess
import sys

import pytest

from fedgrid.cli.commands import COMMANDS
from fedgrid.cli.components import component_text
from fedgrid.files import write_text
from fedgrid.grid.costs.forecast import Trial
from fedgrid.grid.study.model import Configured
from fedgrid.jobs import measurements
from fedgrid.loading import OUTSIDE

HEAVY = {"numpy", "pandas", "pyarrow", "torch"}
EDITS = {"the same": "", "a comment": "# of this file\n", "other code": "x = 1\n"}


def libraries(*arguments):
    """The heavy libraries that a command imports, and what it prints."""
    command = [sys.executable, "-X", "importtime", "-m", "fedgrid.cli.main", *arguments]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    modules = {line.rpartition("|")[2].strip() for line in run.stderr.splitlines() if line.startswith("import time:")}
    assert "fedgrid.cli.commands" in modules
    return HEAVY & modules, run.stdout


@pytest.mark.parametrize("arguments", [("--help",), ("--version",), ("methods", "fedcosr"), ("status", "--help")])
def test_what_reads_no_results_imports_no_library(arguments):
    libraries(*arguments)  # descriptions are kept
    assert libraries(*arguments)[0] <= ({"numpy", "pyarrow"} if arguments[0] == "status" else set())


def test_a_second_plan_imports_no_torch_and_estimates_the_same(folder):
    (_, first), (imported, second) = libraries("plan", "study.yaml"), libraries("plan", "study.yaml")
    assert imported == {"numpy", "pyarrow"}
    assert first.rpartition("planned in")[0] == second.rpartition("planned in")[0]


@pytest.mark.parametrize("edit", EDITS)
def test_a_network_is_counted_again_where_its_file_has_changed(edit, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    counted = []
    monkeypatch.setattr("fedgrid.jobs.calibration.sizes", lambda trials: counted.extend(trials) or [7] * len(trials))
    file = tmp_path / "net.py"
    write_text(file, component_text("models", "net"))
    trial = Trial(Configured("net", {}, {}, "Net", str(file), f"{OUTSIDE}models.net", str(file)), (8, 8, 1), 10, 16)
    assert measurements.sizes([trial]) == measurements.sizes([trial]) == [7]
    write_text(file, file.read_text() + EDITS[edit])
    assert measurements.sizes([trial]) == [7]
    assert len(counted) == (2 if EDITS[edit] else 1)


def test_lines_of_help_are_those_of_the_commands():
    for name, entry in COMMANDS.items():
        assert (name, entry.text) == (entry.command().name, entry.command().text)
