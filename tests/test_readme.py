"""README.md counts the methods, and its picture is of the default study as this version of the code computes it."""

import json
import re
from pathlib import Path

import yaml
from studies import study_of

from fedgrid.analysis.pages.readme_picture import draw
from fedgrid.loading import packaged

ROOT = Path(__file__).parents[1]
STEM = ROOT / "docs/images/table"
README = (ROOT / "README.md").read_text(encoding="utf-8")
ANEW = "`make picture` draws it anew"


def committed():
    return json.loads(STEM.with_suffix(".json").read_text(encoding="utf-8"))


def test_the_picture_is_that_of_its_texts():
    assert STEM.with_suffix(".svg").read_text(encoding="utf-8") == draw(committed()), ANEW


def test_its_numbers_are_of_the_cells_that_the_default_study_has_today():
    default = yaml.safe_load((ROOT / "config/study.yaml").read_text(encoding="utf-8"))
    keys = sorted(cell.key for cell in study_of(**default).cells)
    assert committed()["keys"] == keys, f"code or settings of the default study have changed: {ANEW}"


def test_readme_shows_it_and_no_other():
    shown = re.findall(r"!\[[^]]*\]\(([^)]+)\)", README)
    assert shown == ["docs/images/table.svg"]
    files = {file.name for file in (ROOT / "docs/images").iterdir() if file.is_file()}
    assert files == {"table.svg", "table.json", "ranking.svg"}  # the last one is of docs/ranking.md


def test_it_counts_the_methods():
    count = len(packaged("methods"))
    assert f"**{count} methods**" in README
    assert f"| **fedgrid** | {count} |" in (ROOT / "docs/alternatives.md").read_text(encoding="utf-8")
