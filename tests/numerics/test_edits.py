"""The edits of benchmarks fit the package."""

import pytest
from edits import EDITS, NotOnce, same

from benchmarks.processes import ROOT


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.name)
def test_every_edit_changes_the_code(edit, tmp_path):
    """Each of its texts is in its file exactly once, and what comes out is Python."""
    package = ROOT / "src" / "fedgrid"
    for name in {name for name, *_ in edit.replaced}:
        copy = tmp_path / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes((package / name).read_bytes())
    edit.apply(tmp_path)
    for file in tmp_path.rglob("*.py"):
        compile(file.read_text(encoding="utf-8"), str(file), "exec")
    assert all((tmp_path / name).read_bytes() != (package / name).read_bytes() for name, *_ in edit.replaced)


@pytest.mark.parametrize("text", ["one", "three"])
def test_an_edit_whose_text_is_not_there_once_fails(tmp_path, text):
    (tmp_path / "tree.py").write_text("one one two")
    with pytest.raises(NotOnce, match=r"tree\.py"):
        same("e", "…", ("tree.py", text, "four")).apply(tmp_path)
