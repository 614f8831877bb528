import re
from pathlib import Path

import pytest

from fedgrid import analysis
from fedgrid.analysis import tables
from fedgrid.analysis.report import main


@pytest.fixture
def inputs(toy):
    """Give the arguments of a report on the toy study with two figures."""
    results, folder = str(toy.results()), toy.folder
    tables.main([results, str(folder / "tables")])
    for stem in ("one", "two"):
        (folder / f"{stem}.svg").write_text(
            f'<svg id="same" xmlns="http://www.w3.org/2000/svg"><text>{stem}</text></svg>'
        )
        (folder / f"{stem}.txt").write_text(f"Figure {stem}\n\nThe caption of <{stem}>.\n")
    return [
        results,
        str(folder / "report.html"),
        "--tables",
        str(folder / "tables"),
        "--figures",
        str(folder / "one.svg"),
        str(folder / "two.svg"),
        "--configfile",
        "config/study.yaml",
    ]


def test_report_says_everything(toy, inputs):
    assert main(inputs) == 0
    page = (toy.folder / "report.html").read_text()
    for text in (
        "<h1>Toy study</h1>",
        "3 methods, 3 seeds, 15 cells, of which 1 failed",
        "lam = 0.75",
        "Dirichlet β=0.1",
        "<strong>85.75 ± 0.75</strong><sup>*</sup>",
        "<h3>Figure one</h3>",
        "The caption of &lt;two&gt;.",
        "Time per cell (s)",
        "the loss of client 1 is not finite in round 1",
        "15 of 15 cells",
        "snakemake --cores all --configfile config/study.yaml",
    ):
        assert text in page, text
    assert page.count('<img src="data:image/svg+xml;base64,') == 2


def test_report_needs_nothing_from_outside(toy, inputs):
    main(inputs)
    page = (toy.folder / "report.html").read_text()
    assert not re.search(r"https?://|<script|<link|@import|url\(", page)
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids)) and {f"#{name}" for name in ids} >= set(re.findall(r'href="([^"]+)"', page))


def test_report_is_reproducible_and_escapes(toy, inputs):
    toy.study["title"] = "<b>Toy</b>"
    toy.results()
    main(inputs)
    first = (toy.folder / "report.html").read_bytes()
    main(inputs)
    assert (toy.folder / "report.html").read_bytes() == first
    assert b"<h1>&lt;b&gt;Toy&lt;/b&gt;</h1>" in first


def test_a_missing_figure_or_table_is_one_sentence(toy, inputs, capsys):
    (toy.folder / "two.txt").unlink()
    assert main(inputs) == 2
    assert "two.txt, which does not exist." in capsys.readouterr().err


def imported_by(files):
    texts = [file.read_text() for file in files]
    return {name for text in texts for name in re.findall(r"^\s*(?:from|import) ([\w.]+)", text, re.MULTILINE)}


def test_analysis_imports_neither_torch_nor_pyplot():
    imported = imported_by(Path(analysis.__file__).parent.glob("*.py"))
    assert not {name for name in imported if name.split(".")[0] == "torch" or name == "matplotlib.pyplot"}


def test_only_the_report_of_an_unfinished_run_knows_studies():
    """All else is made from files alone: results, partitions and manifests."""
    files = {file for file in Path(analysis.__file__).parent.glob("*.py") if file.name != "partial.py"}
    rooms = {name for name in imported_by(files) if name.startswith("fedgrid") and "analysis" not in name}
    published = {f"fedgrid.partition.common.{name}" for name in ("publish", "statistics")}
    assert rooms == {"fedgrid.command", "fedgrid.errors", "fedgrid.files", *published}
