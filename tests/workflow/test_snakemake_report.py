"""Snakemake's own report of a study: what it has of each experiment, and that it needs nothing from elsewhere."""

import base64
import json
import re
from pathlib import Path

import pytest
from forked import Forked
from snakemake import assets

SCRIPTS = Path(assets.__file__).with_name("data") / "react"
WITHOUT = "this Snakemake came without the scripts of its report, and would download them"
pytestmark = [pytest.mark.full, pytest.mark.skipif(not SCRIPTS.is_dir(), reason=WITHOUT)]
STUDY = """
name: tiny
data: digits
heterogeneity: [{partition: dirichlet, beta: 0.5, clients: 4}]
model: {name: mlp, hidden: 4, features: 4}
training: {rounds: 2}
"""
FOLDER = "results/tiny"


def reported(checkout):
    """The report's text, what it has of each file, and the files by category and subcategory."""
    checkout.snakemake("--report", "report.html")
    text = (checkout.path / "report.html").read_text()
    results, categories = (
        json.loads(re.search(rf"^ *var {name} = ({{.*}});$", text, re.M)[1]) for name in ("results", "categories")
    )
    return text, results, categories


@pytest.fixture(scope="module")
def tiny(tmp_path_factory, forker):
    checkout = Forked(tmp_path_factory.mktemp("plain") / "tree", f"{STUDY}methods: [local, fedavg]\n")
    checkout.snakemake()
    return checkout


@pytest.fixture(scope="module")
def report(tiny):
    return reported(tiny)


def test_a_study_has_its_page_its_tables_and_its_figures(tiny, report):
    _, _, categories = report
    tables = [f"{FOLDER}/tables/{name}.{form}" for name in ("accuracy", "costs") for form in ("csv", "html")]
    figures = sorted(str(file.relative_to(tiny.path)) for file in (tiny.path / FOLDER / "figures").glob("*.svg"))
    narrow = [file for file in figures if file.endswith(".narrow.svg")]
    wide = [file for file in figures if file not in narrow]
    assert narrow and wide
    assert categories == {"tiny": {"Tables": tables, "Figures": wide, "Page": [f"{FOLDER}/report.html"]}}


def test_each_file_is_whole_and_has_a_caption_and_labels(tiny, report):
    _, results, _ = report
    for path, entry in results.items():
        content = base64.b64decode(entry["data_uri"].partition(";base64,")[2])
        assert content == (tiny.path / path).read_bytes()
        label = next(iter(entry["labels"].values()))
        assert label in path and f">{label}<" in entry["caption"] and "system-message" not in entry["caption"]
    formatted = {path: entry["labels"]["formatted"] for path, entry in results.items() if "/tables/" in path}
    assert formatted and all((form == "yes") == path.endswith(".html") for path, form in formatted.items())


def test_the_report_needs_nothing_from_elsewhere_and_makes_nothing_anew(tiny, report):
    text, _, _ = report
    assert 'study <tt class=\\"docutils literal\\">tiny</tt>' in text
    assert not re.findall(r"<(?:script|link|img)[^>]* (?:src|href)=\"?(?!data:)\w+:", text)
    assert tiny.planned() == {}


def test_a_study_with_experiments_has_each_of_them_and_the_page_of_all(tmp_path, forker):
    checkout = Forked(
        tmp_path / "tree", f"{STUDY}experiments:\n  a: {{methods: [local]}}\n  b: {{methods: [fedavg]}}\n"
    )
    checkout.snakemake()
    _, results, categories = reported(checkout)
    assert set(categories) == {"tiny/a", "tiny/b", "All experiments"}
    assert set(categories["tiny/b"]) == {"Tables", "Figures", "Page"}
    assert categories["All experiments"] == {"Other": [f"{FOLDER}/report.html"]}
    assert "on one page" in results[f"{FOLDER}/report.html"]["caption"]
