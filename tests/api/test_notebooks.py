"""The notebooks of the documentation, run by Jupyter's own kernel."""

import os
import re
import shutil
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).parents[2] / "docs/notebooks"


@pytest.fixture
def outputs(monkeypatch):
    """Runs a notebook in a folder; returns the text of all its outputs."""
    tools = Path(sys.executable).parent
    monkeypatch.setenv("PATH", os.pathsep.join([str(tools), os.environ["PATH"]]))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("IPYTHONDIR", os.environ["XDG_CACHE_HOME"])

    def run(name, folder):
        notebook = nbformat.read(NOTEBOOKS / name, as_version=4)
        NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}}).execute()
        outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
        return "".join(str(output.get("text", "")) + str(output.get("data", "")) for output in outputs)

    return run


@pytest.mark.full
def test_read_a_study(run_once, tmp_path, outputs):
    project = shutil.copytree(run_once, tmp_path / "project")
    text = outputs("read-a-study.ipynb", project)
    assert "Dirichlet β=0.1, 8 clients" in text and "FedCoSR" in text and text.count("image/png") == 2


@pytest.mark.full
def test_write_a_method(tmp_path, outputs):
    text = outputs("write-a-method.ipynb", tmp_path)
    assert "image/png" in text and "fading, strength = 1 (own file)" in text


def test_notebooks_are_stored_without_outputs():
    for file in NOTEBOOKS.glob("*.ipynb"):
        assert not any(cell.get("outputs") for cell in nbformat.read(file, as_version=4).cells), file.name


@pytest.mark.full
def test_the_example_of_the_reference(project):
    (code,) = re.findall(r"```python\n(.*?)```", (NOTEBOOKS.parent / "python.md").read_text(encoding="utf-8"), re.S)
    exec(compile(code, "python.md", "exec"), {})
