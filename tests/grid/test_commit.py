"""Which commit the code is."""

import shutil
import subprocess
from pathlib import Path

import pytest

import fedgrid
from fedgrid.grid.plan.cell_metadata import Commit
from fedgrid.grid.plan.commit import commit

GIT = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """A repository with a package in it, which stands for fedgrid's."""
    package = tmp_path / "src/fedgrid"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    monkeypatch.setattr(fedgrid, "__file__", str(package / "__init__.py"))
    subprocess.run([*GIT, "init", "-q", str(tmp_path)], check=True)
    return package


def committed(package: Path) -> str:
    for arguments in (["add", "."], ["commit", "-qm", "x"], ["rev-parse", "HEAD"]):
        run = subprocess.run([*GIT, *arguments], cwd=package, check=True, capture_output=True, text=True)
    return run.stdout.strip()


def test_a_clean_tree_a_changed_one_and_a_new_file(clone):
    name = committed(clone)
    assert commit() == Commit(name, clean=True)
    (clone / "new.py").write_text("")
    assert commit() == Commit(name, clean=False)
    newer = committed(clone)
    assert commit() == Commit(newer, clean=True) and newer != name
    (clone / "__init__.py").write_text("# edited")
    assert not commit().clean
    (clone.parent / "notes.txt").write_text("beside the package")


def test_a_package_that_no_clone_knows(clone):
    assert commit() is None  # installed inside of another repository
    shutil.rmtree(clone.parents[1] / ".git")
    assert commit() is None


def test_without_git(clone, monkeypatch):
    committed(clone)
    monkeypatch.setenv("PATH", "")
    assert commit() is None
